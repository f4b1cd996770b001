"""Uniform, the server's default under KIP-848: balanced over all topics, sticky to the present target assignment.

Guarantees: with equal subscriptions, sizes differ by one at most, and a member keeps its partitions up to its share.
With differing ones, sizes of the subscribers of one topic differ by one at most if subscriptions are equal or disjoint;
overlapping ones come close to it (at most 16 passes over the topics). Racks are ignored (as in 4.3).

`owned` of a member is its target assignment, not what it has by now. Topics and partitions of the result ascend: on the
server they are sets. Kafka: org.apache.kafka.coordinator.group.assignor.UniformAssignor. Which partitions a member with
too many gives up follows the hash tables of a server that has just loaded the group from its log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muster.assignors.assignor import Assignment, Member, RebalanceProtocol, Topic
from muster.assignors.members import no_user_data
from muster.assignors.target_group import TargetGroup
from muster.assignors.uniform_equal import equal_shares
from muster.assignors.uniform_general import GeneralShares


class UniformAssignor:
    """The strategy "uniform" of the server."""

    name = "uniform"
    protocols = (RebalanceProtocol.COOPERATIVE,)
    user_data = no_user_data

    def assign(self, members: Sequence[Member], topics: Mapping[str, Topic]) -> Assignment:
        """See Assignor.assign. The result is the target assignment. Raises ValueError when two members have one id."""
        if not members:
            return {}
        group = TargetGroup(members, topics)
        equal = group.all_subscribed_alike()
        return group.by_name(equal_shares(group) if equal else GeneralShares(group).shares())

    def assign_generally(self, members: Sequence[Member], topics: Mapping[str, Topic]) -> Assignment:
        """The same, the way for differing subscriptions, which is right for all: Kafka goes it for most groups with
        regular expressions.
        """
        if not members:
            return {}
        group = TargetGroup(members, topics)
        return group.by_name(GeneralShares(group).shares())
