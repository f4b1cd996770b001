"""A group for the sticky strategies: numbered members, numbered partitions, and the claims of members.

A partition is one int, its code: `partition * number of topics + index of its topic`, topics being indexed by name.
Sorted codes are thus sorted by partition, then topic, which is how Kafka's sticky strategies sort what a member had.

Kafka: AbstractStickyAssignor.allSubscriptionsEqual and RackInfo.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from muster.assignors.assignor import NO_GENERATION, Assignment, Member, Topic
from muster.assignors.java_order import sort_strings
from muster.assignors.members import distinct_subscriptions, existing, in_hash_order, require_distinct

Read = Callable[[Member], tuple[Iterable[tuple[str | bytes, Sequence[int]]], int | None]]
"""A member's claims by topic (name as text or UTF-8), and their generation (None: not given)."""


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
        """The claims of each member, as codes. Partitions that do not exist are left out."""
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

        Kafka also compares the lengths of the lists, and compares with the first list that is not empty. So empty lists
        before that one (but not after it) count as equal. Their members get a share like all others.
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
        """The claims that each member keeps when several members claim a partition, and the claims within one
        generation.

        The later generation wins. Within one generation, no claim counts.
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
                    # The other member's generation is that of its subscription, even where its user data has another.
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
        """The newest generation that any member sends."""
        return max((g for g in self.generations if g is not None), default=NO_GENERATION)

    def codes_of(self, topic: int) -> range:
        """The codes of a topic's partitions, ascending."""
        return range(topic, topic + self.sizes[topic] * self.count, self.count)

    def by_name(self, shares: Iterable[Iterable[int]]) -> Assignment:
        """The assignment in which each member has these codes."""
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
    """Racks count if some have both members and partitions, but not each has every partition."""

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
        """Partitions by the number of members that share a rack with one of their replicas, fewest first."""
        if not self.used:
            return list(codes)
        here: dict[str, int] = {}
        for rack in self.of_member:
            if rack is not None:
                here[rack] = here.get(rack, 0) + 1
        return sorted(codes, key=lambda code: sum(here.get(rack, 0) for rack in self.of(code)))
