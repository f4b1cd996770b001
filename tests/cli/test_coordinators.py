"""A coordinator that is not ready yet is waited for, as Kafka's admin clients do; an offline coordinator is not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from muster.cli.groups.offsets import fetch_committed
from muster.client import kafka_client as module
from muster.client.connection import RequestFailed
from muster.client.kafka_client import KafkaClient
from muster.coordinator.config.listeners import Address
from muster.protocol.api import ApiKey
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from muster.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker, MetadataResponseTopic
from muster.protocol.messages.offset_fetch import OffsetFetchResponse, OffsetFetchResponseGroup

NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
LOADING, MOVED = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR


class Node:
    """A server that answers with these errors, one after the other, and then without an error."""

    address = "127.0.0.1:9092"

    def __init__(self, finds: Iterable[int], fetches: Iterable[int] = (), *, topic_from: int = 0) -> None:
        self.finds, self.fetches = [*finds], [*fetches]
        self.topic_from = topic_from
        self.asked: list[int] = []
        self.is_open = True

    def ask(self, key: int, request: Any, timeout_s: float = 0) -> Any:
        del request, timeout_s
        self.asked.append(key)
        if key == ApiKey.FIND_COORDINATOR:
            error = self.finds.pop(0) if self.finds else 0
            return FindCoordinatorResponse(coordinators=[Coordinator("g", 1, "127.0.0.1", 9092, error)])
        if key == ApiKey.METADATA:
            there = self.asked.count(ApiKey.FIND_COORDINATOR) > self.topic_from
            topics = [MetadataResponseTopic(name="__consumer_offsets")] if there else []
            return MetadataResponse(brokers=[MetadataResponseBroker(1, "127.0.0.1", 9092)], topics=topics)
        assert key == ApiKey.OFFSET_FETCH
        error = self.fetches.pop(0) if self.fetches else 0
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup("g", error_code=error)])

    def close(self) -> None:
        """Close nothing: no connection is open."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(module, "PAUSE_S", 0)

    def connected(node: Node) -> KafkaClient:
        monkeypatch.setattr(module, "Connection", lambda *_: node)
        return KafkaClient(Address("127.0.0.1", 9092))

    return connected


def test_a_coordinator_is_retried_while_the_offsets_topic_is_created(asked: Any) -> None:
    node = Node([NOT_AVAILABLE] * 5, [MOVED, LOADING], topic_from=4)
    assert fetch_committed(asked(node), "g") == {}
    assert node.asked.count(ApiKey.FIND_COORDINATOR) == 6 + 2  # the coordinator may have moved each time
    assert node.asked.count(ApiKey.OFFSET_FETCH) == 3


def test_a_coordinator_of_an_offline_partition_is_not_awaited(asked: Any) -> None:
    node = Node([NOT_AVAILABLE] * 1_000)
    with pytest.raises(RequestFailed, match="group g has no coordinator: COORDINATOR_NOT_AVAILABLE"):
        fetch_committed(asked(node), "g")
    assert node.asked.count(ApiKey.FIND_COORDINATOR) == module.TRIES_OF_A_TOPIC + 1


def test_retries_of_a_loading_coordinator_are_bounded(asked: Any) -> None:
    node = Node([], [LOADING] * 1_000)
    with pytest.raises(RequestFailed, match="offsets of group g cannot be read: COORDINATOR_LOAD_IN_PROGRESS"):
        fetch_committed(asked(node), "g")
    assert node.asked.count(ApiKey.OFFSET_FETCH) == module.TRIES
    never_made = Node([NOT_AVAILABLE] * 1_000, topic_from=1_000)
    with pytest.raises(RequestFailed, match="has no coordinator"):
        fetch_committed(asked(never_made), "g")
    assert never_made.asked.count(ApiKey.FIND_COORDINATOR) == module.TRIES


def test_other_errors_of_a_coordinator_are_reported_at_once(asked: Any) -> None:
    node = Node([], [ErrorCode.GROUP_AUTHORIZATION_FAILED])
    with pytest.raises(RequestFailed, match="GROUP_AUTHORIZATION_FAILED"):
        fetch_committed(asked(node), "g")
    assert node.asked.count(ApiKey.OFFSET_FETCH) == 1
