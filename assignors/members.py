"""Common code of all strategies: distinct member ids, and the orders in which Kafka iterates over members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from muster.assignors.assignor import Member, Partitions, Topic
from muster.assignors.java_order import sort_strings, string_order


def no_user_data(_: object, owned: Partitions | None, generation: int) -> bytes | None:  # noqa: ARG001 - of the protocol
    """`Assignor.user_data` of a strategy whose members need no user data."""
    return None


def require_distinct(members: Sequence[Member]) -> None:
    """Raise ValueError, with the id, when two members have one id."""
    if len({member.member_id for member in members}) < len(members):
        seen = set()
        for member in members:
            if member.member_id in seen:
                raise ValueError(f"member {member.member_id!r} stands twice among the members; ids must differ")
            seen.add(member.member_id)


def in_hash_order(members: Sequence[Member]) -> list[Member]:
    """The members in the order of Java's HashMap of subscriptions by member id, which a leader fills."""
    by_id = {member.member_id: member for member in members}
    return [by_id[member_id] for member_id in string_order(by_id)]


def by_identity(members: Sequence[Member]) -> list[Member]:
    """Static members by their instance ids, then the others by their member ids (Kafka's MemberInfo).

    Static members thus keep their places when they restart under other member ids.
    """
    dynamic = {member.member_id: member for member in members if member.instance_id is None}
    ordered = [dynamic[member_id] for member_id in sort_strings(dynamic)]
    if len(ordered) == len(members):
        return ordered
    static: dict[str, list[Member]] = {}
    for member in members:
        if member.instance_id is not None:
            static.setdefault(member.instance_id, []).append(member)
    first = []
    for instance_id in sort_strings(static):
        # A group cannot have two members of one instance. If it has, Java keeps them in its order of iteration.
        same = static[instance_id]
        first += same if len(same) == 1 else [member for member in in_hash_order(members) if member in same]
    return first + ordered


def distinct_subscriptions(members: Iterable[Member]) -> list[Sequence[str]]:
    """The different subscriptions (lists of topics as members wrote them), in the order of members."""
    lists = {id(member.topics): member.topics for member in members}  # many members may have the same subscription
    return list(dict.fromkeys(map(tuple, lists.values())))


def existing(topics: Iterable[str], known: Mapping[str, Topic]) -> list[str]:
    """Those topics that exist and have partitions."""
    return [name for name in topics if (topic := known.get(name)) is not None and topic.partitions]


def topics_in_hash_order(members: Sequence[Member], known: Mapping[str, Topic]) -> list[str]:
    """Subscribed topics with partitions, in the order of the HashMap that AbstractPartitionAssignor fills."""
    subscriptions = distinct_subscriptions(members)
    if len(subscriptions) > 1:
        subscriptions = distinct_subscriptions(in_hash_order(members))
    subscribed = string_order(name for topics in subscriptions for name in topics)
    return string_order(existing(subscribed, known))


def subscribers(members: Iterable[Member], names: Iterable[str]) -> dict[str, list[Member]]:
    """The subscribers of each of these topics, each member once, in the order of members."""
    found: dict[str, list[Member]] = {name: [] for name in names}
    for member in members:
        for name in dict.fromkeys(member.topics):
            if (its := found.get(name)) is not None:
                its.append(member)
    return found
