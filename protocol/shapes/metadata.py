"""Metadata 0 asks for all topics with an empty list. Answers below version 12 cannot leave out a topic's name."""

from __future__ import annotations

from muster.protocol.messages.metadata import MetadataRequest, MetadataResponse


def raise_request(_version: int, request: MetadataRequest) -> MetadataRequest:
    """In version 0, replace an empty list of topics by None, which means all topics."""
    if not request.topics:
        request.topics = None
    return request


def lower_response(_version: int, response: MetadataResponse) -> MetadataResponse:
    """Below version 12, a topic with an id but no known name gets the name ""."""
    for topic in response.topics:
        if topic.name is None:
            topic.name = ""
    return response
