"""How much one command may write. Its records are one batch, and none may be larger than `max.message.bytes` of
`__consumer_offsets` says: who asks for more is refused, before anything has changed. What the groups write of their own
accord (tombstones of what expired, groups that became empty) is not asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from muster.coordinator.core.interface import Record
from muster.coordinator.groups.common.records import pack
from muster.coordinator.groups.common.state import State
from muster.protocol.wire import uv

HEADER: Final = 61
"""Bytes of a batch before its records."""
LEAST: Final = 3
"""Of a record: length, attributes and the difference of its time, at least."""
A_RECORD: Final = 120
"""More than a record of the core has besides its names, its metadata and its assignments."""


def is_too_large(state: State, records: Sequence[Record], texts: int) -> bool:
    """Whether these records of one command are more than may be written. `texts`: how many characters and bytes there
    are in them, or more; it spares a look at nearly all.
    """
    most = state.most_bytes()
    return HEADER + len(records) * A_RECORD + 4 * texts > most < size_of([pack(one) for one in records])


def size_of(rows: Sequence[bytes]) -> int:
    """Bytes of a batch with these records, each as `records.pack` has it."""
    size = HEADER
    for number, row in enumerate(rows):
        body = len(row) + 2 + len(uv(2 * number))
        size += len(uv(2 * body)) + body
    return size
