"""DeleteTopics 1-5 have a list of names instead of rows with name or id (KIP-516). Answers need no change."""

from __future__ import annotations

from muster.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState


def raise_request(_version: int, request: DeleteTopicsRequest) -> DeleteTopicsRequest:
    """Make a row of each name."""
    request.topics = [DeleteTopicState(name=name) for name in request.topic_names]
    request.topic_names = ()
    return request
