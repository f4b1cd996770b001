"""Produce below version 10 has no leader and no endpoints in answers (KIP-951)."""

from __future__ import annotations

from muster.protocol.messages.produce import ProduceResponse


def lower_response(_version: int, response: ProduceResponse) -> ProduceResponse:
    """Remove leader and endpoints."""
    response.node_endpoints = ()
    for topic in response.responses:
        for partition in topic.partition_responses:
            partition.current_leader = None
    return response
