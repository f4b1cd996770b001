from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.api.node import Node
from muster.coordinator.security.authorizer import Operation, ResourceType
from muster.coordinator.state_machine.interface import Command
from muster.protocol.errors import ErrorCode
from muster.protocol.message import ZERO_UUID
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.coordinator.api.harness import FakeTopics, Refusing, ask, make_context, make_group_node

T1, T2 = (1).to_bytes(16, "big"), (2).to_bytes(16, "big")


@pytest.fixture
def node() -> Node:
    return make_group_node(FakeTopics(t1=3, t2=1))


def topic(name: str, *partitions: int, topic_id: bytes = ZERO_UUID) -> OffsetCommitRequestTopic:
    return OffsetCommitRequestTopic(name, topic_id, [OffsetCommitRequestPartition(p, 100 + p) for p in partitions])


def commit(node: Node, *topics: OffsetCommitRequestTopic, version: int = 9, **request: Any) -> list[Any]:
    asked = OffsetCommitRequest("g", topics=list(topics), **request)
    response = ask(node, asked, make_context(8, version)).one()
    return [(t.name, [(p.partition_index, p.error_code) for p in t.partitions]) for t in response.topics]


def records(node: Node) -> list[Any]:
    return [record for shard in node.routing.shards for record in shard.runtime.log.rows]


def test_existing_partitions_are_committed_with_their_topic_id(node: Node) -> None:
    assert commit(node, topic("t1", 0, 2), topic("t2", 0)) == [("t1", [(0, 0), (2, 0)]), ("t2", [(0, 0)])]
    written = [(r.key.topic, r.key.partition, r.value.offset, r.value.topic_id) for r in records(node)]
    assert written == [("t1", 0, 100, T1), ("t1", 2, 102, T1), ("t2", 0, 100, T2)]


def test_unknown_partitions_are_refused_by_row_and_the_rest_is_committed(node: Node) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(node, topic("t1", 3, 0, -1), topic("no", 0), topic("t2", 0)) == [
        ("t1", [(3, unknown), (-1, unknown), (0, 0)]),
        ("no", [(0, unknown)]),
        ("t2", [(0, 0)]),
    ]
    assert [(r.key.topic, r.key.partition) for r in records(node)] == [("t1", 0), ("t2", 0)]


def test_a_commit_of_only_unknown_partitions_does_not_ask_the_group(node: Node) -> None:
    stranger: dict[str, Any] = {"generation_id_or_member_epoch": 5, "member_id": "ghost"}
    assert commit(node, topic("no", 0), **stranger) == [("no", [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)])]
    assert commit(node, topic("t1", 0), **stranger) == [("t1", [(0, ErrorCode.GROUP_ID_NOT_FOUND)])]


def test_an_empty_commit_does_not_ask_the_group(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def submit(command: Command) -> None:
        raise AssertionError(command)

    monkeypatch.setattr(node.routing.shard("g").runtime, "submit", submit)
    assert commit(node) == []
    assert commit(node, topic("t1"), topic("t2")) == []


def test_a_commit_finds_topics_by_id(node: Node) -> None:
    rows = commit(node, topic("", 1, topic_id=T1), topic("", 0, topic_id=b"?" * 16), topic("", 0), version=10)
    unknown = ErrorCode.UNKNOWN_TOPIC_ID
    assert rows == [("", [(0, unknown)]), ("", [(0, unknown)]), ("t1", [(1, 0)])]


def test_without_permission(node: Node) -> None:
    node.authorizer = Refusing((Operation.READ, ResourceType.TOPIC, "t2"))
    assert commit(node, topic("t1", 0), topic("t2", 0)) == [
        ("t2", [(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)]),
        ("t1", [(0, 0)]),
    ]
    node.authorizer = Refusing((Operation.READ, ResourceType.GROUP, "g"))
    assert commit(node, topic("t1", 0), topic("no", 1)) == [
        ("t1", [(0, ErrorCode.GROUP_AUTHORIZATION_FAILED)]),
        ("no", [(1, ErrorCode.GROUP_AUTHORIZATION_FAILED)]),
    ]


def test_a_commit_keeps_all_refused_rows_of_a_topic_named_twice(node: Node) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(node, topic("t1", 5), topic("t1", 7)) == [("t1", [(5, unknown), (7, unknown)])]
    assert commit(node, topic("no", 0), topic("t1", 0, 9), topic("no", 1), topic("t1", 1, 8)) == [
        ("no", [(0, unknown), (1, unknown)]),
        ("t1", [(9, unknown), (8, unknown), (0, 0), (1, 0)]),
    ]
    by_id = [topic("", 9, topic_id=T1), topic("", 8, topic_id=T1), topic("", 0, topic_id=b"?" * 16)]
    assert [rows for _, rows in commit(node, *by_id, version=10)] == [
        [(9, unknown), (8, unknown)],
        [(0, ErrorCode.UNKNOWN_TOPIC_ID)],
    ]


@pytest.mark.parametrize(("version", "error_code"), [(2, 3), (9, 3), (10, 100)])
def test_a_commit_to_a_topic_without_a_name_has_the_error_of_its_version(
    node: Node, version: int, error_code: int
) -> None:
    assert commit(node, topic("", 0), topic("", 1), version=version) == [("", [(0, error_code), (1, error_code)])]
