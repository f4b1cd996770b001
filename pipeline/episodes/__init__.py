"""The episodes of a group, and a verdict of one sentence about the group. Pure, without Spark.

The tables `episodes` and `verdicts` are made with this package. `muster groups describe` and `muster groups history`
use it with the server's events.
"""
