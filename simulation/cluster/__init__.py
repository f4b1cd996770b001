"""Nodes of a cluster and their database, in virtual time. The database fails, is slow, and reports time-outs of writes
that were done.
"""
