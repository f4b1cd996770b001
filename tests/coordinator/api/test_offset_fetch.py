from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.api.many_rows import ROWS_AT_ONCE
from muster.coordinator.api.node import Node
from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.security.authorizer import Operation, ResourceType
from muster.protocol.errors import ErrorCode
from muster.protocol.message import ZERO_UUID
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from muster.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.coordinator.api.harness import FakeTopics, Refusing, ask, make_context, make_group_node

T1, T2 = (1).to_bytes(16, "big"), (2).to_bytes(16, "big")


@pytest.fixture
def node() -> Node:
    """Groups g and h have committed 10 and 20 for each partition of t1 and t2."""
    node = make_group_node(FakeTopics(t1=2, t2=1))
    for group, offset in (("g", 10), ("h", 20)):
        topics = [
            OffsetCommitRequestTopic(name, partitions=[OffsetCommitRequestPartition(p, offset) for p in range(count)])
            for name, count in (("t1", 2), ("t2", 1))
        ]
        ask(node, OffsetCommitRequest(group, topics=topics), make_context(8, 9)).one()
    return node


def topic(name: str, *partitions: int, topic_id: bytes = ZERO_UUID) -> OffsetFetchRequestTopics:
    return OffsetFetchRequestTopics(name, topic_id, list(partitions))


def fetch(node: Node, *groups: OffsetFetchRequestGroup, version: int = 9) -> list[Any]:
    response = ask(node, OffsetFetchRequest(groups=list(groups)), make_context(9, version)).one()
    return [
        (
            group.group_id,
            group.error_code,
            [
                (t.name, [(p.partition_index, p.committed_offset, p.error_code) for p in t.partitions])
                for t in group.topics
            ],
        )
        for group in response.groups
    ]


def test_an_offset_fetch_answers_groups_in_the_order_of_the_request(node: Node) -> None:
    asked = [OffsetFetchRequestGroup(group, topics=[topic("t1", 1)]) for group in ("h", "nobody", "g", "h")]
    assert fetch(node, *asked) == [
        ("h", 0, [("t1", [(1, 20, 0)])]),
        ("nobody", 0, [("t1", [(1, -1, 0)])]),
        ("g", 0, [("t1", [(1, 10, 0)])]),
        ("h", 0, [("t1", [(1, 20, 0)])]),
    ]


def test_an_offset_fetch_without_groups_has_no_rows(node: Node) -> None:
    assert fetch(node) == []


def test_an_offset_fetch_answers_all_topics_or_none_of_a_group(node: Node) -> None:
    every = [("t1", [(0, 10, 0), (1, 10, 0)]), ("t2", [(0, 10, 0)])]
    assert fetch(node, OffsetFetchRequestGroup("g", topics=None)) == [("g", 0, every)]
    assert fetch(node, OffsetFetchRequestGroup("g", topics=[])) == [("g", 0, [])]


def test_an_offset_fetch_of_an_unknown_topic_has_no_offset_and_no_error(node: Node) -> None:
    assert fetch(node, OffsetFetchRequestGroup("g", topics=[topic("no", 0), topic("t1", 9)])) == [
        ("g", 0, [("no", [(0, -1, 0)]), ("t1", [(9, -1, 0)])])
    ]


def test_an_offset_fetch_finds_topics_by_id(node: Node) -> None:
    asked = [topic("", 0, topic_id=b"?" * 16), topic("", 1, topic_id=T1), topic("", 0)]
    response = ask(node, OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=asked)])).one()
    rows = [
        (t.topic_id, t.partitions[0].committed_offset, t.partitions[0].error_code) for t in response.groups[0].topics
    ]
    unknown = ErrorCode.UNKNOWN_TOPIC_ID
    assert rows == [(T1, 10, 0), (b"?" * 16, -1, unknown), (ZERO_UUID, -1, unknown)]


def test_an_offset_fetch_of_all_topics_by_id_omits_deleted_topics(node: Node) -> None:
    node.topics.image = TopicsImage({"t2": node.topics.image.by_name["t2"]}, 8)
    response = ask(node, OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)])).one()
    assert [t.topic_id for t in response.groups[0].topics] == [T2]
    assert [name for _, _, topics in fetch(node, OffsetFetchRequestGroup("g", topics=None)) for name, _ in topics] == [
        "t1",
        "t2",
    ]


def test_without_permission(node: Node) -> None:
    node.authorizer = Refusing(
        (Operation.DESCRIBE, ResourceType.GROUP, "h"), (Operation.DESCRIBE, ResourceType.TOPIC, "t2")
    )
    named = OffsetFetchRequestGroup("g", topics=[topic("t2", 0), topic("t1", 0)])
    refused = OffsetFetchRequestGroup("h", topics=[topic("t1", 0)])
    group_failed, topic_failed = ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert fetch(node, named, refused, OffsetFetchRequestGroup("g", topics=None)) == [
        ("g", 0, [("t1", [(0, 10, 0)]), ("t2", [(0, -1, topic_failed)])]),
        ("h", group_failed, [("t1", [(0, -1, group_failed)])]),
        ("g", 0, [("t1", [(0, 10, 0), (1, 10, 0)])]),
    ]


def test_an_inactive_shard_refuses_only_its_own_groups(node: Node) -> None:
    node.routing.shard("h").runtime.resign()
    asked = [OffsetFetchRequestGroup(group, topics=[topic("t1", 1)]) for group in ("h", "g")]
    if node.routing.shard("g") is node.routing.shard("h"):
        raise AssertionError("choose other names")
    rows = fetch(node, *asked)
    assert [(group, code) for group, code, _ in rows] == [("h", ErrorCode.NOT_COORDINATOR), ("g", 0)]


def test_a_refused_topic_keeps_its_rows_if_the_group_is_refused_too(node: Node) -> None:
    node.routing.shard("g").runtime.resign()
    node.authorizer = Refusing((Operation.DESCRIBE, ResourceType.TOPIC, "t1"))
    asked = OffsetFetchRequestGroup("g", topics=[topic("t1", 0), topic("t2", 0)])
    assert fetch(node, asked, version=1) == [("g", 16, [("t2", [(0, -1, 16)]), ("t1", [(0, -1, 29)])])]


def test_an_offset_fetch_of_the_empty_topic_name_finds_no_topic(node: Node) -> None:
    asked = OffsetFetchRequestGroup("g", topics=[topic("", 0)])
    assert fetch(node, asked, version=9) == [("g", 0, [("", [(0, -1, 0)])])]
    asked = OffsetFetchRequestGroup("g", topics=[topic("", 0)])
    assert fetch(node, asked, version=10) == [("g", 0, [("", [(0, -1, ErrorCode.UNKNOWN_TOPIC_ID)])])]


@pytest.mark.parametrize("partitions", [2, ROWS_AT_ONCE + 2])
def test_an_offset_fetch_of_all_topics_includes_negative_offsets(partitions: int) -> None:
    node = make_group_node(FakeTopics(t1=partitions, t2=1))
    offsets = {0: -1, 1: -2, **dict.fromkeys(range(2, partitions), 5)}
    rows = [OffsetCommitRequestPartition(index, offset) for index, offset in offsets.items()]
    committed = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t1", partitions=rows)])
    ask(node, committed, make_context(8, 9)).one()
    found = fetch(node, OffsetFetchRequestGroup("g", topics=None))
    assert found == [("g", 0, [("t1", [(index, offset, 0) for index, offset in offsets.items()])])]
