"""The APIs 83 to 87: what a broker asks the share coordinator. (`test_core` has the rules of the coordinator.)"""

from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.api.node import Node
from muster.coordinator.system.jobs import at_once
from muster.coordinator.topics.names import SHARE_STATE_TOPIC
from muster.protocol.errors import ErrorCode
from muster.protocol.messages import delete_share_group_state as delete
from muster.protocol.messages import initialize_share_group_state as initialize
from muster.protocol.messages import read_share_group_state as read
from muster.protocol.messages import read_share_group_state_summary as summary
from muster.protocol.messages import write_share_group_state as write
from muster.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.coordinator.api.data_plane import data_node, send, topic_id


@pytest.fixture
def node() -> Node:
    """A node with a topic `t` of two partitions, and without states."""
    node = data_node(share_coordinator_state_topic_num_partitions=2)
    at_once(node.topics.ensuring("t", 2))
    at_once(node.topics.ensuring(SHARE_STATE_TOPIC))
    return node


def rows(node: Node, request: Any) -> list[Any]:
    """The rows of the answer, which has one topic."""
    answers = send(node, request)
    node.clock.advance(0)
    (topic,) = answers.one().results
    assert topic.topic_id == topic_id(node, "t")
    return list(topic.partitions)


def test_a_state_is_created_written_read_and_deleted(node: Node) -> None:
    t = topic_id(node, "t")
    parts = [initialize.PartitionData(0, 1, 5), initialize.PartitionData(7, 1, 5)]
    made = rows(node, initialize.InitializeShareGroupStateRequest("g", [initialize.InitializeStateData(t, parts)]))
    assert [(row.partition, row.error_code, row.error_message) for row in made] == [
        (0, 0, None),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."),
    ]
    batches = [write.StateBatch(5, 6, 2, 1), write.StateBatch(7, 7, 0, 1)]
    part = write.PartitionData(0, 1, 0, 5, 2, batches)
    (written,) = rows(node, write.WriteShareGroupStateRequest("g", [write.WriteStateData(t, [part])]))
    assert written == write.PartitionResult(0)
    twice = [read.ReadStateData(t, [read.PartitionData(0, 1)]), read.ReadStateData(t, [read.PartitionData(0, 0)])]
    (got,) = rows(node, read.ReadShareGroupStateRequest("g", twice))
    assert got.error_code == ErrorCode.FENCED_LEADER_EPOCH  # the last answer of a partition counts
    (got,) = rows(node, read.ReadShareGroupStateRequest("g", twice[:1]))
    assert (got.state_epoch, got.start_offset) == (1, 5)
    assert got.state_batches == [read.StateBatch(5, 6, 2, 1), read.StateBatch(7, 7, 0, 1)]
    asked = summary.ReadStateSummaryData(t, [summary.PartitionData(0, 0), summary.PartitionData(-1, 0)])
    found = rows(node, summary.ReadShareGroupStateSummaryRequest("g", [asked]))
    assert found[0] == summary.PartitionResult(0, 0, None, 1, 1, 5, 2)
    assert found[1].error_code == ErrorCode.INVALID_REQUEST
    gone = delete.DeleteStateData(t, [delete.PartitionData(0)])
    assert rows(node, delete.DeleteShareGroupStateRequest("g", [gone])) == [delete.PartitionResult(0)]
    found = rows(node, summary.ReadShareGroupStateSummaryRequest("g", [asked]))
    assert found[0] == summary.PartitionResult(0, 0, None, 0, 0, -1, -1)


@pytest.mark.parametrize(
    "request_",
    [
        read.ReadShareGroupStateRequest("g"),
        read.ReadShareGroupStateRequest("g", [read.ReadStateData()]),
        read.ReadShareGroupStateRequest("", [read.ReadStateData(partitions=[read.PartitionData()])]),
    ],
)
def test_a_request_without_group_or_partitions_has_an_empty_answer(node: Node, request_: Any) -> None:
    assert send(node, request_).one() == read.ReadShareGroupStateResponse()


def test_a_topic_without_partitions_has_no_new_states(node: Node) -> None:
    data = initialize.InitializeStateData(topic_id(node, "t"))
    assert rows(node, initialize.InitializeShareGroupStateRequest("g", [data])) == []


def test_the_first_search_for_a_coordinator_creates_the_topic() -> None:
    node = data_node()
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=["x", "g:AAAAAAAAAAAAAAAAAAAAAg:0"])
    found = send(node, request).one().coordinators
    assert SHARE_STATE_TOPIC in node.topics.by_name
    assert found[0].error_code == ErrorCode.INVALID_REQUEST
