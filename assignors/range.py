"""Range: each subscriber of a topic gets a run of neighbouring partitions.

It guarantees for each topic: the subscribers' numbers of partitions differ by one at most. The first subscribers get
the larger shares (static members by instance id, then the others by member id). So topics with the same number of
partitions and the same subscribers are co-partitioned. That means: partition n of each goes to the same member. A group
with many small topics is uneven, because the first members always get more. Range is not sticky.

With racks (KIP-881) partitions first go to subscribers in the rack of one of their replicas, within the same shares.
The others go by range. Topics stay co-partitioned. Racks count only if a replica is in some of the topic's racks, but
not in all.

Kafka: org.apache.kafka.clients.consumer.RangeAssignor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muster.assignors.assignor import Assignment, Member, RebalanceProtocol, Topic
from muster.assignors.java_order import sort_strings
from muster.assignors.members import by_identity, no_user_data, require_distinct, subscribers, topics_in_hash_order
from muster.assignors.range_racks import RackMatching, matters


class RangeAssignor:
    """The strategy "range"."""

    name = "range"
    protocols = (RebalanceProtocol.EAGER,)
    user_data = no_user_data

    def assign(self, members: Sequence[Member], topics: Mapping[str, Topic]) -> Assignment:
        """See Assignor.assign. Raises ValueError when two members have one id."""
        require_distinct(members)
        names = topics_in_hash_order(members, topics)
        assignment: Assignment = {member.member_id: {} for member in members}
        consumers = subscribers(by_identity(members), names)
        if any(member.rack for member in members) and any(matters(consumers[t], topics[t]) for t in names):
            _assign_by_racks(sort_strings(names), consumers, topics, assignment)
        else:
            for name in names:
                _assign_topic(name, consumers[name], topics[name].partitions, assignment)
        return assignment


def _assign_topic(name: str, consumers: Sequence[Member], partitions: int, assignment: Assignment) -> None:
    share, larger = divmod(partitions, len(consumers))
    start = 0
    for index, member in enumerate(consumers):
        end = start + share + (index < larger)
        if start == end:
            break
        assignment[member.member_id][name] = list(range(start, end))
        start = end


def _assign_by_racks(
    names: Sequence[str], consumers: Mapping[str, list[Member]], topics: Mapping[str, Topic], assignment: Assignment
) -> None:
    alike: dict[tuple[frozenset[str], int], list[str]] = {}
    for name in names:
        who = frozenset(member.member_id for member in consumers[name])
        alike.setdefault((who, topics[name].partitions), []).append(name)
    shares = {}
    for together in alike.values():
        matching = RackMatching(consumers[together[0]], [topics[name] for name in together])
        shares.update(dict.fromkeys(together, matching.shares()))
    for name in names:
        for member, partitions in zip(consumers[name], shares[name], strict=True):
            if partitions:
                assignment[member.member_id][name] = list(partitions)
