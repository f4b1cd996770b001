"""DescribeGroups, ListGroups, DeleteGroups, OffsetDelete."""

from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.api.node import Node
from muster.coordinator.log import DamagedLog, LogError, LogOffline
from muster.coordinator.log.errors import Place
from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.delete_groups import DeleteGroupsRequest
from muster.protocol.messages.describe_groups import DescribeGroupsRequest
from muster.protocol.messages.list_groups import ListGroupsRequest
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from muster.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.coordinator.api.harness import FakeTopics, Refusing, ask, make_context, make_group_node

GROUPS = ["a", "b", "c", "d"]


@pytest.fixture
def node() -> Node:
    """Four simple groups over three shards, each with two offsets."""
    node = make_group_node(FakeTopics(t=2))
    for group in GROUPS:
        rows = [OffsetCommitRequestPartition(p, 1) for p in range(2)]
        ask(
            node,
            OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic("t", partitions=rows)]),
            make_context(8, 9),
        )
    return node


class TestDescribe:
    def describe(self, node: Node, *groups: str, **request: Any) -> list[Any]:
        return list(ask(node, DescribeGroupsRequest(list(groups), **request)).one().groups)

    def test_describe_groups_has_a_row_for_each_name_also_for_repeated_ones(self, node: Node) -> None:
        rows = self.describe(node, "d", "nobody", "a", "d")
        assert [(row.group_id, row.group_state, row.error_code) for row in rows] == [
            ("d", "Empty", 0),
            ("nobody", "Dead", ErrorCode.GROUP_ID_NOT_FOUND),
            ("a", "Empty", 0),
            ("d", "Empty", 0),
        ]
        assert self.describe(node) == []

    def test_describe_groups_has_authorized_operations_only_when_asked_for(self, node: Node) -> None:
        untold = -2147483648
        assert self.describe(node, "a")[0].authorized_operations == untold
        known, unknown = self.describe(node, "a", "nobody", include_authorized_operations=True)
        every = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
        assert (known.authorized_operations, unknown.authorized_operations) == (every, untold)
        node.authorizer = Refusing(*((operation, 3, "a") for operation in (3, 6, 10, 11)))
        assert self.describe(node, "a", include_authorized_operations=True)[0].authorized_operations == 1 << 8

    def test_describe_groups_before_version_6_gives_operations_for_unknown_groups(self, node: Node) -> None:
        request = DescribeGroupsRequest(["nobody"], include_authorized_operations=True)
        row = ask(node, request, make_context(15, 5)).one().groups[0]
        assert row.authorized_operations == 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11

    def test_describe_groups_puts_groups_without_permission_first(self, node: Node) -> None:
        node.authorizer = Refusing((Operation.DESCRIBE, ResourceType.GROUP, "b"))
        rows = self.describe(node, "a", "b")
        assert [(row.group_id, row.error_code) for row in rows] == [
            ("b", ErrorCode.GROUP_AUTHORIZATION_FAILED),
            ("a", 0),
        ]


class TestList:
    def list(self, node: Node, **request: Any) -> Any:
        return ask(node, ListGroupsRequest(**request)).one()

    def test_list_groups_lists_the_groups_of_all_shards(self, node: Node) -> None:
        assert sorted(group.group_id for group in self.list(node).groups) == GROUPS
        assert self.list(node, states_filter=["Stable"]).groups == []

    def test_list_groups_is_refused_while_a_shard_loads(self, node: Node) -> None:
        loading = node.routing.shards[1].runtime
        loading.core, loading.state_error = None, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        response = self.list(node)
        assert (response.error_code, response.groups) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ())

    def test_list_groups_skips_a_shard_led_by_another_node(self, node: Node) -> None:
        node.routing.shard("a").runtime.resign()
        response = self.list(node)
        assert response.error_code == 0
        left = [group for group in GROUPS if node.routing.shard(group) is not node.routing.shard("a")]
        assert sorted(group.group_id for group in response.groups) == left

    @pytest.mark.parametrize(
        "trouble",
        [
            DamagedLog(Place("data/__consumer_offsets-0/0.log", 7), "the CRC is wrong"),
            LogOffline("data/__consumer_offsets-0/0.log", "Input/output error"),
        ],
    )
    def test_list_groups_skips_a_shard_with_an_offline_log(self, node: Node, trouble: LogError) -> None:
        shard = node.routing.shard("a")
        shard.runtime.trouble = trouble
        shard.runtime.resign(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        response = self.list(node)
        assert response.error_code == 0
        assert "a" not in [group.group_id for group in response.groups]

    def test_list_groups_without_cluster_permission_lists_the_permitted_groups(self, node: Node) -> None:
        node.authorizer = Refusing(
            (Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME), (Operation.DESCRIBE, ResourceType.GROUP, "b")
        )
        assert sorted(group.group_id for group in self.list(node).groups) == ["a", "c", "d"]


class TestDelete:
    def delete(self, node: Node, *groups: str) -> list[tuple[str, int]]:
        response = ask(node, DeleteGroupsRequest(list(groups))).one()
        return [(row.group_id, row.error_code) for row in response.results]

    def test_delete_groups_has_one_result_for_each_group(self, node: Node) -> None:
        missing = ErrorCode.GROUP_ID_NOT_FOUND
        assert self.delete(node, "b", "nobody", "b", "a") == [("a", 0), ("nobody", missing), ("b", 0)]
        assert self.delete(node, "b") == [("b", missing)]
        assert sorted(group.group_id for group in ask(node, ListGroupsRequest()).one().groups) == ["c", "d"]

    def test_without_permission(self, node: Node) -> None:
        node.authorizer = Refusing((Operation.DELETE, ResourceType.GROUP, "a"))
        assert self.delete(node, "a", "b") == [("b", 0), ("a", ErrorCode.GROUP_AUTHORIZATION_FAILED)]


class TestOffsetDelete:
    def delete(self, node: Node, group: str, **topics: list[int]) -> tuple[int, list[Any]]:
        return self.delete_rows(node, group, *topics.items())

    def delete_rows(self, node: Node, group: str, *topics: tuple[str, list[int]]) -> tuple[int, list[Any]]:
        asked = [
            OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(p) for p in partitions])
            for name, partitions in topics
        ]
        response = ask(node, OffsetDeleteRequest(group, asked)).one()
        rows = [(t.name, [(p.partition_index, p.error_code) for p in t.partitions]) for t in response.topics]
        return response.error_code, rows

    def test_offset_delete_refuses_unknown_partitions_by_row(self, node: Node) -> None:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert self.delete(node, "a", t=[7, 0], no=[1]) == (0, [("t", [(7, unknown), (0, 0)]), ("no", [(1, unknown)])])

    def test_offset_delete_keeps_all_rows_of_a_topic_named_twice(self, node: Node) -> None:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert self.delete_rows(node, "a", ("no", [0]), ("t", [0, 9]), ("no", [1, 1]), ("t", [0, 8])) == (
            0,
            [("no", [(0, unknown), (1, unknown), (1, unknown)]), ("t", [(9, unknown), (8, unknown), (0, 0), (0, 0)])],
        )

    def test_offset_delete_has_two_rows_for_a_topic_named_twice(self, node: Node) -> None:
        asked = ("t", [0, 0]), ("t", [0])
        assert self.delete_rows(node, "a", *asked) == (0, [("t", [(0, 0), (0, 0)]), ("t", [(0, 0)])])

    def test_offset_delete_has_a_row_for_a_topic_without_partitions(self, node: Node) -> None:
        assert self.delete_rows(node, "a", ("", []), ("no", []), ("t", [])) == (0, [("", []), ("no", [])])

    def test_offset_delete_asks_the_group_even_if_all_rows_are_refused(self, node: Node) -> None:
        assert self.delete(node, "nobody", no=[1]) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
        assert self.delete(node, "", t=[0]) == (ErrorCode.INVALID_GROUP_ID, [])

    def test_without_permission(self, node: Node) -> None:
        node.authorizer = Refusing((Operation.READ, ResourceType.TOPIC, "t"))
        failed = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert self.delete(node, "a", t=[0, 1]) == (0, [("t", [(0, failed), (1, failed)])])
        node.authorizer = Refusing((Operation.DELETE, ResourceType.GROUP, "a"))
        assert self.delete(node, "a", t=[0]) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, [])
