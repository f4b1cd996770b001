"""Sticky when subscriptions differ: keep what can be kept, assign the rest, then move partitions while that helps.

Members keep partitions of topics that they are still subscribed to (with racks: those with a replica in their rack).
The rest goes to the subscriber with fewest partitions, topics with fewest subscribers first. Then partitions move from
members with more to subscribers that would have less. If all moves together do not improve the balance, they are
undone.

Kafka: AbstractStickyAssignor's GeneralAssignmentBuilder. A member that has all it can have takes no part in balancing.
If Kafka tries to give a partition back to such a member, it fails with a NullPointerException. Here that is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

from muster.assignors.assignor import NO_GENERATION
from muster.assignors.java_order import JavaSet
from muster.assignors.sticky_group import Group
from muster.assignors.sticky_loads import Loads, most_of
from muster.protocol.hashing import java_string_hash


def general_shares(group: Group) -> list[list[int]]:
    """Each member's codes."""
    if not group.count:
        return [[] for _ in group.ids]
    return _Balancing(group).shares()


class _Balancing:
    """One assignment while it is computed."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._subscribed = [[group.index[name] for name in m.topics if name in group.index] for m in group.members]
        """Topics of each member; one that is listed twice counts twice, as in Kafka."""
        self._wanted = [0] * group.count
        for topic in chain.from_iterable(self._subscribed):
            self._wanted[topic] += 1
        by_demand = sorted(range(group.count), key=lambda topic: (self._wanted[topic], topic))
        self._all = [code for topic in by_demand for code in group.codes_of(topic)]
        """Every partition, those of topics with fewest subscribers first."""
        self._previous = _previous_owners(group)
        self._revoked = False
        kept = self._keep(group.owned()[0])
        self._owner = {code: member for member, codes in enumerate(kept) for code in codes}
        self._loads = Loads(group, self._subscribed, kept)
        hashes = [java_string_hash(name) for name in group.names]
        self._moves = Moves(group.count, lambda code: 31 * (31 + code // group.count) + hashes[code % group.count])

    def _keep(self, owned: Sequence[Sequence[int]]) -> list[dict[int, None]]:
        kept = []
        for member, codes in enumerate(owned):
            topics = set(self._subscribed[member])
            stays = [
                code
                for code in codes
                if code % self._group.count in topics and not self._group.racks.mismatch(member, code)
            ]
            self._revoked |= len(stays) < len(codes)
            kept.append(dict.fromkeys(stays))
        return kept

    def shares(self) -> list[list[int]]:
        """Distribute, then balance."""
        shares = self._loads.shares
        fresh = not any(shares)
        unassigned = [code for code in self._all if code not in self._owner]
        self._hand_out(unassigned)
        unassigned, reassignable = self._contested(unassigned), self._contested(self._all)
        for member in range(len(shares)):
            if not self._takes_part(member):
                self._loads.leave_out(member)
        before = [list(codes) for codes in shares]
        self._loads.watch_balance()
        if not self._revoked:
            self._balance(unassigned)
        if self._balance(reassignable) and not fresh and self._imbalance(shares) >= self._imbalance(before):
            return before
        return [list(codes) for codes in shares]

    def _contested(self, codes: Sequence[int]) -> list[int]:
        """Those partitions that more than one member could have."""
        return [code for code in codes if self._wanted[code % self._group.count] >= 2]

    def _takes_part(self, member: int) -> bool:
        """Whether a member could get more, or has a partition that another member could have."""
        mine = self._loads.shares[member]
        return len(mine) < most_of(self._group, self._subscribed[member]) or bool(self._contested(list(mine)))

    def _hand_out(self, unassigned: Sequence[int]) -> None:
        if self._group.racks.used:
            unassigned = [code for code in unassigned if not self._hand(code, self._group.racks.of(code))]
        for code in unassigned:
            self._hand(code, None)

    def _hand(self, code: int, racks: frozenset[str] | None) -> bool:
        taker = self._loads.least(code % self._group.count, racks)
        if taker is None:
            return False
        self._loads.give(taker, code)
        self._owner[code] = taker
        return True

    def _balance(self, codes: Sequence[int]) -> bool:
        """Iterate over the partitions until the group is balanced or no partition moves. Returns whether any moved."""
        any_moved = False
        moved = True
        while moved:
            moved = False
            for code in codes:
                if self._loads.balanced():
                    break
                if (taker := self._better_owner(code)) is not None:
                    self._move(self._moves.instead(code, self._owner[code], taker), taker)
                    moved = any_moved = True
        return any_moved

    def _better_owner(self, code: int) -> int | None:
        """Its owner in an earlier generation, else the subscriber with fewest. None unless that one
        has fewer by two.
        """
        size = len(self._loads.shares[self._owner[code]])
        previous = self._previous.get(code)
        if previous is not None and self._loads.takes_part(previous) and size > len(self._loads.shares[previous]) + 1:
            return previous
        taker = self._loads.least(code % self._group.count)
        return taker if taker is not None and size > len(self._loads.shares[taker]) + 1 else None

    def _move(self, code: int, taker: int) -> None:
        owner = self._owner[code]
        self._moves.add(code, owner, taker)
        self._loads.take(owner, code)
        self._loads.give(taker, code)
        self._owner[code] = taker

    def _imbalance(self, shares: Sequence[Sequence[int] | dict[int, None]]) -> int:
        """The sum, over all pairs of members that take part, of how much their sizes differ."""
        sizes = sorted(len(codes) for member, codes in enumerate(shares) if self._loads.takes_part(member))
        return sum(size * (2 * place - len(sizes) + 1) for place, size in enumerate(sizes))


def _previous_owners(group: Group) -> dict[int, int]:
    """The owner of each partition in the newest of the older generations."""
    newest = group.newest()
    owners: dict[int, tuple[int, int]] = {}
    for member, generation in enumerate(group.generations):
        age = NO_GENERATION if generation is None else generation
        if age < newest:
            for code in group.claimed[member]:
                if code not in owners or age > owners[code][0]:
                    owners[code] = (age, member)
    return {code: member for code, (_, member) in owners.items()}


Pair = tuple[int, int]
"""From member to member."""


class Moves:
    """The moves of a balancing, and better moves in their place (Kafka's PartitionMovements).

    A partition of a topic may have moved from A to B before another moves from B to A. Then it is better to send the
    first one back. Partitions are codes (sticky_group); `hash_code` returns the Java hash code of a code.
    """

    def __init__(self, topics: int, hash_code: Callable[[int], int]) -> None:
        self._hash_code = hash_code
        self._topics = topics
        self._of_partition: dict[int, Pair] = {}
        """The members between which each partition has moved: the first owner and the present one."""
        self._of_topic: dict[int, dict[Pair, JavaSet[int]]] = {}

    def instead(self, code: int, old: int, new: int) -> int:
        """The partition of the same topic to move when `code` is to go from `old` to `new`."""
        pairs = self._of_topic.get(code % self._topics)
        if not pairs:
            return code
        source = self._of_partition[code][0] if code in self._of_partition else old
        back = pairs.get((new, source))
        return code if back is None else back.first()

    def add(self, code: int, old: int, new: int) -> None:
        """Record that a partition moved from one member to another."""
        source = self._forget(code)
        if source is None:
            source = old
        elif source == new:
            return
        pair = (source, new)
        self._of_partition[code] = pair
        self._of_topic.setdefault(code % self._topics, {}).setdefault(pair, JavaSet()).add(code, self._hash_code(code))

    def _forget(self, code: int) -> int | None:
        """Forget the moves of a partition. Returns its first owner."""
        pair = self._of_partition.pop(code, None)
        if pair is None:
            return None
        pairs = self._of_topic[code % self._topics]
        pairs[pair].remove(code)
        if not pairs[pair]:
            del pairs[pair]
        return pair[0]
