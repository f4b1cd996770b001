"""Events about deliveries of a share group that ended otherwise than by an acceptance, for the group's history.

A busy queue must not write more about its records than the records themselves. So each share partition reports at most
`EVENTS_A_SECOND` events, and counts the records of the others. After a second without an event, one more event has
this count.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from muster.coordinator.groups.common.events import DELIVERIES_FAILED, Event
from muster.coordinator.share.in_flight import ACKNOWLEDGED, ARCHIVED, STATES
from muster.coordinator.share.partition import Change

EVENTS_A_SECOND: Final = 20
SECOND_MS: Final = 1_000

RELEASED: Final = "released"
REJECTED: Final = "rejected"
LOCK_OVER: Final = "lock_over"
SESSION_ENDED: Final = "session_ended"
DEAD_LETTER: Final = "dead_letter"
LETTER_LOST: Final = "letter_lost"
"""The causes. DEAD_LETTER: the dead-letter queue has the records now. LETTER_LOST: it could not take them."""


NEVER_GONE: Final = frozenset((REJECTED, DEAD_LETTER, LETTER_LOST))
"""With these causes, a record is archived because of its deliveries, and not because the log does not have it."""


class Held(NamedTuple):
    """Records that a member held."""

    first: int
    last: int
    member: str


class Ending(NamedTuple):
    """Why deliveries ended. `member`: who held the records; None: `holders` says so, or nobody held them.

    `holders` are in the order of offsets.
    """

    cause: str
    member: str | None = None
    holders: Sequence[Held] = ()

    def holder(self, offset: int) -> str | None:
        """Who held a record."""
        if self.member is not None:
            return self.member
        at = bisect_right(self.holders, offset, key=_first) - 1
        return self.holders[at].member if at >= 0 and offset <= self.holders[at].last else None


def _first(held: Held) -> int:
    return held.first


class _Failed(NamedTuple):
    """Records that were not accepted."""

    group_id: str
    place: tuple[str, int]
    first: int
    last: int
    deliveries: int
    cause: str
    member: str | None
    state: int

    @property
    def records(self) -> int:
        """How many records these are."""
        return self.last - self.first + 1

    def event(self, left_out: int) -> Event:
        """The event about these records. `left_out`: records before that were not reported."""
        return Event(
            DELIVERIES_FAILED,
            self.group_id,
            {
                "topic": self.place[0],
                "partition": self.place[1],
                "first_offset": self.first,
                "last_offset": self.last,
                "records": self.records,
                "deliveries": self.deliveries,
                "cause": self.cause,
                "member": self.member,
                "state": STATES[self.state].lower(),
                "left_out": left_out,
            },
        )


class Endings:
    """Makes the events of one share partition."""

    __slots__ = ("_began_ms", "_left_out", "_newest", "_reported")

    def __init__(self) -> None:
        self._began_ms = -SECOND_MS
        self._reported = 0
        self._left_out = 0
        self._newest: _Failed | None = None
        """The newest of the records that were left out."""

    def events(
        self, group_id: str, place: tuple[str, int], ending: Ending, change: Change, limit: int, now_ms: int
    ) -> Iterator[Event]:
        """The events for a change that is durable now. `place`: topic and partition.

        `limit`: how often a record is delivered. A record that is archived before is a gap of the log, or was deleted.
        """
        if now_ms - self._began_ms >= SECOND_MS:
            self._began_ms, self._reported = now_ms, 0
        newest = None
        for first, last, state, deliveries in change.rows:
            cause = REJECTED if first in change.rejected else ending.cause
            is_gone = state == ARCHIVED and deliveries < limit and cause not in NEVER_GONE
            if state == ACKNOWLEDGED or is_gone:
                continue
            if self._reported >= EVENTS_A_SECOND:
                self._left_out += last - first + 1
                newest = first, last, deliveries, cause, state
                continue
            self._reported += 1
            left_out, self._left_out, self._newest = self._left_out, 0, None
            yield _Failed(group_id, place, first, last, deliveries, cause, ending.holder(first), state).event(left_out)
        if newest is not None:
            first, last, deliveries, cause, state = newest
            self._newest = _Failed(group_id, place, first, last, deliveries, cause, ending.holder(first), state)

    @property
    def rest_due_ms(self) -> int | None:
        """The time at which `rest` is to be reported; None if no records were left out since the last event."""
        return None if self._newest is None else self._began_ms + SECOND_MS

    def rest(self) -> Event | None:
        """The event about the newest records that were left out, which counts the others; None if there are none."""
        newest, left_out = self._newest, self._left_out
        self._newest, self._left_out = None, 0
        return None if newest is None else newest.event(left_out - newest.records)
