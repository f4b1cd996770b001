"""ListOffsets below version 4 has no leader epoch in answers (KIP-320)."""

from __future__ import annotations

from muster.protocol.messages.list_offsets import ListOffsetsResponse


def lower_response(_version: int, response: ListOffsetsResponse) -> ListOffsetsResponse:
    """Remove the leader epoch."""
    for topic in response.topics:
        for partition in topic.partitions:
            partition.leader_epoch = -1
    return response
