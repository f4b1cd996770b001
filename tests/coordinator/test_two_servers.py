"""Two nodes in one process and one event loop share only the process's files and the levels of the log."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from muster.coordinator.server import Server
from muster.coordinator.system.file_limits import FileShares, ProcessFiles
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.describe_cluster import DescribeClusterRequest
from muster.protocol.messages.describe_groups import DescribeGroupsRequest
from muster.protocol.messages.find_coordinator import FindCoordinatorRequest
from muster.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from muster.protocol.messages.init_producer_id import InitProducerIdRequest
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from muster.protocol.messages.list_groups import ListGroupsRequest
from muster.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.coordinator.api.harness import Refusing
from tests.support.muster import connected, running

ONE = {"node.id": "1", "num.partitions": "2", "group.max.size": "1", "muster.cluster.id": "one-cluster-id-00000001"}
TWO = {
    "node.id": "2",
    "auto.create.topics.enable": "false",
    "muster.cluster.id": "two-cluster-id-00000002",
    "offsets.topic.num.partitions": "3",
}


@pytest.fixture
async def both() -> AsyncIterator[tuple[Server, Server]]:
    async with running(ONE, topics=["t:1"]) as one, running(TWO, topics=["u:3"]) as two:
        yield one, two


async def test_two_servers_have_their_own_identity_settings_and_topics(both: tuple[Server, Server]) -> None:
    found = []
    for server in both:
        async with connected(server) as client:
            cluster = await client.ask(DescribeClusterRequest())
            wanted = [MetadataRequestTopic(name=name) for name in ("t", "u", "new")]
            topics = (await client.ask(MetadataRequest(wanted))).topics
            (coordinator,) = (await client.ask(FindCoordinatorRequest(coordinator_keys=["g"]))).coordinators
            port = server.bound[0].port
            assert (coordinator.node_id, coordinator.port) == (server.config.node_id, port)
            assert [(broker.broker_id, broker.port) for broker in cluster.brokers] == [(server.config.node_id, port)]
            found.append((cluster.cluster_id, [(topic.name, len(topic.partitions)) for topic in topics]))
    assert found == [
        ("one-cluster-id-00000001", [("t", 1), ("u", 2), ("new", 2)]),
        ("two-cluster-id-00000002", [("t", 0), ("u", 3), ("new", 0)]),
    ]
    assert [len(server.routing.shards) for server in both] == [5, 3]


async def test_two_servers_have_their_own_groups_and_offsets(both: tuple[Server, Server]) -> None:
    one, two = both
    row = [OffsetCommitRequestPartition(0, 7)]
    async with connected(one) as first, connected(two) as second:
        commit = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", partitions=row)])
        assert (await first.ask(commit, 9)).topics[0].partitions[0].error_code == 0
        refused = await second.ask(commit, 9)
        assert refused.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [group.group_id for group in (await first.ask(ListGroupsRequest())).groups] == ["g"]
        assert (await second.ask(ListGroupsRequest())).groups == []
        # group.max.size is 1 on the first node only
        join = JoinGroupRequest("h", 60_000, 60_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")])
        for client in (first, second):
            assert (await client.ask(join, 3)).error_code == 0
        async with connected(one) as other:
            assert (await other.ask(join, 3)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        async with connected(two) as other:
            other.send(join, 3)
            joined = 1
            while joined < 2:
                (group,) = (await second.ask(DescribeGroupsRequest(["h"]))).groups
                joined = len(group.members)


async def test_two_servers_have_their_own_configs_producer_ids_and_permissions(both: tuple[Server, Server]) -> None:
    one, two = both
    async with connected(one) as first, connected(two) as second:
        changed = [AlterableConfig("log.retention.ms", 0, "5000")]
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(4, "", changed)])
        assert (await first.ask(request)).responses[0].error_code == 0
        assert [server.live.value("log.retention.ms") for server in both] == [5000, None]
        assert [(await client.ask(InitProducerIdRequest(None), 5)).producer_id for client in (first, second)] == [0, 0]
        one.node.authorizer = Refusing((8, 3, "g"))
        find = FindCoordinatorRequest(coordinator_keys=["g"])
        rows = [(await client.ask(find)).coordinators[0].error_code for client in (first, second)]
        assert rows == [ErrorCode.GROUP_AUTHORIZATION_FAILED, 0]


async def test_one_of_two_servers_continues_when_the_other_stops() -> None:
    async with running(TWO) as two:
        async with running(ONE) as one, connected(one) as client:
            assert (await client.ask(ListGroupsRequest())).error_code == 0
        async with connected(two) as client:
            assert (await client.ask(ListGroupsRequest())).error_code == 0


class Node:
    def __init__(self, connections: int) -> None:
        self.connections = connections

    def connection_count(self) -> int:
        return self.connections


def test_two_servers_share_the_file_limit_of_the_process() -> None:
    files, one, two = ProcessFiles(), Node(100), Node(200)
    if not files.ask():
        pytest.skip("this system has no bound")
    files.join(one)
    files.join(two)
    shares = FileShares(1_000)
    files._shares = shares
    assert files.max_logs() == shares.logs(300)
    assert files.max_connections(one, 50) == shares.connections(50) - 200
    files.leave(two)
    assert files.max_logs() == shares.logs(100)
    assert files.max_connections(one, 50) == shares.connections(50)
