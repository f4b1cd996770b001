"""How large a transaction may be.

Its record is in one batch with those of the same command. The batch may not be larger than `max.message.bytes` of
`__transaction_state`. Each request of the transaction reads all of its partitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Final

HEADER: Final = 61
"""Bytes of a batch before its records."""
MOST_PARTITIONS: Final = 50_000
"""Most partitions of one transaction: to add them takes some 30 ms."""
_A_RECORD: Final = 160
"""More bytes than a record has without its names and partitions."""
_A_TOPIC: Final = 12
_A_PARTITION: Final = 4


def of_record(transactional_id: str, partitions_size: int) -> int:
    """Bytes of the record of a transaction with partitions of that size, or some more."""
    return _A_RECORD + 4 * len(transactional_id) + partitions_size


def of_partitions(partitions: Mapping[str, Sized]) -> int:
    """The bytes of the partitions in a record, or some more."""
    return sum([_A_TOPIC + 4 * len(topic) + _A_PARTITION * len(ids) for topic, ids in partitions.items()])
