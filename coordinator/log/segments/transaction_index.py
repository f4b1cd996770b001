"""The transactions that were aborted by the markers in one segment, and the file that says so (Kafka: TransactionIndex,
AbortedTxn).
"""

from __future__ import annotations

from typing import NamedTuple


class AbortedTransaction(NamedTuple):
    """A transaction that ended with ABORT (Kafka's AbortedTxn): readers of committed records skip its batches."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of the marker."""
    last_stable_offset: int
    """The log's last stable offset once this transaction was over."""
