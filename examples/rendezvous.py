"""A strategy that the server runs for groups of the new protocol (KIP-848): each partition goes to the member whose
name and the partition's together give the highest number. When a member comes or goes, nothing moves among the others.

    PYTHONPATH=examples muster serve --override group.consumer.assignors=uniform,rendezvous:Rendezvous

A consumer chooses it with group.protocol=consumer and group.remote.assignor=rendezvous; named first it is the default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from zlib import crc32

from muster.assignors.assignor import Assignment, Member, Topic


class Rendezvous:
    """Members that keep their ids keep their partitions, wherever the group's coordinator is started again."""

    name = "rendezvous"

    def assign(self, members: Sequence[Member], topics: Mapping[str, Topic]) -> Assignment:
        """Share the partitions of the subscribed topics among the members."""
        shares: Assignment = {member.member_id: {} for member in members}
        for name, topic in topics.items():
            wanted_by = [member.member_id for member in members if name in member.topics]
            for partition in range(topic.partitions):
                owner = max(wanted_by, key=lambda who: (crc32(f"{who} {name} {partition}".encode()), who))
                shares[owner].setdefault(name, []).append(partition)
        return shares
