"""How much one command may write. Its records are one batch, and none may be larger than `max.message.bytes` of
`__consumer_offsets`: a request for more is refused, before anything has changed. Records that no request asks for
(tombstones of what expired, groups that became empty) are not limited.
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
"""More than a record of the core has besides its names, its metadata and its assignments."""


def is_too_large(
    step: Step, records: Sequence[Record], texts: int, made: Sequence[Record] = (), times: int = 1
) -> bool:
    """Whether these records of one command, and `made` so many times, are more than may be written. `texts`: how many
    characters and bytes are in them (in `made`, if that is given), or more: so their exact size is asked for only near
    the limit.
    """
    most, count = step.most_bytes, len(records) + times * len(made)
    if HEADER + count * A_RECORD + 4 * times * texts <= most:
        return False
    # what stands there several times is packed once
    return size_of([*map(pack, records), *[pack(one) for one in made] * times]) > most


def size_of(rows: Sequence[bytes]) -> int:
    """Bytes of a batch with these records, each as `records.pack` has it."""
    size = HEADER
    for number, row in enumerate(rows):
        body = len(row) + 2 + len(uv(2 * number))
        size += len(uv(2 * body)) + body
    return size
