"""What the records and commits of a group show: causes of rebalances, epochs, transactions.

This needs no Spark: the functions are pure, and their arguments are plain values. docs/dev/pipeline-inference.md has
the rules. `tables` gives the rows to these functions.
"""
