"""The nodes of a cluster and their database, in virtual time.

The database fails, is slow, and reports timeouts of writes that it has executed.
"""
