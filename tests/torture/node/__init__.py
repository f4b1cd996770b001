"""A whole node in virtual time: connections, handlers, shards, log and cleaner over a disk, a network, a clock and
clients that fail. One integer reproduces a history.
"""
