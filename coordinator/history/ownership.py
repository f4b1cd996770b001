"""Reads the partitions of each member from the assignments of a group of consumers, in steps, without I/O."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Final

from muster.protocol.consumer import decode_assignment
from muster.protocol.message import MalformedMessage

BYTES_A_STEP: Final = 8 * 1024
"""How many bytes of assignments are decoded in one step, which takes half a millisecond."""
LEAST: Final = 128
"""Each member counts for this many bytes in addition to its assignment."""

Owned = Mapping[str, Sequence[int]]
"""The partitions that one member owns, by topic."""


def read(assignments: Iterable[tuple[str, bytes]]) -> Generator[None, None, dict[str, Owned] | None]:
    """The partitions of each member, from pairs (member id, assignment). None if an assignment cannot be decoded."""
    owned: dict[str, Owned] = {}
    left = BYTES_A_STEP
    for member, assignment in assignments:
        try:
            owned[member] = _owned(assignment)
        except MalformedMessage:
            return None
        left -= len(assignment) + LEAST
        if left < 0:
            left = BYTES_A_STEP
            yield
    return owned


def _owned(assignment: bytes) -> Owned:
    if not assignment:  # the member has no assignment yet
        return {}
    return {one.topic: one.partitions for one in decode_assignment(assignment)[1].assigned_partitions}
