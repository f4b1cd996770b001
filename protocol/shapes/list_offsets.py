"""ListOffsets below 4: answers have no leader epoch (KIP-320)."""

from __future__ import annotations

from muster.protocol.messages.list_offsets import ListOffsetsResponse


def lower_response(_version: int, response: ListOffsetsResponse) -> ListOffsetsResponse:
    """The leader epoch is left out."""
    for topic in response.topics:
        for partition in topic.partitions:
            partition.leader_epoch = -1
    return response
