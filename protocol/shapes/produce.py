"""Produce below 10: answers have no leader and no endpoints (KIP-951)."""

from __future__ import annotations

from muster.protocol.messages.produce import ProduceResponse


def lower_response(_version: int, response: ProduceResponse) -> ProduceResponse:
    """Below 10: leader and endpoints are left out."""
    response.node_endpoints = ()
    for topic in response.responses:
        for partition in topic.partition_responses:
            partition.current_leader = None
    return response
