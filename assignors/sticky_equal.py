"""Sticky when all members have the same subscription.

Of P partitions and N members each gets P // N, and P % N of them get one more. First each member keeps its partitions
up to its quota. Then the rest goes one by one to members below theirs, by member id. The work grows with the partitions
and members, apart from sorting.

Kafka: AbstractStickyAssignor's ConstrainedAssignmentBuilder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from muster.assignors.java_order import utf16
from muster.assignors.sticky_group import Group


class EqualShares:
    """One assignment. `shares`: each member's codes; `moving`: new owners of partitions that others may still hold."""

    def __init__(self, group: Group) -> None:
        self._group = group
        members = len(group.ids)
        self._least, self._larger = divmod(group.total, members)
        """The least share, and how many members are to have one partition more."""
        self._most = self._least + (self._larger > 0)
        self.shares: list[list[int]] = [[] for _ in range(members)]
        self.moving: dict[int, int] = {}
        self._given_up: dict[int, int] = {}
        self._below: list[int] = []
        """Members with less than the least share."""
        self._at_least: list[int] = []
        """Members with exactly the least share that may get one more."""
        owned, self._contested = group.owned()
        self._keep(owned)
        left = self._unassigned()
        self._below.sort(key=self._by_id)
        self._at_least.sort(key=self._by_id)
        if group.racks.used:
            left = self._deal_by_racks(group.racks.rarest_first(left))
        self._deal(left)

    def _by_id(self, member: int) -> bytes:
        return utf16(self._group.ids[member])

    def _keep(self, owned: Sequence[Sequence[int]]) -> None:
        """Let every member keep what it had, up to its quota."""
        least, most = self._least, self._most
        for member, codes in enumerate(owned):
            mine = self._kept(member, codes)
            if len(mine) < least:
                self._below.append(member)
            else:
                quota = least
                if self._larger and len(mine) >= most:
                    self._larger -= 1
                    quota = most
                    if not self._larger:
                        self._at_least.clear()
                elif self._larger:
                    self._at_least.append(member)
                if len(mine) > quota:
                    self._given_up.update(dict.fromkeys(mine[quota:], member))
                    del mine[quota:]
            self.shares[member] = mine

    def _kept(self, member: int, codes: Sequence[int]) -> list[int]:
        if self._group.racks.used:
            away = [code for code in codes if self._group.racks.mismatch(member, code)]
            self._given_up.update(dict.fromkeys(away, member))
            codes = [code for code in codes if code not in set(away)] if away else codes
        if self._contested:
            codes = [code for code in codes if code not in self._contested]
        return sorted(codes)

    def _unassigned(self) -> list[int]:
        assigned = set(chain.from_iterable(self.shares))
        codes = chain.from_iterable(map(self._group.codes_of, range(self._group.count)))
        return [code for code in codes if code not in assigned]

    def _give(self, code: int, member: int) -> int:
        """Give a partition to a member. Returns how many it has then."""
        mine = self.shares[member]
        mine.append(code)
        if self._given_up.get(code, member) != member or code in self._contested:
            self.moving[code] = member
        return len(mine)

    def _deal(self, left: Iterable[int]) -> None:
        """Distribute one by one to members below the least share, then one more to each further member."""
        below, filled, turn = self._below, list(self._at_least), 0
        codes = iter(left)
        while below and (code := next(codes, None)) is not None:
            if turn >= len(below):
                turn = 0
            if self._give(code, below[turn]) == self._least:
                filled.append(below.pop(turn))
            else:
                turn += 1
        for code, member in zip(codes, filled, strict=False):
            self._give(code, member)

    def _deal_by_racks(self, left: Iterable[int]) -> list[int]:
        """As _deal, but only to members in a rack of the partition. Returns the partitions without such a member."""
        racks = self._group.racks
        below, at_least = _Circle(self._below, racks.of_member), _Circle(self._at_least, racks.of_member)
        rest, turn = [], 0
        for code in left:
            where = racks.of(code)
            if (place := below.find(where, turn)) is not None:
                member = self._below[place]
                if (count := self._give(code, member)) >= self._least:
                    below.pop(place)
                    if count < self._most and self._larger:
                        at_least.append(member)
                else:
                    place += 1
                turn = place % len(self._below) if self._below else 0
            elif (place := at_least.find(where, 0)) is not None:
                self._give(code, at_least.pop(place))
                self._larger -= 1
                if not self._larger:
                    at_least.clear()
            else:
                rest.append(code)
        return rest


class _Circle:
    """Members in a circle, and how many of them are in each rack."""

    def __init__(self, row: list[int], rack_of: Sequence[str | None]) -> None:
        self._row = row
        self._rack_of = rack_of
        self._here = Counter(rack_of[member] for member in row)

    def find(self, racks: frozenset[str], first: int) -> int | None:
        """The place of the next member in one of these racks, from `first` on and around the circle."""
        if any(self._here[rack] for rack in racks):
            for place in chain(range(first, len(self._row)), range(first)):
                if self._rack_of[self._row[place]] in racks:
                    return place
        return None

    def append(self, member: int) -> None:
        self._row.append(member)
        self._here[self._rack_of[member]] += 1

    def pop(self, place: int) -> int:
        member = self._row.pop(place)
        self._here[self._rack_of[member]] -= 1
        return member

    def clear(self) -> None:
        self._row.clear()
        self._here.clear()
