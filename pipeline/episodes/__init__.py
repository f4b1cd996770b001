"""Episodes of a group, and a verdict about it in one sentence. Pure, without Spark.

The table `episodes` is made with this package. `muster groups describe` and `history` use it on the server's events.
"""
