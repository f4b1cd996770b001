"""Uniform, the server's default under KIP-848: balanced over all topics, sticky to the present target assignment.

With equal subscriptions it guarantees that sizes differ by one at most. A member keeps its partitions up to its share.
With differing subscriptions, there are two cases. If subscriptions are equal or disjoint, sizes of the subscribers of
one topic differ by one at most. Overlapping subscriptions get close to that (at most 16 passes over the topics). Racks
are ignored (as in 4.3).

`owned` of a member is its target assignment, not its current one. Topics and partitions of the result ascend: on the
server they are sets. Kafka: org.apache.kafka.coordinator.group.assignor.UniformAssignor. A member with too many
partitions gives some up. Their choice follows the hash tables of a server that has just loaded the group from its log.
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
        """The same, by the algorithm for differing subscriptions, which is right for all.

        Kafka uses it for most groups with regular expressions.
        """
        if not members:
            return {}
        group = TargetGroup(members, topics)
        return group.by_name(GeneralShares(group).shares())
