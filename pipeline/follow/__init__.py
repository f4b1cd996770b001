"""Keeps tables up to date from a live cluster.

A stream copies each record of the log exactly once. The functions of `tables` make the tables of the groups with new
records again. All new tables replace the old ones in one step.
"""
