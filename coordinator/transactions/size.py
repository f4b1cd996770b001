"""How much one command may write: its records are one batch, which may not be larger than `max.message.bytes` of
`__transaction_state`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Final

HEADER: Final = 61
"""Bytes of a batch before its records."""
_A_RECORD: Final = 160
"""More than a record has besides its names and partitions."""
_A_TOPIC: Final = 12
_A_PARTITION: Final = 4


def of_record(transactional_id: str, partitions: Mapping[str, Sized]) -> int:
    """Bytes of the record of a transaction with these partitions, or some more."""
    size = _A_RECORD + 4 * len(transactional_id)
    for topic, ids in partitions.items():
        size += _A_TOPIC + 4 * len(topic) + _A_PARTITION * len(ids)
    return size
