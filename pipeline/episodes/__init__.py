"""What happened to a group, told as episodes, and a verdict in one sentence. Pure, and without Spark.

The table `episodes` is made with it, and `muster groups describe` and `history` use it on the server's events.
"""
