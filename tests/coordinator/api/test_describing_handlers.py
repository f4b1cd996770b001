"""Handlers that describe the cluster, its topics and its logs."""

from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.api.node import Node
from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from muster.protocol.errors import ErrorCode
from muster.protocol.message import ZERO_UUID
from muster.protocol.messages.describe_cluster import DescribeClusterRequest
from muster.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from muster.protocol.messages.describe_producers import DescribeProducersRequest
from muster.protocol.messages.describe_producers import TopicRequest as ProducersOf
from muster.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    TopicRequest,
)
from muster.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from muster.protocol.messages.list_config_resources import ListConfigResourcesRequest
from muster.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from muster.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from muster.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from muster.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.coordinator.api.data_plane import ask_one, data_node, topic_id
from tests.coordinator.api.harness import Refusing
from tests.coordinator.topics.support import add_topic, batch, produce

TOPIC_OPERATIONS, CLUSTER_OPERATIONS, NOT_ASKED = 3576, 8096, -(2**31)


@pytest.fixture
def node() -> Node:
    node = data_node()
    add_topic(node.topics, "t", 3)
    add_topic(node.topics, "u", 2)
    return node


def metadata(node: Node, *names: str, version: int = 13, create: bool = False, **more: Any) -> Any:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return ask_one(node, MetadataRequest(topics, create, **more), version)


def test_metadata_of_a_single_node_names_this_node(node: Node) -> None:
    answer = metadata(node)
    assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [(1, "127.0.0.1", 9092)]
    assert (answer.cluster_id, answer.controller_id, answer.topics) == (node.cluster.cluster_id, 1, [])


def test_metadata_lists_all_topics_or_the_named_ones(node: Node) -> None:
    everything = ask_one(node, MetadataRequest(topics=None))
    assert [topic.name for topic in everything.topics] == ["t", "u"]
    found = metadata(node, "u", "u", "no").topics
    assert [(t.name, t.error_code) for t in found] == [("u", 0), ("no", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert [
        (p.partition_index, p.leader_id, p.leader_epoch, [*p.replica_nodes], [*p.isr_nodes])
        for p in found[0].partitions
    ] == [
        (0, 1, 0, [1], [1]),
        (1, 1, 0, [1], [1]),
    ]


def test_metadata_finds_topics_by_id(node: Node) -> None:
    topics = [MetadataRequestTopic(topic_id(node, "t"), None), MetadataRequestTopic(b"?" * 16, None)]
    found = ask_one(node, MetadataRequest(topics)).topics
    assert [(t.name, t.error_code) for t in found] == [("t", 0), (None, ErrorCode.UNKNOWN_TOPIC_ID)]
    # a request with an id ignores names, and each topic has one row
    topics += [MetadataRequestTopic(topic_id(node, "t"), "u"), MetadataRequestTopic(name="t")]
    found = ask_one(node, MetadataRequest(topics)).topics
    assert [(t.name, t.error_code) for t in found] == [("t", 0), (None, ErrorCode.UNKNOWN_TOPIC_ID)]


@pytest.mark.parametrize("version", [10, 11])
def test_metadata_refuses_topic_ids_before_version_12(node: Node, version: int) -> None:
    topics = [MetadataRequestTopic(topic_id(node, "t"), None), MetadataRequestTopic(name="t")]
    answer = ask_one(node, MetadataRequest(topics), version)
    assert (answer.brokers, answer.cluster_id, answer.controller_id) == ((), None, -1)
    invalid = ErrorCode.INVALID_REQUEST
    assert [(t.name, t.topic_id, t.error_code) for t in answer.topics] == [
        ("", topic_id(node, "t"), invalid),
        ("t", ZERO_UUID, invalid),
    ]


def test_metadata_reports_a_topic_that_cannot_be_created_as_unknown(node: Node) -> None:
    metadata(node, "a.x", create=True)
    assert metadata(node, "a_x", create=True).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_metadata_creates_topics_when_asked_to(node: Node) -> None:
    row = metadata(node, "new", create=True).topics[0]
    assert (row.error_code, row.topic_id, len(row.partitions)) == (0, topic_id(node, "new"), 1)
    assert metadata(node, "a b", create=True).topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert metadata(node, "newer").topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    offsets = metadata(node, "__consumer_offsets", create=True).topics[0]
    assert (offsets.is_internal, len(offsets.partitions)) == (True, 50)
    assert "newer" not in node.topics.by_name


def test_metadata_creates_no_topics_when_auto_creation_is_off() -> None:
    node = data_node(auto_create_topics_enable=False)
    assert metadata(node, "new", create=True).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not node.topics.by_name


def test_metadata_has_authorized_operations_only_when_asked_for(node: Node) -> None:
    more = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    answer = metadata(node, "t", version=10, **more)
    assert (answer.cluster_authorized_operations, answer.topics[0].topic_authorized_operations) == (
        CLUSTER_OPERATIONS,
        TOPIC_OPERATIONS,
    )
    answer = metadata(node, "t")
    assert (answer.cluster_authorized_operations, answer.topics[0].topic_authorized_operations) == (
        NOT_ASKED,
        NOT_ASKED,
    )


def test_a_partition_without_a_log_has_no_leader(node: Node) -> None:
    node.topics.by_name["u"].partitions[1] = None
    row = metadata(node, "u").topics[0].partitions[1]
    assert (row.error_code, row.leader_id, [*row.isr_nodes], [*row.offline_replicas]) == (
        ErrorCode.LEADER_NOT_AVAILABLE,
        -1,
        [],
        [1],
    )


def test_a_partition_whose_log_failed_has_no_leader(node: Node) -> None:
    partition = node.topics.by_name["u"].partitions[1]
    assert partition is not None
    partition.log.go_offline("u-1", OSError("no space left"))
    rows = metadata(node, "u").topics[0].partitions
    assert [row.leader_id for row in rows] == [1, -1]
    described = ask_one(node, DescribeTopicPartitionsRequest([TopicRequest("u")])).topics[0].partitions
    assert [(row.error_code, row.leader_id, [*row.offline_replicas]) for row in described] == [
        (0, 1, []),
        (ErrorCode.LEADER_NOT_AVAILABLE, -1, [1]),
    ]


def test_describe_cluster_names_this_node_and_refuses_other_endpoint_types(node: Node) -> None:
    answer = ask_one(node, DescribeClusterRequest(include_cluster_authorized_operations=True))
    assert [b.broker_id for b in answer.brokers] == [1]
    assert (answer.cluster_id, answer.cluster_authorized_operations) == (node.cluster.cluster_id, CLUSTER_OPERATIONS)
    codes = [ask_one(node, DescribeClusterRequest(endpoint_type=kind)).error_code for kind in (2, 3)]
    assert codes == [ErrorCode.MISMATCHED_ENDPOINT_TYPE, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE]


def page(node: Node, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> tuple[list[Any], Any]:
    at = cursor and DescribeTopicPartitionsRequestCursor(*cursor)
    answer = ask_one(node, DescribeTopicPartitionsRequest([TopicRequest(name) for name in names], limit, at or None))
    rows = [(t.name, t.error_code, [p.partition_index for p in t.partitions]) for t in answer.topics]
    following = answer.next_cursor
    return rows, following and (following.topic_name, following.partition_index)


def test_describe_topic_partitions_answers_in_pages(node: Node) -> None:
    whole = [("t", 0, [0, 1, 2]), ("u", 0, [0, 1])]
    assert page(node) == (whole, None)
    assert page(node, "u", "t", "t") == (whole, None)
    assert page(node, "t", "u", limit=2) == ([("t", 0, [0, 1])], ("t", 2))
    assert page(node, "t", "u", limit=3) == ([("t", 0, [0, 1, 2])], ("u", 0))
    assert page(node, "t", "u", limit=4) == ([*whole[:1], ("u", 0, [0])], ("u", 1))
    assert page(node, "t", "u", cursor=("t", 1)) == ([("t", 0, [1, 2]), ("u", 0, [0, 1])], None)
    assert page(node, "t", "u", cursor=("u", 1)) == ([("u", 0, [1])], None)
    assert page(node, "t", limit=0) == ([("t", 0, [0])], ("t", 1))


def test_describe_topic_partitions_refuses_unknown_topics_and_wrong_cursors(node: Node) -> None:
    unknown, illegal, wrong = (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_REQUEST,
    )
    assert page(node, "no", "a b") == ([("a b", illegal, []), ("no", unknown, [])], None)
    assert page(node, "t", cursor=("t", -1)) == ([("t", wrong, [])], None)
    assert page(node, "t", cursor=("zz", 0)) == ([("t", wrong, [])], None)
    # a request that is refused as a whole names its topics in the form of the request
    assert page(node, "u", "t", "u", cursor=("", 0)) == ([(name, wrong, []) for name in ("u", "t", "u")], None)


def offsets(node: Node, *asked: tuple[int, int], version: int = 11, epoch: int = -1) -> list[tuple[int, int, int, int]]:
    rows = [ListOffsetsPartition(index, epoch, timestamp) for index, timestamp in asked]
    answer = ask_one(node, ListOffsetsRequest(topics=[ListOffsetsTopic("t", rows)]), version)
    return [(r.error_code, r.timestamp, r.offset, r.leader_epoch) for r in answer.topics[0].partitions]


def test_list_offsets_finds_offsets_by_timestamp(node: Node) -> None:
    partition = node.topics.open.partition("t", 0)
    assert partition is not None
    for at_ms in (100, 300, 200):
        produce(partition, batch(at_ms=at_ms), node.clock.now())
    none = (0, -1, -1, -1)
    for timestamp, expected in {
        -1: (0, -1, 3, 0),
        -2: (0, -1, 0, 0),
        -3: (0, 300, 1, 0),
        -4: (0, -1, 0, 0),
        -5: none,
        -6: none,
        0: (0, 100, 0, 0),
        101: (0, 300, 1, 0),
        301: none,
        -7: (ErrorCode.UNSUPPORTED_VERSION, -1, -1, -1),
    }.items():
        assert offsets(node, (0, timestamp)) == [expected]


def test_list_offsets_refuses_wrong_rows(node: Node) -> None:
    assert offsets(node, (9, -1))[0][0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert offsets(node, (0, -1), epoch=1)[0][0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert offsets(node, (0, -3), version=6)[0][0] == ErrorCode.UNSUPPORTED_VERSION
    assert [row[0] for row in offsets(node, (0, -1), (0, -2))] == [ErrorCode.INVALID_REQUEST]


def test_list_offsets_answers_a_topic_that_is_named_twice_once(node: Node) -> None:
    def topic(name: str, *asked: tuple[int, int]) -> ListOffsetsTopic:
        return ListOffsetsTopic(name, [ListOffsetsPartition(index, -1, timestamp) for index, timestamp in asked])

    request = ListOffsetsRequest(
        topics=[
            topic("t", (0, -1), (1, -100)),
            topic("u"),
            topic("no", (0, -1), (1, -100)),
            topic("t", (0, -2), (2, -2)),
        ]
    )
    wrong, unsupported = ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION
    assert [
        (t.name, [(r.partition_index, r.error_code) for r in t.partitions]) for t in ask_one(node, request).topics
    ] == [
        ("t", [(0, wrong), (1, unsupported), (2, 0)]),
        ("no", [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (1, unsupported)]),
    ]


def test_offset_for_leader_epoch_finds_the_end_offsets(node: Node) -> None:
    partition = node.topics.open.partition("t", 0)
    assert partition is not None
    produce(partition, batch(b"a", b"b"), node.clock.now())
    asked = [OffsetForLeaderPartition(0, current, epoch) for current, epoch in ((-1, 0), (-1, 3), (5, 0))]
    request = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic("t", asked), OffsetForLeaderTopic("no", asked[:1])]
    )
    answer = ask_one(node, request)
    assert [(r.error_code, r.leader_epoch, r.end_offset) for topic in answer.topics for r in topic.partitions] == [
        (0, 0, 2),
        (0, -1, -1),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1),
    ]


def test_describe_producers_lists_active_producers(node: Node) -> None:
    partition = node.topics.open.partition("t", 0)
    assert partition is not None
    produce(partition, batch(b"a", b"b", producer_id=5, producer_epoch=2, base_sequence=0), node.clock.now())
    answer = ask_one(node, DescribeProducersRequest([ProducersOf("t", [0, 9]), ProducersOf("no", [0])]))
    rows = [row for topic in answer.topics for row in topic.partitions]
    assert [row.error_code for row in rows] == [0, *[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2]
    found = [
        (p.producer_id, p.producer_epoch, p.last_sequence, p.current_txn_start_offset) for p in rows[0].active_producers
    ]
    assert found == [(5, 2, 1, -1)]
    row = ask_one(node, DescribeProducersRequest([ProducersOf("a b", [0])])).topics[0].partitions[0]
    assert row.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert row.error_message.startswith("Topic name is invalid: 'a b' contains")


def test_describe_log_dirs_lists_the_logs_and_their_sizes(node: Node) -> None:
    partition = node.topics.open.partition("t", 0)
    assert partition is not None
    produce(partition, batch(), node.clock.now())
    everything = ask_one(node, DescribeLogDirsRequest(topics=None)).results[0]
    assert [(t.name, len(t.partitions)) for t in everything.topics] == [("t", 3), ("u", 2)]
    some = ask_one(node, DescribeLogDirsRequest([DescribableLogDirTopic("t", [0, 9])])).results[0]
    assert [(p.partition_index, p.partition_size) for p in some.topics[0].partitions] == [(0, len(batch()))]
    asked = [DescribableLogDirTopic("t", [2, 2]), DescribableLogDirTopic("no", [0]), DescribableLogDirTopic("t", [1])]
    twice = ask_one(node, DescribeLogDirsRequest(asked)).results[0]
    assert [(t.name, [p.partition_index for p in t.partitions]) for t in twice.topics] == [("t", [2, 1])]


def test_list_partition_reassignments_is_empty(node: Node) -> None:
    answer = ask_one(node, ListPartitionReassignmentsRequest(topics=None))
    assert (answer.error_code, answer.topics) == (0, ())


def test_elect_leaders_names_its_refusals_in_each_version(node: Node) -> None:
    node.authorizer = Refusing((Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME))
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    for version, whole in ((0, 0), (1, refused), (2, refused)):
        answer = ask_one(node, ElectLeadersRequest(0, [TopicPartitions("t", [0])], 5_000), version)
        assert answer.error_code == whole
        assert answer.replica_election_results[0].partition_result[0].error_code == refused


def resources(node: Node, *kinds: int, version: int = 1) -> tuple[int, list[tuple[int, str]]]:
    answer = ask_one(node, ListConfigResourcesRequest(kinds), version)
    return answer.error_code, [(row.resource_type, row.resource_name) for row in answer.config_resources]


def test_list_config_resources_lists_topics_and_brokers(node: Node) -> None:
    topics, brokers = [(2, "t"), (2, "u")], [(4, "1"), (8, "1")]
    assert resources(node) == (0, [*topics, *brokers])
    assert resources(node, 2) == (0, topics)
    assert resources(node, 8, 4) == (0, brokers)
    assert resources(node, 16, 32) == (0, [])
    assert resources(node, 3) == (ErrorCode.UNSUPPORTED_VERSION, [])
    assert resources(node, version=0) == (0, [])
