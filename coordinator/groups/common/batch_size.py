"""How much one command may write.

The records of a command are one batch, and no batch may be larger than `max.message.bytes` of `__consumer_offsets`. A
request for more is refused, before anything has changed. Records that no request asks for are not limited: tombstones
of expired offsets, groups that became empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from muster.coordinator.groups.common.records import pack
from muster.coordinator.groups.common.step import Step
from muster.coordinator.state_machine.interface import Record
from muster.protocol.wire import uv

HEADER: Final = 61
"""Bytes of a batch before its records."""
A_RECORD: Final = 120
"""More bytes than a record of the core has, without its names, its metadata and its assignments."""


def is_too_large(
    step: Step, records: Sequence[Record], texts: int, made: Sequence[Record] = (), times: int = 1
) -> bool:
    """Whether these records of one command, and `made` times `times`, are more than may be written.

    `texts`: at least the number of characters and bytes in `records`, or in `made` if that is given. So the exact size
    is computed only near the limit.
    """
    most, count = step.most_bytes, len(records) + times * len(made)
    if HEADER + count * A_RECORD + 4 * times * texts <= most:
        return False
    # A record that is repeated is packed once.
    return size_of([*map(pack, records), *[pack(one) for one in made] * times]) > most


def size_of(rows: Sequence[bytes]) -> int:
    """Bytes of a batch with these records. Each row is the result of `records.pack`."""
    size = HEADER
    for number, row in enumerate(rows):
        body = len(row) + 2 + len(uv(2 * number))
        size += len(uv(2 * body)) + body
    return size
