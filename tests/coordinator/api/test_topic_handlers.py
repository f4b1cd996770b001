"""Handlers that create, change and delete topics."""

from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.api.node import Node
from muster.coordinator.system.jobs import at_once
from muster.protocol.errors import ErrorCode
from muster.protocol.message import ZERO_UUID
from muster.protocol.messages import alter_configs as full
from muster.protocol.messages import incremental_alter_configs as incremental
from muster.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from muster.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from muster.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from muster.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from muster.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.coordinator.api.data_plane import ask_one, data_node, topic_id
from tests.coordinator.topics.support import add_topic, batch, produce

TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


@pytest.fixture
def node() -> Node:
    node = data_node()
    add_topic(node.topics, "t", 2)
    return node


def create(node: Node, *topics: CreatableTopic, validate_only: bool = False) -> dict[str, Any]:
    answer = ask_one(node, CreateTopicsRequest(topics=topics, timeout_ms=1_000, validate_only=validate_only))
    assert len(answer.topics) == len({topic.name for topic in topics})
    return {row.name: row for row in answer.topics}


def test_a_new_topic_is_described(node: Node) -> None:
    wanted = CreatableTopic("new", 3, 1, configs=[CreatableTopicConfig("retention.ms", "5")])
    row = create(node, wanted)["new"]
    assert (row.error_code, row.error_message, row.num_partitions, row.replication_factor) == (0, None, 3, 1)
    assert row.topic_id == topic_id(node, "new")
    assert [(c.value, c.config_source) for c in row.configs if c.name == "retention.ms"] == [("5", 1)]


def test_each_row_is_created_or_refused_on_its_own(node: Node) -> None:
    rows = create(
        node,
        CreatableTopic("t", 1, 1),
        CreatableTopic("good", -1, -1),
        CreatableTopic("a b", 1, 1),
        CreatableTopic("null", 1, 1, configs=[CreatableTopicConfig("retention.ms", None)]),
        CreatableTopic("__cluster_metadata", 1, 1),
        CreatableTopic("twice", 1, 1),
        CreatableTopic("twice", 2, 1),
    )
    assert {name: row.error_code for name, row in rows.items()} == {
        "t": ErrorCode.TOPIC_ALREADY_EXISTS,
        "good": 0,
        "a b": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "null": ErrorCode.INVALID_CONFIG,
        "__cluster_metadata": ErrorCode.INVALID_REQUEST,
        "twice": ErrorCode.INVALID_REQUEST,
    }
    assert sorted(node.topics.by_name) == ["good", "t"]


def test_create_topics_with_too_many_partitions_is_refused(node: Node) -> None:
    rows = create(node, CreatableTopic("a", 9_999, 1), CreatableTopic("b", 2, 1))
    assert [row.error_code for row in rows.values()] == [ErrorCode.POLICY_VIOLATION] * 2
    assert "a" not in node.topics.by_name


def test_validate_only_creates_nothing(node: Node) -> None:
    assert create(node, CreatableTopic("new", 1, 1), validate_only=True)["new"].error_code == 0
    assert "new" not in node.topics.by_name


def delete(node: Node, *topics: DeleteTopicState, names: tuple[str, ...] = ()) -> list[tuple[str | None, int]]:
    answer = ask_one(node, DeleteTopicsRequest(timeout_ms=1_000, topics=topics, topic_names=names), 5 if names else 6)
    return [(row.name, row.error_code) for row in answer.responses]


def test_topics_are_deleted_by_name_or_id(node: Node) -> None:
    add_topic(node.topics, "u")
    add_topic(node.topics, "v")
    by_id = DeleteTopicState(name=None, topic_id=topic_id(node, "u"))
    assert delete(node, DeleteTopicState(name="t"), by_id) == [("t", 0), ("u", 0)]
    assert delete(node, names=("v", "w")) == [("v", 0), ("w", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert not node.topics.by_name


def test_delete_topics_refuses_unknown_and_internal_topics(node: Node) -> None:
    at_once(node.topics.ensuring("__consumer_offsets", 1))
    the_id = topic_id(node, "t")
    assert delete(node, DeleteTopicState(name="t"), DeleteTopicState(name="t")) == [("t", ErrorCode.INVALID_REQUEST)]
    assert delete(node, DeleteTopicState(name="t", topic_id=the_id)) == [("t", ErrorCode.INVALID_REQUEST)]
    assert delete(node, DeleteTopicState(name=None)) == [(None, ErrorCode.INVALID_REQUEST)]
    assert delete(node, DeleteTopicState(name=None, topic_id=b"?" * 16)) == [(None, ErrorCode.UNKNOWN_TOPIC_ID)]
    assert delete(node, DeleteTopicState(name="__consumer_offsets"))[0][1] == ErrorCode.INVALID_REQUEST
    assert delete(data_node(delete_topic_enable=False), DeleteTopicState(name="t"))[0][1] != 0
    assert sorted(node.topics.by_name) == ["__consumer_offsets", "t"]


def delete_rows(node: Node, *topics: DeleteTopicState, timeout_ms: int = 1_000) -> list[tuple[Any, ...]]:
    answer = ask_one(node, DeleteTopicsRequest(timeout_ms=timeout_ms, topics=topics))
    return [(row.name, row.topic_id == ZERO_UUID, row.error_code, row.error_message) for row in answer.responses]


_ID_TOO = "The provided topic name maps to an ID that was already supplied."
_NEITHER = "Neither topic name nor id were specified."
_BOTH = "You may not specify both topic name and topic id."


def test_delete_topics_refuses_a_topic_named_by_name_and_by_id(node: Node) -> None:
    by_id, by_name = DeleteTopicState(name=None, topic_id=topic_id(node, "t")), DeleteTopicState(name="t")
    both = DeleteTopicState(name="t", topic_id=topic_id(node, "t"))
    refused = ("t", False, ErrorCode.INVALID_REQUEST, _ID_TOO)
    assert delete_rows(node, by_name, by_id) == [refused]
    assert delete_rows(node, by_id, both, by_name) == [("t", False, ErrorCode.INVALID_REQUEST, _BOTH), refused]
    twice = (None, False, ErrorCode.INVALID_REQUEST, "Duplicate topic id.")
    assert delete_rows(node, by_id, by_name, by_id) == [refused, twice]
    assert list(node.topics.by_name) == ["t"]
    # a name that occurs twice gets that error and no other
    twice = ("t", True, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    assert delete_rows(node, by_id, by_name, by_name) == [twice, ("t", False, 0, None)]


def test_delete_topics_refuses_rows_with_both_or_neither_of_name_and_id(node: Node) -> None:
    both = DeleteTopicState(name="no", topic_id=topic_id(node, "t"))
    rows = delete_rows(node, both, both, DeleteTopicState(name=None), DeleteTopicState(name=None))
    assert [row[3] for row in rows] == [_BOTH, _BOTH, _NEITHER, _NEITHER]


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_topic_changes_with_no_time_left_change_nothing(node: Node, timeout_ms: int) -> None:
    late = ErrorCode.REQUEST_TIMED_OUT
    new, bad = CreatableTopic("new", 1, 1), CreatableTopic("a b", 1, 1)
    created = ask_one(node, CreateTopicsRequest(topics=[new, bad, new], timeout_ms=timeout_ms))
    assert [(row.name, row.error_code, row.error_message) for row in created.topics] == [
        ("new", late, None),
        ("a b", late, None),
        ("new", late, None),
    ]
    states = (DeleteTopicState(name="t"), DeleteTopicState(name="no"), DeleteTopicState(name=None))
    assert [row[2:] for row in delete_rows(node, *states, timeout_ms=timeout_ms)] == [(late, None)] * 3
    more = [CreatePartitionsTopic("t", 5, None), CreatePartitionsTopic("no", 5, None)]
    grown = ask_one(node, CreatePartitionsRequest(more, timeout_ms))
    assert [(row.error_code, row.error_message) for row in grown.results] == [(late, None)] * 2
    assert {name: len(topic.partitions) for name, topic in node.topics.by_name.items()} == {"t": 2}


def test_a_new_topic_shows_its_configs_as_they_were_given(node: Node) -> None:
    given = {"max.message.bytes": " 600 ", "cleanup.policy": "compact, delete", "preallocate": "TRUE"}
    configs = [CreatableTopicConfig(*config) for config in given.items()]
    row = create(node, CreatableTopic("new", 1, 1, configs=configs))["new"]
    assert {config.name: config.value for config in row.configs if config.name in given} == given
    assert describe(node, TOPIC, "new", "cleanup.policy").configs[0].value == "compact,delete"


def test_create_topics_checks_the_name_before_the_configs(node: Node) -> None:
    null = [CreatableTopicConfig("retention.ms", None)]
    rows = create(node, CreatableTopic("t", 0, 0, configs=null), CreatableTopic("", 0, 0, configs=null))
    codes = [row.error_code for row in rows.values()]
    assert codes == [ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.INVALID_TOPIC_EXCEPTION]


@pytest.mark.parametrize("timeout_ms", [0, 1_000])
@pytest.mark.parametrize(("version", "error_code"), [(1, 42), (2, 42), (3, 73), (5, 73), (6, 73)])
def test_delete_topic_enable_can_forbid_deletion(version: int, error_code: int, timeout_ms: int) -> None:
    node = data_node(delete_topic_enable=False)
    add_topic(node.topics, "t")
    names = ["t", "no", "", "t"]
    topics = [DeleteTopicState(name=name) for name in names] if version == 6 else []
    request = DeleteTopicsRequest(topics, [] if topics else names, timeout_ms)
    answer = ask_one(node, request, version)
    assert [(row.name, row.error_code, row.error_message) for row in answer.responses] == [
        (name, error_code, None) for name in names
    ]
    assert list(node.topics.by_name) == ["t"]


def test_create_partitions_adds_partitions(node: Node) -> None:
    topics = [
        CreatePartitionsTopic("t", 5, None),
        CreatePartitionsTopic("no", 5, None),
        CreatePartitionsTopic("twice", 5, None),
        CreatePartitionsTopic("twice", 6, None),
    ]
    answer = ask_one(node, CreatePartitionsRequest(timeout_ms=1_000, topics=topics))
    assert [(row.name, row.error_code) for row in answer.results] == [
        ("twice", ErrorCode.INVALID_REQUEST),
        ("no", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 0),
    ]
    assert len(node.topics.by_name["t"].partitions) == 5


def test_create_partitions_refuses_the_offsets_topic(node: Node) -> None:
    at_once(node.topics.ensuring("__consumer_offsets", 1))
    answer = ask_one(
        node, CreatePartitionsRequest(timeout_ms=1_000, topics=[CreatePartitionsTopic("__consumer_offsets", 5, None)])
    )
    assert answer.results[0].error_code == ErrorCode.INVALID_PARTITIONS


def describe(node: Node, kind: int, name: str, *keys: str) -> Any:
    wanted = DescribeConfigsResource(kind, name, list(keys) or None)
    return ask_one(node, DescribeConfigsRequest(resources=[wanted], include_synonyms=True)).results[0]


def alter(
    node: Node, *changes: tuple[str, int, str | None], name: str = "t", kind: int = TOPIC, dry: bool = False
) -> int:
    configs = [incremental.AlterableConfig(*change) for change in changes]
    resource = incremental.AlterConfigsResource(kind, name, configs)
    answer = ask_one(node, incremental.IncrementalAlterConfigsRequest(resources=[resource], validate_only=dry))
    code: int = answer.responses[0].error_code
    return code


def test_configs_are_set_unset_and_described(node: Node) -> None:
    assert alter(node, ("retention.ms", SET, "7"), ("cleanup.policy", APPEND, "compact")) == 0
    found = {c.name: (c.value, c.config_source) for c in describe(node, TOPIC, "t").configs}
    assert found["retention.ms"] == ("7", 1)
    assert found["cleanup.policy"] == ("delete,compact", 1)
    assert found["segment.bytes"] == ("1073741824", 5)
    assert alter(node, ("retention.ms", DELETE, None), ("cleanup.policy", SUBTRACT, "delete")) == 0
    assert node.topics.state.topic_configs("t") == {"cleanup.policy": "compact"}


def test_the_group_events_topic_cannot_be_compacted(node: Node) -> None:
    at_once(node.topics.ensuring("__group_events"))
    for operation, text in ((SET, "compact"), (SET, "compact,delete"), (APPEND, "compact")):
        assert alter(node, ("cleanup.policy", operation, text), name="__group_events") == ErrorCode.INVALID_CONFIG
    assert alter(node, ("retention.ms", SET, "7"), ("cleanup.policy", SET, "delete"), name="__group_events") == 0


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("nosuch", SET, "1"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", SET, "x"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
        (("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_wrong_topic_configs_are_refused(node: Node, change: tuple[str, int, str | None], code: int) -> None:
    assert alter(node, change) == code
    assert alter(node, ("retention.ms", SET, "5"), ("retention.ms", SET, "6")) == ErrorCode.INVALID_REQUEST
    assert node.topics.state.topic_configs("t") == {}


def test_only_existing_topics_can_be_configured(node: Node) -> None:
    change = ("retention.ms", SET, "5")
    assert alter(node, change, name="no") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert alter(node, change, name="a b") == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert alter(node, change, name="") == ErrorCode.INVALID_REQUEST
    assert alter(node, change, name="2", kind=BROKER) == ErrorCode.INVALID_REQUEST
    assert alter(node, change, kind=3) == ErrorCode.INVALID_REQUEST
    assert alter(node, change, dry=True) == 0
    assert node.topics.state.topic_configs("t") == {}


def test_alter_configs_replaces_all_configs(node: Node) -> None:
    alter(node, ("retention.ms", SET, "7"))
    resource = full.AlterConfigsResource(TOPIC, "t", [full.AlterableConfig("retention.bytes", "9")])
    assert ask_one(node, full.AlterConfigsRequest(resources=[resource])).responses[0].error_code == 0
    assert node.topics.state.topic_configs("t") == {"retention.bytes": "9"}


def test_the_brokers_configs_are_described(node: Node) -> None:
    given = data_node({"num.partitions": "4"})
    row = describe(given, BROKER, "1", "num.partitions", "nosuch")
    assert [(c.name, c.value, c.config_source, c.read_only) for c in row.configs] == [("num.partitions", "4", 4, True)]
    assert describe(node, BROKER, "").error_code == 0
    assert describe(node, BROKER, "2").error_code == ErrorCode.INVALID_REQUEST
    assert describe(node, BROKER, "x").error_code == ErrorCode.INVALID_REQUEST
    assert describe(node, TOPIC, "no").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert describe(node, TOPIC, "a b").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert describe(node, GROUP, "").error_code == ErrorCode.INVALID_REQUEST
    assert describe(node, 3, "x").error_code == ErrorCode.INVALID_REQUEST


def test_describe_configs_has_documentation_only_when_asked_for(node: Node) -> None:
    def documentation(kind: int, name: str, key: str, include: bool) -> Any:
        wanted = DescribeConfigsResource(kind, name, [key])
        request = DescribeConfigsRequest(resources=[wanted], include_documentation=include)
        return ask_one(node, request).results[0].configs[0].documentation

    assert documentation(TOPIC, "t", "preallocate", False) is None
    assert documentation(TOPIC, "t", "preallocate", True).startswith("True if we should preallocate the file on disk")
    assert documentation(BROKER, "1", "log.cleaner.backoff.ms", True) == (
        "The amount of time to sleep when there are no logs to clean"
    )
    assert documentation(GROUP, "g", "consumer.heartbeat.interval.ms", True).startswith("The heartbeat interval")
    assert documentation(16, "m", "match", True) == "Client match criteria"
    assert documentation(8, "1", "root", True) == ""


@pytest.mark.parametrize("name", ["--1", "-", "+", "1" * 5_000, "٣", " 1", "1 ", "0x1", "2147483648", "a\0b"])
def test_describe_configs_refuses_names_that_are_no_broker_id(node: Node, name: str) -> None:
    for kind in (BROKER, 8):
        row = describe(node, kind, name)
        assert row.error_code == ErrorCode.INVALID_REQUEST
        assert row.error_message == f"Broker id must be an integer, but it is: {name}"
        resource = incremental.AlterConfigsResource(kind, name, [])
        answer = ask_one(node, incremental.IncrementalAlterConfigsRequest([resource])).responses[0]
        assert answer.error_message == f"Node id must be an integer, but it is: {name}"


def test_delete_records_moves_the_log_start(node: Node) -> None:
    partition = node.topics.open.partition("t", 0)
    assert partition is not None
    produce(partition, batch(b"a", b"b"), node.clock.now())

    def delete(*asked: tuple[str, int, int]) -> list[tuple[str, list[tuple[int, int, int]]]]:
        topics = [DeleteRecordsTopic(name, [DeleteRecordsPartition(index, offset)]) for name, index, offset in asked]
        answer = ask_one(
            node, DeleteRecordsRequest(topics=[*topics, DeleteRecordsTopic("t", []), DeleteRecordsTopic("u")])
        )
        return [
            (t.name, [(r.partition_index, r.low_watermark, r.error_code) for r in t.partitions]) for t in answer.topics
        ]

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert delete(("t", 0, 2), ("t", 7, 0), ("no", 0, 2)) == [
        ("t", [(0, 2, 0), (7, -1, unknown)]),
        ("no", [(0, -1, unknown)]),
    ]
    at_once(node.topics.ensuring("__consumer_offsets", 1))
    internal = ErrorCode.INVALID_TOPIC_EXCEPTION
    assert delete(("__consumer_offsets", 0, 0), ("__consumer_offsets", 1, 0)) == [
        ("__consumer_offsets", [(0, -1, internal), (1, -1, unknown)])
    ]
    # of a partition that is named twice, the last offset counts
    assert delete(("t", 0, 2), ("t", 0, 9)) == [("t", [(0, -1, ErrorCode.OFFSET_OUT_OF_RANGE)])]
    assert delete(("t", 0, 9), ("t", 0, 2)) == [("t", [(0, 2, 0)])]
    assert delete() == []
