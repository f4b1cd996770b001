"""DeleteTopics 1-5: a list of names instead of rows with name or id (KIP-516)."""

from __future__ import annotations

from muster.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState


def raise_request(_version: int, request: DeleteTopicsRequest) -> DeleteTopicsRequest:
    """Each name becomes a row."""
    request.topics = [DeleteTopicState(name=name) for name in request.topic_names]
    request.topic_names = ()
    return request


def lower_response(_version: int, response: DeleteTopicsResponse) -> DeleteTopicsResponse:
    """Nothing to do: rows of requests by name have names, and older versions leave out the id."""
    return response
