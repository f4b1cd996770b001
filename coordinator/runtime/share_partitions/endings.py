"""Events about deliveries of a share group that ended otherwise than by an acceptance, for the group's history.

A busy queue must not write more about its records than the records themselves. So each share partition reports at most
`EVENTS_A_SECOND` events, and counts the records of the others.
"""

from __future__ import annotations

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
    """Why deliveries ended. `member`: who held the records; None: `holders` says so, or nobody held them."""

    cause: str
    member: str | None = None
    holders: Sequence[Held] = ()

    def holder(self, offset: int) -> str | None:
        """Who held a record."""
        if self.member is not None:
            return self.member
        return next((one.member for one in self.holders if one.first <= offset <= one.last), None)


class Endings:
    """Makes the events of one share partition."""

    __slots__ = ("_began_ms", "_left_out", "_reported")

    def __init__(self) -> None:
        self._began_ms = -SECOND_MS
        self._reported = 0
        self._left_out = 0

    def events(
        self, group_id: str, place: tuple[str, int], ending: Ending, change: Change, limit: int, now_ms: int
    ) -> Iterator[Event]:
        """The events for a change that is durable now. `place`: topic and partition.

        `limit`: how often a record is delivered. A record that is archived before is a gap of the log, or was deleted.
        """
        if now_ms - self._began_ms >= SECOND_MS:
            self._began_ms, self._reported = now_ms, 0
        for first, last, state, deliveries in change.rows:
            cause = REJECTED if first in change.rejected else ending.cause
            is_gone = state == ARCHIVED and deliveries < limit and cause not in NEVER_GONE
            if state == ACKNOWLEDGED or is_gone:
                continue
            records = last - first + 1
            if self._reported >= EVENTS_A_SECOND:
                self._left_out += records
                continue
            self._reported += 1
            left_out, self._left_out = self._left_out, 0
            yield Event(
                DELIVERIES_FAILED,
                group_id,
                {
                    "topic": place[0],
                    "partition": place[1],
                    "first_offset": first,
                    "last_offset": last,
                    "records": records,
                    "deliveries": deliveries,
                    "cause": cause,
                    "member": ending.holder(first),
                    "state": STATES[state].lower(),
                    "left_out": left_out,
                },
            )
