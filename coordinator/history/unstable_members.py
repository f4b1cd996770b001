"""Unstable members, found while they leave and join again and again: the event `group_restless`. Pure.

Only members that left are remembered, for a while. The rules are those of the pipeline's verdicts
(`groups/common/events.py`), as far as they can be applied before the end.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event, MemberFacts

GROUP_RESTLESS: Final = "group_restless"
"""what, members, times, since, text."""
MAX_PLACES: Final = 1_000
"""Processes of one partition that have left. Of more, the oldest are forgotten."""
_LEAVING: Final = frozenset({events.MEMBER_LEFT, events.MEMBER_EXPIRED, events.MEMBER_REMOVED})
KINDS: Final = _LEAVING | {events.MEMBER_JOINED}
"""Kinds of events that are used."""
_TOO_SLOW: Final = frozenset({events.JOIN_TIMEOUT, events.SYNC_TIMEOUT})

_Key = tuple[str, str, str, str]


@dataclass(slots=True)
class _Place:
    """A place at which processes join and leave, one after the other."""

    name: str
    since_ms: int
    """The time of the first of these events."""
    left_ms: int
    returned_ms: int | None = None
    times: int = 1
    slow: int = 0
    died: int = 0
    reported: int = 0
    """The number of times at the last report."""

    @property
    def last_ms(self) -> int:
        return self.left_ms if self.returned_ms is None else max(self.left_ms, self.returned_ms)


class UnstableMembers:
    """The unstable members in the groups of one partition."""

    def __init__(self) -> None:
        self._places: OrderedDict[_Key, _Place] = OrderedDict()
        """The place of the latest leave is the last."""

    def add(self, event: Event, wall_ms: int) -> Event | None:
        """Take an event of KINDS. Returns what is to be reported because of it."""
        facts: dict[str, Any] = event.facts
        member: MemberFacts = facts["member"]
        key = _key(event.group_id, member)
        if event.kind in _LEAVING:
            reason = facts.get("reason") or ""
            is_slow = facts.get("cause") in _TOO_SLOW or events.POLLED_TOO_LATE in reason
            self._left(key, member, wall_ms, is_slow=is_slow, died=event.kind != events.MEMBER_LEFT)
            return None
        place = self._places.get(key)
        if place is None or place.returned_ms is not None or wall_ms - place.left_ms > events.RETURN_MS:
            return None
        place.returned_ms = wall_ms
        return self._report(event.group_id, key, place)

    def _left(self, key: _Key, member: MemberFacts, ms: int, *, is_slow: bool, died: bool) -> None:
        place = self._places.pop(key, None)
        if place is None or place.returned_ms is None or ms - place.returned_ms > events.LOOP_MS:
            place = _Place(member.instance or member.client_id or member.member, ms, ms)
        else:
            place.left_ms, place.returned_ms, place.times = ms, None, place.times + 1
        place.slow += is_slow
        place.died += died
        self._places[key] = place
        if len(self._places) > MAX_PLACES:
            self._places.popitem(last=False)

    def _report(self, group_id: str, key: _Key, place: _Place) -> Event | None:
        beside = [
            one
            for other, one in self._places.items()
            if other != key and other[0] == group_id and one.times > 1 and one.last_ms >= place.since_ms
        ] if place.times > 1 else []  # fmt: skip
        some, times = [place], place.times
        if 2 * place.slow >= place.times:
            what = events.SLOW
        elif len(beside) == 1 and place.times + beside[0].times >= events.TWO_LOOP:
            what, times = events.FLAPPING, place.times + beside[0].times
            some = sorted([place, *beside], key=lambda one: one.since_ms)
        elif len(beside) > 1 and place.times <= 2 * events.LOOPS:
            return None  # restarts of all, one after the other
        else:
            what = events.CRASH_LOOP
        least = events.TWO_LOOP if what == events.FLAPPING else events.LOOPS
        if times < least or times < 2 * max(one.reported for one in some):
            return None
        for one in some:
            one.reported = times
        names = " and ".join(dict.fromkeys(one.name for one in some))
        facts = {
            "what": what,
            "members": [one.name for one in some],
            "times": times,
            "since": min(one.since_ms for one in some),
            "text": events.unstable_text(what, names, died=place.died > 0),
        }
        return Event(GROUP_RESTLESS, group_id, facts)


def _key(group_id: str, member: MemberFacts) -> _Key:
    if member.instance is not None:
        return group_id, "instance", member.instance, ""
    return group_id, "client", member.client_id, member.host
