"""What the records and commits of a group show, without Spark: causes of rebalances, epochs, transactions.

Pure functions of plain values. docs/dev/pipeline-inference.md has the rules. `tables` gives them rows.
"""
