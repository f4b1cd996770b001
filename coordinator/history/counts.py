"""Events that stand for several other events: counts of one second, and reports of unstable members.

Without counts, clients could fill a disk. One event for each error and client counts refused requests. One event for
each group, producer and outcome counts transactions, because a busy producer ends a hundred transactions a second. For
the event `group_restless` only members that left are remembered, for a while. The rules are those of the pipeline's
verdicts (`groups/common/events.py`), as far as they need no later events.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring as quote
from typing import Any, Final

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event, MemberFacts
from muster.coordinator.history.event_writer import record_key

SECOND_MS: Final = 1_000
MAX_KINDS: Final = 100
"""How many different refusals of one second get their own event. Further refusals are one event without names."""

MAX_BYTES: Final = 16 * 1024
"""The limit for the names in all refusals of one second, in bytes of JSON."""
LONGEST: Final = 249
"""The longest name in characters, as for names of topics. A longer name is cut and ends with CUT."""
CUT: Final = "…"

FACTS: Final = ("api", "error_code", "client_id", "host", "instance", "count")
"""The facts of a counted refusal of a group, in the order of the event."""
Facts = dict[str, Any]


class RefusalCounts:
    """Counts the refusals of the present second."""

    __slots__ = ("_bytes_left", "_counts", "_facts", "_others", "began_ms")

    def __init__(self, facts: Sequence[str] = FACTS) -> None:
        """`facts`: the names of the arguments of `count`, then "count"."""
        self._facts = facts
        self._bytes_left = MAX_BYTES
        self._counts: dict[tuple[str | int | None, ...], list[int]] = {}
        self._others = [0, 0]
        """The number of further refusals, and the time of the first. Each value of `_counts` has the same form."""
        self.began_ms: int | None = None
        """The time of the first refusal (wall ms), or None."""

    def add(self, event: Event, wall_ms: int) -> None:
        """Count a REQUEST_REFUSED of a group."""
        facts: Facts = event.facts
        counted = facts["api"], facts["error"], facts["client_id"], facts["host"], facts["instance"]
        self.count(event.group_id, counted, wall_ms)

    def count(self, name: str, facts: Sequence[str | int | None], wall_ms: int) -> None:
        """Count one refusal of the group or id `name` with these facts."""
        if self.began_ms is None:
            self.began_ms = wall_ms
        kind = (cut(name), *(cut(one) if isinstance(one, str) else one for one in facts))
        counted = self._counts.get(kind)
        if counted is not None:
            counted[0] += 1
            return
        size = sum(len(quote(one).encode("utf-8", "surrogatepass")) for one in kind if isinstance(one, str))
        if len(self._counts) < MAX_KINDS and size <= self._bytes_left:
            self._counts[kind] = [1, wall_ms]
            self._bytes_left -= size
        else:
            others, first_ms = self._others
            self._others = [others + 1, first_ms if others else wall_ms]

    def take(self) -> Iterator[tuple[str | None, int, Facts]]:
        """Reset all counts. Yields, for each event: name, time of the first refusal (wall ms), facts."""
        counts, (others, others_ms) = self._counts, self._others
        self._counts, self._others, self._bytes_left, self.began_ms = {}, [0, 0], MAX_BYTES, None
        for (name, *facts), (count, first_ms) in counts.items():
            assert isinstance(name, str)
            yield name, first_ms, dict(zip(self._facts, (*facts, count), strict=True))
        if others:
            yield None, others_ms, dict.fromkeys(self._facts) | {"count": others}


def cut(name: str) -> str:
    """A name, or the beginning of a long name."""
    return name if len(name) <= LONGEST else name[:LONGEST] + CUT


def is_cut(name: str) -> bool:
    """Whether `cut` has shortened the name."""
    return len(name) > LONGEST


def key_of(name: str | None) -> bytes | None:
    """The record key of an event from `take`. None if the event has no name, or its name was cut."""
    return None if name is None or is_cut(name) else record_key(name)


COMMITTED: Final = "transactions_committed"
"""producer_id, first_epoch, last_epoch, transactions and offsets (how many of each in one second)."""
ABORTED: Final = "transactions_aborted"
"""The facts of COMMITTED, for aborted transactions."""
COUNTED_ENDS: Final = {events.TRANSACTION_COMMITTED: COMMITTED, events.TRANSACTION_ABORTED: ABORTED}
"""The kinds of events that are counted, and for each the kind of the event with the count."""
MAX_TRANSACTION_COUNTS: Final = 500
"""With this many different counts, all counts are written at once."""


class TransactionCounts:
    """Counts the ends of transactions in the present second."""

    __slots__ = ("_counts", "began_ms")

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, int], list[int]] = {}
        self.began_ms: int | None = None
        """The time of the first end (wall ms), or None."""

    def add(self, event: Event, wall_ms: int) -> None:
        """Count a TRANSACTION_COMMITTED or TRANSACTION_ABORTED."""
        if self.began_ms is None:
            self.began_ms = wall_ms
        facts: dict[str, Any] = event.facts
        epoch = facts["producer_epoch"]
        kind = event.kind, event.group_id, facts["producer_id"]
        counted = self._counts.setdefault(kind, [epoch, epoch, 0, 0, wall_ms])
        counted[1] = epoch
        counted[2] += 1
        counted[3] += sum(map(len, facts["offsets"].values()))

    @property
    def is_full(self) -> bool:
        """Whether there are `MAX_TRANSACTION_COUNTS` different counts."""
        return len(self._counts) >= MAX_TRANSACTION_COUNTS

    def take(self) -> Iterator[tuple[str, str, int, dict[str, int]]]:
        """Reset all counts. Yields, for each event: kind, group, time of the first end (wall ms), facts."""
        counts, self._counts, self.began_ms = self._counts, {}, None
        for (kind, group_id, producer_id), (first, last, transactions, offsets, first_ms) in counts.items():
            facts = {
                "producer_id": producer_id, "first_epoch": first, "last_epoch": last, "transactions": transactions,
                "offsets": offsets,
            }  # fmt: skip
            yield COUNTED_ENDS[kind], group_id, first_ms, facts


GROUP_RESTLESS: Final = "group_restless"
"""This event has the facts what, members, times, since and text."""
MAX_PLACES: Final = 1_000
"""How many processes that have left are remembered for one partition. The oldest process is forgotten first."""
_LEAVING: Final = frozenset({events.MEMBER_LEFT, events.MEMBER_EXPIRED, events.MEMBER_REMOVED})
MEMBER_KINDS: Final = _LEAVING | {events.MEMBER_JOINED}
"""The kinds of events that `UnstableMembers` takes."""
_TOO_SLOW: Final = frozenset({events.JOIN_TIMEOUT, events.SYNC_TIMEOUT})

_Key = tuple[str, str, str, str]


@dataclass(slots=True)
class _Place:
    """One instance id, or one client id and host, with which processes join and leave, one after the other."""

    name: str
    since_ms: int
    """The time (wall ms) of the first leave in the present series."""
    left_ms: int
    returned_ms: int | None = None
    times: int = 1
    slow: int = 0
    died: int = 0
    reported: int = 0
    """The number of leaves at the last report."""

    @property
    def last_ms(self) -> int:
        return self.left_ms if self.returned_ms is None else max(self.left_ms, self.returned_ms)


class UnstableMembers:
    """Finds unstable members in the groups of one partition."""

    def __init__(self) -> None:
        self._places: OrderedDict[_Key, _Place] = OrderedDict()
        """The places, in the order of their latest leaves."""

    def add(self, event: Event, wall_ms: int) -> Event | None:
        """Take an event of MEMBER_KINDS. Returns the report of unstable members that this event causes, or None."""
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
            return None  # a rolling restart of all members
        else:
            what = events.CRASH_LOOP
        least = events.TWO_LOOP if what == events.FLAPPING else events.LOOPS
        if times < least or times < 2 * max(one.reported for one in some):
            return None
        for one in some:
            one.reported = times
        names = list(dict.fromkeys(one.name for one in some))
        facts = {
            "what": what,
            "members": [one.name for one in some],
            "times": times,
            "since": min(one.since_ms for one in some),
            "text": events.unstable_text(what, " and ".join(names), died=place.died > 0, several=len(names) > 1),
        }
        return Event(GROUP_RESTLESS, group_id, facts)


def _key(group_id: str, member: MemberFacts) -> _Key:
    if member.instance is not None:
        return group_id, "instance", member.instance, ""
    return group_id, "client", member.client_id, member.host
