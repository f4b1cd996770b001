"""What rebalances cost: their number, the moved partitions, and the unread time. All are plain sums.

Unread time is the time in which partitions were not read, although a process wanted to read them. The same rules apply
to what happened and to what would have happened:

* A rebalance is a generation that got its assignment.
* A partition has moved if its new owner is not its last owner. A first owner is no move. A static member that returns
  is the same owner.
* Partitions are paused because of rebalances. In an eager group, every assigned partition is paused from the start of
  the rebalance until the assignment is complete. That includes failed attempts, and the time in which an empty group
  waits for more members. If all of them leave without partitions, they have waited in vain, which counts too.
* In a cooperative group, only partitions of members that left, and those without an owner, are paused in this time.
  Partitions that were given up are paused from the assignment that removed them until the next assignment.
* Partitions are silent at other times: those of dead or absent members, and those of a group without members. Silence
  counts only while a process wants to read (`wanted`). Silence that still lasts at the end of the history counts until
  then.

No partition is paused and silent at once, so both can be added. The table `rebalances` has the same pauses.

In a KIP-848 group no member stops reading the partitions that it keeps, so some rules differ (`EpochCosts`). A
rebalance is a target assignment. Each partition pauses by itself. The pause begins when the owner was to give the
partition up, or was gone. The pause ends when another member has the partition. A dead member is silent until its
session is over, and a group without members until a member joins.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from muster.pipeline.whatif.history import FAR, Owned

ALWAYS: Final = ((-FAR, FAR),)
"""A value of `wanted`: a process wants to read all the time."""
Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Figures:
    """The sums. `detect_ms`: the mean time from the last sign of life of a dead member to its removal.

    It is None if no member died.
    """

    rebalances: int = 0
    moved_partitions: int = 0
    paused_partition_ms: int = 0
    silent_partition_ms: int = 0
    detect_ms: float | None = None
    forming_partition_ms: int = 0
    """The part of `paused_partition_ms` for formations of an empty group: the first one, and those after stops."""


class Costs:
    """Adds up the costs of events, which must come in the order of time. `who` is the name that an owner keeps."""

    __slots__ = (
        "_away",
        "_began_ms",
        "_cooperative",
        "_detected",
        "_forming",
        "_in_vain_ms",
        "_last",
        "_left",
        "_moved",
        "_owned",
        "_paused",
        "_rebalances",
        "_silent",
        "_unowned",
        "_unowned_ms",
        "_waiting",
        "_wanted",
    )  # fmt: skip

    def __init__(self, wanted: Sequence[tuple[int, int]] = ALWAYS) -> None:
        """`wanted`: the times in which a process wants to read, as intervals in order."""
        self._wanted = wanted
        self._rebalances = self._moved = self._paused = self._silent = self._forming = 0
        self._detected: list[int] = []
        self._last: dict[Partition, str] = {}
        """The last owner of each partition."""
        self._owned: dict[str, list[Partition]] = {}
        """The partitions that each member reads, or that it read when the rebalance began."""
        self._cooperative = False
        """Whether the strategy of the last assignment is cooperative."""
        self._began_ms: int | None = None
        self._away: dict[str, tuple[int, int]] = {}
        """For each silent member: since when it is silent, and from when on the silence is not counted yet."""
        self._left: list[Partition] = []
        """The partitions of members that left in this rebalance."""
        self._waiting: dict[Partition, int] = {}
        """Under a cooperative strategy: since when each partition that was given up waits."""
        self._unowned = 0
        """The number of partitions that the group had when its last member left."""
        self._unowned_ms = 0
        self._in_vain_ms = 0
        """How long members waited for a first assignment, and left without one."""

    def given(self, shares: Mapping[str, Owned], *, cooperative: bool = False) -> None:
        """Set the owners when the history begins."""
        self._cooperative = cooperative
        self._take(shares)

    def began(self, ms: int) -> None:
        """A rebalance begins. If another rebalance has not ended, it has failed."""
        if self._began_ms is None:
            self._began_ms = ms
            self._count_silence(ms)
            self._silent += self._wanted_ms(self._unowned_ms, ms) * self._unowned
            self._unowned_ms = ms

    def vanished(self, who: str, ms: int) -> None:
        """The member is silent from now on."""
        self._away[who] = ms, ms

    def back(self, who: str, ms: int) -> None:
        """The member shows signs of life again, or another process is in its place. It was a member all the time."""
        away = self._away.pop(who, None)
        # in a rebalance of an eager group, no member reads
        if away is not None and (self._began_ms is None or self._cooperative):
            self._silent += self._wanted_ms(away[1], ms) * len(self._owned.get(who, ()))

    def gone(self, who: str, ms: int) -> None:
        """The member has left or was removed."""
        away = self._away.pop(who, None)
        if away is not None:
            self._detected.append(ms - away[0])
            if self._began_ms is None:
                self._silent += self._wanted_ms(away[1], ms) * len(self._owned.get(who, ()))
        self._left += self._owned.get(who, ())

    def completed(self, ms: int, shares: Mapping[str, Owned], *, cooperative: bool) -> None:
        """The assignment of the rebalance is complete."""
        self._rebalances += 1
        self._cooperative = cooperative
        began_ms = ms if self._began_ms is None else self._began_ms
        if cooperative:
            self._count_silence(ms)
        else:
            self._away = {who: (since_ms, ms) for who, (since_ms, _) in self._away.items()}
        before, paused = self._owned, self._paused
        self._take(shares)
        if cooperative:
            self._pause_some(before, ms - began_ms, ms)
        else:
            self._paused += (ms - began_ms) * sum(map(len, self._owned.values()))
            self._waiting.clear()
        if not before:
            self._forming += self._paused - paused
        self._left.clear()
        self._began_ms, self._unowned = None, 0

    def emptied(self, ms: int) -> None:
        """The rebalance ended without members."""
        had = sum(map(len, self._owned.values())) + len(self._waiting)
        if had:
            self._unowned = had
        began_ms = ms if self._began_ms is None else self._began_ms
        self._silent += self._wanted_ms(began_ms, ms) * self._unowned
        if not self._last:
            self._in_vain_ms += ms - began_ms
        self._unowned_ms = ms
        self._owned, self._began_ms = {}, None
        self._waiting.clear()
        self._left.clear()

    def figures(self, ms: int, *, unassigned: int = 0) -> Figures:
        """The sums at the end. Pauses and silence that still last count until then.

        `unassigned`: the number of partitions that never had an owner.
        """
        paused, began_ms = self._paused, self._began_ms
        if began_ms is None or self._cooperative:
            self._count_silence(ms)
        if began_ms is None:
            self._silent += self._wanted_ms(self._unowned_ms, ms) * self._unowned
        elif not self._owned:
            paused += (ms - began_ms) * (self._unowned or unassigned)
        elif self._cooperative:
            paused += (ms - began_ms) * len(self._left) + sum(ms - since_ms for since_ms in self._waiting.values())
        else:
            paused += (ms - began_ms) * sum(map(len, self._owned.values()))
        detected = self._detected
        mean_ms = sum(detected) / len(detected) if detected else None
        in_vain = self._in_vain_ms * (len(self._last) or unassigned)
        return Figures(self._rebalances, self._moved, paused + in_vain, self._silent, mean_ms, self._forming + in_vain)

    def _take(self, shares: Mapping[str, Owned]) -> None:
        last, moved = self._last, 0
        owned: dict[str, list[Partition]] = {}
        for who, topics in shares.items():
            owned[who] = rows = [(topic, number) for topic, numbers in topics.items() for number in numbers]
            for one in rows:
                if last.setdefault(one, who) != who:
                    last[one] = who
                    moved += 1
        self._owned = owned
        self._moved += moved

    def _pause_some(self, before: Mapping[str, list[Partition]], took_ms: int, ms: int) -> None:
        waiting, left = self._waiting, set(self._left)
        had = {one for rows in before.values() for one in rows}
        now = {one for rows in self._owned.values() for one in rows}
        for one in now:
            since_ms = waiting.get(one)
            if since_ms is not None:
                self._paused += ms - since_ms
            elif one in left or one not in had:
                self._paused += took_ms
        waiting.clear()  # in this assignment these partitions have no owner again: no member subscribes to them
        waiting.update((one, ms) for one in had if one not in now)

    def _count_silence(self, ms: int) -> None:
        """Count the silence of all silent members up to now."""
        for who, (since_ms, from_ms) in self._away.items():
            self._silent += self._wanted_ms(from_ms, ms) * len(self._owned.get(who, ()))
            self._away[who] = since_ms, ms

    def _wanted_ms(self, since_ms: int, ms: int) -> int:
        """How long a process wanted to read, between two times."""
        return wanted_ms(self._wanted, since_ms, ms)


def wanted_ms(wanted: Sequence[tuple[int, int]], since_ms: int, ms: int) -> int:
    """How long a process wanted to read between two times. `wanted` has the intervals in order."""
    at = max(bisect_right(wanted, (since_ms, FAR)) - 1, 0)
    total = 0
    while at < len(wanted) and wanted[at][0] < ms:
        total += max(min(ms, wanted[at][1]) - max(since_ms, wanted[at][0]), 0)
        at += 1
    return total


_NOTHING: Final[frozenset[Partition]] = frozenset()


class EpochCosts:
    """Adds up the costs of a KIP-848 group's incidents, in the order of time. `who` is the name that an owner keeps."""

    __slots__ = (
        "_away",
        "_detected",
        "_free",
        "_last",
        "_moved",
        "_owned",
        "_paused",
        "_rebalances",
        "_silent",
        "_unowned",
        "_unowned_ms",
        "_wanted",
    )  # fmt: skip

    def __init__(self, wanted: Sequence[tuple[int, int]] = ALWAYS) -> None:
        """`wanted`: the times in which a process wants to read, as intervals in order."""
        self._wanted = wanted
        self._rebalances = self._moved = self._paused = self._silent = 0
        self._detected: list[int] = []
        self._last: dict[Partition, str] = {}
        self._owned: dict[str, Set[Partition]] = {}
        self._free: dict[Partition, int] = {}
        """For each partition without an owner, although the group has members: since when it has none."""
        self._unowned: set[Partition] = set()
        """The partitions that the group had when its last member left, and that no member has had since."""
        self._unowned_ms = 0
        self._away: dict[str, tuple[int, int]] = {}
        """For each silent member: since when it is silent, and from when on the silence is not counted yet."""

    def given(self, shares: Mapping[str, Owned]) -> None:
        """Set the owners when the history begins."""
        for who, share in shares.items():
            places = self._owned[who] = partitions_of(share)
            self._last |= dict.fromkeys(places, who)

    def target(self) -> None:
        """A target assignment is complete."""
        self._rebalances += 1

    def has(self, who: str, places: Set[Partition], ms: int) -> None:
        """The member owns these partitions from now on."""
        before = self._owned.get(who, _NOTHING)
        if before == places:
            return
        self._count_silence(who, ms)
        for place in before - places:
            self._free[place] = ms
        for place in places - before:
            since_ms = self._free.pop(place, None)
            if place in self._unowned:
                self._unowned.discard(place)
                self._silent += wanted_ms(self._wanted, self._unowned_ms, ms)
            elif since_ms is not None:
                self._paused += ms - since_ms
            self._moved += self._last.setdefault(place, who) != who
            self._last[place] = who
        self._owned[who] = places

    def took(self, who: str, place: Partition, ms: int, paused_ms: int | None) -> None:
        """The member has this partition from now on, and no other member has it.

        `paused_ms`: the time since the owner before lost the partition.
        """
        last = self._last.get(place)
        self._count_silence(who, ms)
        if last is not None and last != who:
            self._count_silence(last, ms)
            self._owned[last] = self._owned.get(last, _NOTHING) - {place}
        self._free.pop(place, None)
        if place in self._unowned:
            self._unowned.discard(place)
            self._silent += wanted_ms(self._wanted, self._unowned_ms, ms)
        self._paused += paused_ms or 0
        self._moved += self._last.setdefault(place, who) != who
        self._last[place] = who
        self._owned[who] = self._owned.get(who, _NOTHING) | {place}

    def settled(self) -> None:
        """All members have their assignment, so nobody wants a partition that has no owner."""
        self._free.clear()

    def vanished(self, who: str, ms: int) -> None:
        """The member is silent from now on."""
        self._away[who] = ms, ms

    def back(self, who: str, ms: int) -> None:
        """The member shows signs of life again, or another process is in its place. It was a member all the time."""
        self._count_silence(who, ms)
        self._away.pop(who, None)

    def gone(self, who: str, ms: int) -> None:
        """The member has left or was removed."""
        self._count_silence(who, ms)
        away = self._away.pop(who, None)
        if away is not None:
            self._detected.append(ms - away[0])
        self._free |= dict.fromkeys(self._owned.pop(who, _NOTHING), ms)

    def emptied(self, ms: int) -> None:
        """The group has no members left."""
        self._paused += sum(ms - since_ms for since_ms in self._free.values())
        if self._free:
            self._unowned, self._unowned_ms = set(self._free), ms
        self._free.clear()

    def figures(self, ms: int) -> Figures:
        """The sums at the end. Pauses and silence that still last count until then."""
        for who in self._away:
            self._count_silence(who, ms)
        paused = self._paused + sum(ms - since_ms for since_ms in self._free.values())
        silent = self._silent + wanted_ms(self._wanted, self._unowned_ms, ms) * len(self._unowned)
        detected = self._detected
        mean_ms = sum(detected) / len(detected) if detected else None
        return Figures(self._rebalances, self._moved, paused, silent, mean_ms)

    def _count_silence(self, who: str, ms: int) -> None:
        """If the member is silent, count its silence up to now."""
        away = self._away.get(who)
        if away is not None:
            self._silent += wanted_ms(self._wanted, away[1], ms) * len(self._owned.get(who, _NOTHING))
            self._away[who] = away[0], ms


def partitions_of(share: Owned) -> frozenset[Partition]:
    """Each partition of a member's share, with its topic."""
    return frozenset((topic, number) for topic, numbers in share.items() for number in numbers)
