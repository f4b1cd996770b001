"""Sticky (KIP-54): balanced, and of all balanced assignments one that moves few partitions.

With equal subscriptions it guarantees that sizes differ by one at most. No more partitions move than that needs. With
differing subscriptions no single move would balance better, and nothing moves without need. Balance has priority over
stickiness, and so have racks (KIP-881). A partition leaves a member whose rack has none of its replicas, if another
member fits better. Sticky is eager: members give up everything before they join. Their user data has their former
partitions.

Kafka: org.apache.kafka.clients.consumer.StickyAssignor. Claims of partitions that do not exist are ignored. Kafka keeps
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

        The former partitions of members are read from their user data; `owned` is not used.
        """
        if not members:
            return {}
        group = Group(members, topics, lambda member: decode_owned(member.user_data))
        equal = group.all_subscribed_alike()
        return group.by_name(EqualShares(group).shares if equal else general_shares(group))

    def user_data(self, owned: Partitions | None, generation: int) -> bytes | None:
        """The member's last assignment, and its generation."""
        return None if owned is None else encode_owned(owned, generation)
