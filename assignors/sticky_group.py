"""A group as the sticky strategies see it: numbered members, numbered partitions, and the claims of members.

A partition is one int, its code: `partition * number of topics + index of its topic`. Topics have their index by name.
Sorted codes are thus sorted by partition, then topic, as Kafka's sticky strategies sort a member's former partitions.

`EqualShares` computes the shares of members that all have the same subscription. With P partitions and N members, each
member's quota is P // N, and P % N members get one more. First each member keeps its partitions up to its quota. The
other partitions go one by one, by member id, to members below their quota. Except for sorting, the time grows linearly
with the partitions and members.

Kafka: AbstractStickyAssignor.allSubscriptionsEqual, RackInfo, and ConstrainedAssignmentBuilder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain

from muster.assignors.assignor import (
    NO_GENERATION,
    Assignment,
    Member,
    Topic,
    distinct_subscriptions,
    existing,
    in_hash_order,
    require_distinct,
)
from muster.assignors.java_order import sort_strings, utf16

Read = Callable[[Member], tuple[Iterable[tuple[str | bytes, Sequence[int]]], int | None]]
"""Reads a member's claims by topic (name as text or UTF-8), and their generation (None: not given)."""


class Group:
    """Members in Kafka's order, and their claims. Raises ValueError if ids repeat."""

    def __init__(self, members: Sequence[Member], topics: Mapping[str, Topic], read: Read) -> None:
        require_distinct(members)
        self.members = in_hash_order(members)
        self.ids = [member.member_id for member in self.members]
        subscribed = {name for topics_ in distinct_subscriptions(members) for name in topics_}
        self.names = sort_strings(existing(subscribed, topics))
        self.count = len(self.names)
        self.sizes = [topics[name].partitions for name in self.names]
        self.total = sum(self.sizes)
        self.index: dict[str | bytes, int] = {name: t for t, name in enumerate(self.names)}
        self.index.update({name.encode(): t for t, name in enumerate(self.names)})
        self.claimed: list[list[int]] = []
        """The claims of each member, as codes. Claims of partitions that do not exist are left out."""
        self.generations: list[int | None] = []
        for member in self.members:
            claims, generation = read(member)
            self.claimed.append(self._codes(claims))
            self.generations.append(generation)
        self.racks = Racks(self.members, [topics[name] for name in self.names])

    def _codes(self, claims: Iterable[tuple[str | bytes, Sequence[int]]]) -> list[int]:
        index, sizes, count = self.index, self.sizes, self.count
        codes = []
        for name, partitions in claims:
            topic = index.get(name)
            if topic is not None:
                size = sizes[topic]
                codes += [partition * count + topic for partition in partitions if 0 <= partition < size]
        return codes

    def all_subscribed_alike(self) -> bool:
        """Whether all subscriptions are equal for Kafka.

        Kafka compares each list, and its length, with the first list that is not empty. So empty lists before that list
        (but not after it) count as equal. The members with such an empty list get a share like all others.
        """
        compared: frozenset[str] = frozenset()
        first: Sequence[str] = ()
        for member in self.members:
            topics = member.topics
            if not compared:
                compared, first = frozenset(topics), topics
            elif len(topics) != len(compared) or (topics != first and not compared.issuperset(topics)):
                return False
        return True

    def owned(self) -> tuple[list[list[int]], set[int]]:
        """The claims that each member keeps, and the partitions that members claim within the same generation.

        If several members claim a partition, the latest generation wins. Of claims within one generation, none counts.
        """
        everything = [code for codes in self.claimed for code in codes]
        if len(set(everything)) == len(everything):
            return self.claimed, set()
        owned: list[dict[int, None]] = []
        contested: set[int] = set()
        owner: dict[int, int] = {}
        for member, codes in enumerate(self.claimed):
            mine: dict[int, None] = {}
            owned.append(mine)
            generation = self.generations[member]
            generation = NO_GENERATION if generation is None else generation
            for code in codes:
                other = owner.get(code)
                if other is not None:
                    # the generation in the other member's subscription counts, even if its user data has another
                    # generation
                    others = max(self.members[other].generation, NO_GENERATION)
                    if generation < others:
                        continue
                    owned[other].pop(code, None)
                    if generation == others:
                        contested.add(code)
                owner[code] = member
                if other is None or generation > others:
                    mine[code] = None
        return [list(mine) for mine in owned], contested

    def newest(self) -> int:
        """The newest generation that a member of the group sends."""
        return max((g for g in self.generations if g is not None), default=NO_GENERATION)

    def codes_of(self, topic: int) -> range:
        """The codes of a topic's partitions, ascending."""
        return range(topic, topic + self.sizes[topic] * self.count, self.count)

    def by_name(self, shares: Iterable[Iterable[int]]) -> Assignment:
        """The assignment that gives these codes to each member."""
        assignment: Assignment = {}
        names, count = self.names, self.count
        for member_id, codes in zip(self.ids, shares, strict=True):
            mine: dict[str, list[int]] = {}
            for code in codes:
                name = names[code % count]
                if name in mine:
                    mine[name].append(code // count)
                else:
                    mine[name] = [code // count]
            assignment[member_id] = mine
        return assignment


class Racks:
    """Racks count (`used`) if some rack has members and partitions, and not every partition is in all racks."""

    def __init__(self, members: Sequence[Member], topics: Sequence[Topic]) -> None:
        self.used = False
        self._count = len(topics)
        self.of_member: list[str | None] = []
        self._of_partition: list[list[frozenset[str]]] = []
        theirs = {member.rack for member in members if member.rack}
        if not theirs:
            return
        replicas = [[frozenset(racks) for racks in topic.racks or [()] * topic.partitions] for topic in topics]
        every = frozenset().union(*(racks for partitions in replicas for racks in partitions))
        if every.isdisjoint(theirs) or all(racks == every for partitions in replicas for racks in partitions):
            return
        self.used = True
        self._of_partition = replicas
        self.of_member = [member.rack or None for member in members]

    def of(self, code: int) -> frozenset[str]:
        """The racks of a partition's replicas."""
        return self._of_partition[code % self._count][code // self._count]

    def mismatch(self, member: int, code: int) -> bool:
        """Whether a member has a rack without a replica of the partition."""
        return self.used and (rack := self.of_member[member]) is not None and rack not in self.of(code)

    def rarest_first(self, codes: Sequence[int]) -> list[int]:
        """Sort partitions by the number of members in a rack with one of their replicas, fewest first."""
        if not self.used:
            return list(codes)
        here: dict[str, int] = {}
        for rack in self.of_member:
            if rack is not None:
                here[rack] = here.get(rack, 0) + 1
        return sorted(codes, key=lambda code: sum(here.get(rack, 0) for rack in self.of(code)))


class EqualShares:
    """An assignment. `shares`: each member's codes; `moving`: new owners of partitions that others may still have."""

    def __init__(self, group: Group) -> None:
        self._group = group
        members = len(group.ids)
        self._least, self._larger = divmod(group.total, members)
        """The smaller share, and how many members are to have one partition more."""
        self._most = self._least + (self._larger > 0)
        self.shares: list[list[int]] = [[] for _ in range(members)]
        self.moving: dict[int, int] = {}
        self._given_up: dict[int, int] = {}
        self._below: list[int] = []
        """Members with fewer partitions than the smaller share."""
        self._at_least: list[int] = []
        """Members with exactly the smaller share, which may get one more partition."""
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
        """Give a partition to a member. Returns the member's new number of partitions."""
        mine = self.shares[member]
        mine.append(code)
        if self._given_up.get(code, member) != member or code in self._contested:
            self.moving[code] = member
        return len(mine)

    def _deal(self, left: Iterable[int]) -> None:
        """Give free partitions to members below the smaller share, then one more to each further member."""
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
        """Like `_deal`, but only to members in a rack of the partition. Returns partitions without such a member."""
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
