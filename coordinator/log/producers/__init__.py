"""Producers of one log: their sequences and transactions, the checks of what they append, and the snapshots of that."""
