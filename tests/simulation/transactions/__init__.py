"""Seeded histories of the transaction core: many ids, several producers for one, faults of the log, lost answers, and
markers that come late, never or twice. Checkers see what clients, partitions and the log see.
"""
