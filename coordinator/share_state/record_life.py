"""What the state log of a share group says about one record: how its deliveries ended, and when.

A record's position is a number of deliveries with the state in which the last of them left the record. Some positions
have no deliveries: the record is before the group's start offset, or none of its deliveries has ended. Who held the
record is not in the log, and neither is a delivery that has not ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from muster.coordinator.share.in_flight import STATES
from muster.coordinator.share_state.persister import UNKNOWN, StateKey
from muster.coordinator.share_state.state import PartitionState, States
from muster.protocol.message import Message

NO_STATE: Final = "NO_STATE"
"""The group has no state for the partition."""
NOT_BEGUN: Final = "NOT_BEGUN"
"""The group has not chosen its first offset."""
WAITING: Final = "WAITING"
"""No delivery of the record has ended."""
PASSED: Final = "PASSED"
"""The record is before the group's start offset."""


class Position(NamedTuple):
    """The position of the record. `what`: one of the names above, or of `in_flight.STATES`."""

    what: str
    deliveries: int = 0


class Moment(NamedTuple):
    """From `ms` on (wall time), the record has this position. `start_offset`: of the group then."""

    ms: int
    position: Position
    start_offset: int


class LogEntry(NamedTuple):
    """A record of the state log. `ms`: its time."""

    ms: int
    key: Message
    value: Message | None


def life(entries: Iterable[LogEntry], partition: StateKey, offset: int) -> list[Moment]:
    """The changes of the position of one record, in their order. `entries`: the log, also of other partitions.

    The first moment is what the oldest entry shows. Earlier entries may have been deleted.
    """
    states = States(updates_per_snapshot=1 << 31)
    moments: list[Moment] = []
    for ms, key, value in entries:
        if (getattr(key, "group_id", ""), getattr(key, "topic_id", b""), getattr(key, "partition", -1)) != partition:
            continue
        states.evolve(key, value)
        state = states.partitions.get(partition)
        position = _position(state, offset)
        if not moments or position != moments[-1].position:
            moments.append(Moment(ms, position, UNKNOWN if state is None else state.start_offset))
    return moments


def _position(state: PartitionState | None, offset: int) -> Position:
    if state is None:
        return Position(NO_STATE)
    if state.start_offset == UNKNOWN:
        return Position(NOT_BEGUN)
    if offset < state.start_offset:
        return Position(PASSED)
    row = state.rows.at(offset)
    return Position(WAITING) if row is None else Position(STATES[row.state], row.deliveries)
