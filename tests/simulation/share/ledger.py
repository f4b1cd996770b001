"""What members, the node and the persister have done with each record, and the rules that must hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

RELEASED: Final = 2
RENEWED: Final = 4

Place = tuple[int, int]
"""Partition and offset."""


class Broken(AssertionError):
    """A rule that a history has broken."""


class Ledger:
    """The rules of share groups, seen from outside. Times are those of the clock in ms."""

    def __init__(self, lock_ms: int, max_deliveries: int) -> None:
        self._lock_ms = lock_ms
        self._most = max_deliveries
        self.produced: set[Place] = set()
        self.accepted: set[Place] = set()
        self._done: set[Place] = set()
        """Records that a member has confirmed as accepted, rejected, or missing."""
        self._maybe_done: dict[Place, list[str]] = {}
        """The members that have sent last acknowledgements. Nobody knows whether these have taken effect."""
        self._last_times: set[Place] = set()
        self._holders: dict[Place, tuple[str, int]] = {}
        """The member that got a record last, and the end of its lock."""
        self._free: set[Place] = set()
        """Records that others may get before the lock ends."""
        self._deliveries: Counter[Place] = Counter()

    def acquired(self, partition: int, member: str, rows: Iterable[tuple[int, int, int]], now_ms: int) -> None:
        """A member gets records: first offset, last offset, deliveries."""
        for first, last, deliveries in rows:
            if deliveries > self._most:
                raise Broken(f"records {first} to {last} are delivered {deliveries} times")
            for offset in range(first, last + 1):
                self._acquired((partition, offset), member, deliveries, now_ms)

    def _acquired(self, place: Place, member: str, deliveries: int, now_ms: int) -> None:
        if place in self._done:
            raise Broken(f"{place} is delivered to {member} again, although it was acknowledged")
        holder = self._holders.get(place)
        if holder is not None and now_ms < holder[1] and place not in self._free:
            raise Broken(f"{place} is held by {holder[0]}, and delivered to {member} too")
        self._holders[place] = member, now_ms + self._lock_ms
        self._free.discard(place)
        self._deliveries[place] += 1
        if self._deliveries[place] > self._most:
            raise Broken(f"{place} was delivered {self._deliveries[place]} times")
        if deliveries == self._most:
            self._last_times.add(place)

    def sent(self, partition: int, member: str, some: Iterable[tuple[int, int, int]]) -> None:
        """A member sends acknowledgements: first offset, last offset, type. They may take effect from now on."""
        for first, last, kind in some:
            for offset in range(first, last + 1):
                place = (partition, offset)
                if kind == RENEWED:
                    continue
                self._free.add(place)
                if kind != RELEASED:
                    self._maybe_done.setdefault(place, []).append(member)

    def refused(self, partition: int, member: str, some: Iterable[tuple[int, int, int]]) -> None:
        """The node has refused acknowledgements of a member, which therefore change nothing."""
        for first, last, kind in some:
            for offset in range(first, last + 1):
                senders = self._maybe_done.get((partition, offset), [])
                if kind not in (RENEWED, RELEASED) and member in senders:
                    senders.remove(member)
                    if not senders:
                        del self._maybe_done[partition, offset]

    def confirmed(self, partition: int, member: str, some: Iterable[tuple[int, int, int]], now_ms: int) -> None:
        """The node confirms acknowledgements of a member."""
        for first, last, kind in some:
            for offset in range(first, last + 1):
                place = (partition, offset)
                if kind == RELEASED or place in self._done:
                    continue  # another member may have it already, or it was archived before
                holder = self._holders.get(place)
                is_holder = holder is not None and holder[0] == member
                if place in self._last_times and not (is_holder and holder is not None and now_ms < holder[1]):
                    continue  # it was archived when its last lock ended
                if not is_holder and set(self._maybe_done.get(place, ())) - {member}:
                    continue  # the holder has acknowledged it, although the holder does not know
                if not is_holder:
                    raise Broken(f"{place} was acknowledged by {member}, and belongs to {holder}")
                if kind == RENEWED:
                    self._holders[place] = member, now_ms + self._lock_ms
                else:
                    self._done.add(place)
                    if kind == 1:
                        self.accepted.add(place)

    def session_ended(self, member: str) -> None:
        """The session of a member ends, so others may get its records."""
        self._free |= {place for place, (who, _) in self._holders.items() if who == member}

    def node_died(self) -> None:
        """The node loses everything that is not durable: locks, and deliveries that nobody has acknowledged."""
        self._free |= self._holders.keys()
        self._deliveries.clear()

    def write_failed(self) -> None:
        """A state is not durable: after the next load, deliveries may not be counted."""
        self._deliveries.clear()

    def ended(self) -> None:
        """At the end, when a member has accepted what it got: no record may be lost."""
        lost = self.produced - self._done - self._maybe_done.keys() - self._last_times
        if lost:
            raise Broken(f"lost: {sorted(lost)}")
