"""Sticky (KIP-54): balanced, and of all balanced assignments one that moves few partitions.

Guarantees with equal subscriptions: sizes differ by one at most, and no more partitions move than that needs. With
differing subscriptions: no single move would balance better, and nothing moves without need. Balance goes before
stickiness, and so do racks (KIP-881): a partition leaves a member whose rack has none of its replicas, if another
member fits better. Eager: members give up everything before they join; their user data has what they had.

Kafka: org.apache.kafka.clients.consumer.StickyAssignor. Claims of partitions that do not exist are ignored; Kafka keeps
them, and then fails or gives partitions to two members. Kafka's object remembers the newest generation ever seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muster.assignors.assignor import Assignment, Member, Partitions, RebalanceProtocol, Topic
from muster.assignors.sticky_data import decode_owned, encode_owned
from muster.assignors.sticky_equal import EqualShares
from muster.assignors.sticky_general import general_shares
from muster.assignors.sticky_group import Group


class StickyAssignor:
    """The strategy "sticky"."""

    name = "sticky"
    protocols = (RebalanceProtocol.EAGER,)

    def assign(self, members: Sequence[Member], topics: Mapping[str, Topic]) -> Assignment:
        """See Assignor.assign. Raises ValueError when two members have one id.

        What members had is read from their user data; `owned` is not looked at.
        """
        if not members:
            return {}
        group = Group(members, topics, lambda member: decode_owned(member.user_data))
        equal = group.all_subscribed_alike()
        return group.by_name(EqualShares(group).shares if equal else general_shares(group))

    def user_data(self, owned: Partitions | None, generation: int) -> bytes | None:
        """What it was last assigned, and in which generation."""
        return None if owned is None else encode_owned(owned, generation)
