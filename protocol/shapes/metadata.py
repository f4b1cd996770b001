"""Metadata: version 0 asks for all topics with an empty list; answers below 12 cannot leave out a topic's name."""

from __future__ import annotations

from muster.protocol.messages.metadata import MetadataRequest, MetadataResponse


def raise_request(_version: int, request: MetadataRequest) -> MetadataRequest:
    """Version 0: no topics means all topics, which is None since version 1."""
    if not request.topics:
        request.topics = None
    return request


def lower_response(_version: int, response: MetadataResponse) -> MetadataResponse:
    """Below 12: a topic known by its id only has the name ""."""
    for topic in response.topics:
        if topic.name is None:
            topic.name = ""
    return response
