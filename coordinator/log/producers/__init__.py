"""Producers of one log: their sequences and transactions, the checks of their appends, and snapshots of their state."""
