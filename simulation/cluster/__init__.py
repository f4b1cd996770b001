"""Nodes of a cluster and their database, in virtual time: the database fails, is slow, and lies by time-out."""
