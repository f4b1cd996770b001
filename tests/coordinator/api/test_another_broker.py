"""Answers of the first of two brokers in a cluster: all answers follow the node's image."""

from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.api.layers import CloseConnection
from muster.coordinator.api.node import Node
from muster.coordinator.system.jobs import at_once
from muster.coordinator.topics.cluster_image import Broker, ClusterImage, Endpoint, Leader
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages import delete_records, describe_producers, list_offsets, offset_for_leader_epoch, produce
from muster.protocol.messages.describe_cluster import DescribeClusterRequest
from muster.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from muster.protocol.messages.find_coordinator import FindCoordinatorRequest
from muster.protocol.messages.list_config_resources import ListConfigResourcesRequest
from muster.protocol.messages.metadata import MetadataRequest
from tests.coordinator.api.data_plane import ask_one, data_node, fetch_request, send, topic_id
from tests.coordinator.api.harness import FakeTopics, ask, make_context, make_group_node
from tests.coordinator.topics.support import batch

THERE = Endpoint("there.example", 9999)
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def image(**leaders: list[int]) -> ClusterImage:
    brokers = {1: Broker(1, None, {}, 0), 2: Broker(2, "there", {"PLAINTEXT": THERE}, 0)}
    return ClusterImage("id", 2, 1, brokers, {name: [Leader(one, 7) for one in of] for name, of in leaders.items()})


@pytest.fixture
def node() -> Node:
    """This node leads partition 0 of the topic t, the other broker partition 1."""
    node = data_node()
    at_once(node.topics.ensuring("t", 2))
    node.cluster = image(t=[1, 2])
    return node


def test_metadata_names_both_brokers_and_their_leaders(node: Node) -> None:
    answer = ask_one(node, MetadataRequest(topics=None))
    assert [(b.node_id, b.host, b.rack) for b in answer.brokers] == [(1, "127.0.0.1", None), (2, THERE.host, "there")]
    assert answer.controller_id == 2
    assert [(row.leader_id, row.leader_epoch) for row in answer.topics[0].partitions] == [(1, 7), (2, 7)]


def test_describe_cluster_names_both_brokers(node: Node) -> None:
    answer = ask_one(node, DescribeClusterRequest())
    assert [(broker.broker_id, broker.port) for broker in answer.brokers] == [(1, 9092), (2, 9999)]
    assert answer.controller_id == 2


def test_describe_topic_partitions_names_the_leader_on_the_other_broker(node: Node) -> None:
    rows = ask_one(node, DescribeTopicPartitionsRequest(response_partition_limit=9)).topics[0].partitions
    assert [(row.leader_id, row.leader_epoch) for row in rows] == [(1, 7), (2, 7)]


def test_list_config_resources_names_both_brokers(node: Node) -> None:
    found = ask_one(node, ListConfigResourcesRequest([4])).config_resources
    assert [one.resource_name for one in found] == ["1", "2"]


def requests(node: Node) -> list[Message]:
    """Requests that only the leader of a partition answers, for both partitions."""
    t = topic_id(node, "t")
    both = (0, 1)
    return [
        fetch_request(node, ("t", 0, 0), ("t", 1, 0)),
        list_offsets.ListOffsetsRequest(
            topics=[list_offsets.ListOffsetsTopic("t", [list_offsets.ListOffsetsPartition(i, -1, -1) for i in both])]
        ),
        offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            topics=[
                offset_for_leader_epoch.OffsetForLeaderTopic(
                    "t", [offset_for_leader_epoch.OffsetForLeaderPartition(i, -1, 0) for i in both]
                )
            ]
        ),
        describe_producers.DescribeProducersRequest([describe_producers.TopicRequest("t", both)]),
        delete_records.DeleteRecordsRequest(
            [delete_records.DeleteRecordsTopic("t", [delete_records.DeleteRecordsPartition(i, -1) for i in both])]
        ),
        produce.ProduceRequest(
            acks=1,
            topic_data=[
                produce.TopicProduceData(
                    topic_id=t, partition_data=[produce.PartitionProduceData(i, batch(b"x")) for i in both]
                )
            ],
        ),
    ]


@pytest.mark.parametrize(("partition", "errors"), [(0, []), (1, ["NOT_LEADER_OR_FOLLOWER"])], ids=["leader", "other"])
def test_a_produce_without_acks_to_a_node_that_does_not_lead_closes_the_connection(
    node: Node, partition: int, errors: list[str]
) -> None:
    context = make_context(0, 13)
    ended: list[CloseConnection] = []
    context.channel.ended_by(ended.append)
    rows = [produce.PartitionProduceData(partition, batch(b"x"))]
    data = [produce.TopicProduceData(topic_id=topic_id(node, "t"), partition_data=rows)]
    assert send(node, produce.ProduceRequest(acks=0, topic_data=data), context=context).all == [None]
    assert [refused.facts["error"] for refused in ended] == errors


@pytest.mark.parametrize(
    "place", range(6), ids=["fetch", "list offsets", "epochs", "producers", "delete records", "produce"]
)
def test_requests_for_partitions_of_another_leader_are_refused_and_name_it(node: Node, place: int) -> None:
    answer: Any = ask_one(node, requests(node)[place])
    if place == 5:
        rows = answer.responses[0].partition_responses
        assert [row.error_code for row in rows] == [0, NOT_LEADER]
        assert (rows[1].current_leader.leader_id, rows[1].current_leader.leader_epoch) == (2, 7)
        assert [(e.node_id, e.host, e.port) for e in answer.node_endpoints] == [(2, *THERE)]
        return
    rows = (answer.responses if place == 0 else answer.topics)[0].partitions
    assert [row.error_code for row in rows] == [0, NOT_LEADER]
    if place == 0:
        assert (rows[1].current_leader.leader_id, rows[1].current_leader.leader_epoch) == (2, 7)
        assert [(e.node_id, e.host, e.port) for e in answer.node_endpoints] == [(2, *THERE)]


def test_find_coordinator_names_the_leader_of_the_groups_partition() -> None:
    node = make_group_node(FakeTopics())
    node.cluster = image(**{GROUP_OFFSETS_TOPIC: [1, 2, 2]})
    groups = {node.routing.shard(f"g{n}").partition: f"g{n}" for n in range(20)}
    rows = ask(node, FindCoordinatorRequest(coordinator_keys=[groups[0], groups[1]])).one().coordinators
    assert [(row.node_id, row.host, row.port) for row in rows] == [(1, "127.0.0.1", 9092), (2, *THERE)]


def test_find_coordinator_has_no_address_for_a_broker_without_this_listener() -> None:
    node = make_group_node(FakeTopics())
    node.cluster = image(**{GROUP_OFFSETS_TOPIC: [3, 3, 3]})
    (row,) = ask(node, FindCoordinatorRequest(coordinator_keys=["g"])).one().coordinators
    assert (row.node_id, row.host, row.error_code) == (-1, "", ErrorCode.COORDINATOR_NOT_AVAILABLE)
