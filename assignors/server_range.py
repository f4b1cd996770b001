"""Range as the server does it (KIP-848): by runs of neighbouring partitions, without racks.

It guarantees the same as the clients' range. For each topic the sizes differ by one at most. The first members get the
larger shares (static ones by instance id, then the others by member id). Topics with the same number of partitions and
the same subscribers are co-partitioned. Topics and partitions of the result ascend, because they are sets on the
server.

Kafka: org.apache.kafka.coordinator.group.assignor.RangeAssignor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from muster.assignors.assignor import Assignment, Member, RebalanceProtocol, Topic
from muster.assignors.members import no_user_data
from muster.assignors.range import RangeAssignor


class ServerRangeAssignor:
    """The strategy "range" of the server."""

    name = "range"
    protocols = (RebalanceProtocol.COOPERATIVE,)
    user_data = no_user_data

    def assign(self, members: Sequence[Member], topics: Mapping[str, Topic]) -> Assignment:
        """See Assignor.assign. The result is the target assignment. Raises ValueError when two members have one id."""
        assignment = RangeAssignor().assign([replace(member, rack=None) for member in members], topics)
        return {member: dict(sorted(share.items())) for member, share in assignment.items()}
