"""Three brokers in one process: what clients see of them, also when a broker stops, dies and returns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from muster.coordinator.server import Server
from muster.coordinator.server.nodes.common import WrongNode
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages import produce
from muster.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from muster.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from muster.protocol.messages.describe_cluster import DescribeClusterRequest
from muster.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from muster.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from muster.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from muster.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from muster.protocol.messages.find_coordinator import FindCoordinatorRequest
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from muster.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from muster.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from muster.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from muster.protocol.messages.unregister_broker import UnregisterBrokerRequest
from muster.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.coordinator.topics.support import batch
from tests.support.muster import Client, running, until

OFFSETS = 6


class Cluster:
    """A running server of three nodes, and a connection to each."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.clients: dict[int, Client] = {}

    async def ask(self, node_id: int, request: Message, version: int | None = None) -> Any:
        """Ask a node; a closed connection to it is opened again."""
        client = self.clients.get(node_id)
        if client is None or client.reader.at_eof():
            client = await self.connect(node_id)
        return await client.ask(request, version)

    async def connect(self, node_id: int) -> Client:
        before = self.clients.get(node_id)
        if before is not None:
            before.writer.close()
        bound = self.server.cluster.nodes[node_id].bound[0]
        reader, writer = await asyncio.open_connection("127.0.0.1", bound.port)
        self.clients[node_id] = Client(reader, writer, "test")
        return self.clients[node_id]

    async def leaders(self, topic: str = "t", node_id: int = 1) -> dict[int, tuple[int, int]]:
        """Leader and leader epoch of each partition, as a node reports them."""
        answer = await self.ask(node_id, MetadataRequest([MetadataRequestTopic(name=topic)]))
        return {row.partition_index: (row.leader_id, row.leader_epoch) for row in answer.topics[0].partitions}

    async def coordinator(self, group: str, node_id: int = 1) -> int:
        answer = await self.ask(node_id, FindCoordinatorRequest(coordinator_keys=[group]))
        found: int = answer.coordinators[0].node_id
        return found

    def group_of(self, node_id: int) -> str:
        """The id of a group that a node coordinates."""
        leaders = self.server.topics.open.leaders[GROUP_OFFSETS_TOPIC]
        partition = self.server.routing.partition
        return next(name for n in range(200) if leaders[partition(name := f"g{n}")].broker_id == node_id)

    async def produce(self, node_id: int, partition: int, value: bytes, version: int = 12) -> Any:
        rows = [produce.PartitionProduceData(partition, batch(value))]
        data = [produce.TopicProduceData("t", partition_data=rows)]
        answer = await self.ask(node_id, produce.ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=data), version)
        return answer.responses[0].partition_responses[0], answer.node_endpoints


@asynccontextmanager
async def three(data_dir: Path | None = None, **more: str) -> AsyncIterator[Cluster]:
    properties = {"muster.nodes": "3", "offsets.topic.num.partitions": str(OFFSETS), "broker.session.timeout.ms": "100"}
    named = {name.replace("_", "."): text for name, text in more.items()}
    async with running({**properties, **named}, data_dir=data_dir, topics=["t:6"]) as server:
        cluster = Cluster(server)
        try:
            yield cluster
        finally:
            for client in cluster.clients.values():
                client.writer.close()


async def comes_true(is_so: Callable[[], bool]) -> None:
    """Wait for a timer, of 100 ms at most, until the condition holds."""
    await until(is_so, turns=2_000_000)


async def join(cluster: Cluster, node_id: int, group: str) -> tuple[str, int]:
    """Let a member join that is alone in its group: its id and generation."""
    protocols = [JoinGroupRequestProtocol("range", b"m")]
    asked = JoinGroupRequest(group, 30_000, 30_000, protocol_type="consumer", protocols=protocols)
    asked.member_id = (await cluster.ask(node_id, asked)).member_id
    joined = await cluster.ask(node_id, asked)
    assert joined.error_code == 0
    assignments = [SyncGroupRequestAssignment(joined.member_id, b"mine")]
    sync = SyncGroupRequest(group, joined.generation_id, joined.member_id, assignments=assignments)
    sync.protocol_type, sync.protocol_name = "consumer", "range"
    assert (await cluster.ask(node_id, sync)).error_code == 0
    return joined.member_id, joined.generation_id


async def commit(cluster: Cluster, node_id: int, group: str, member: tuple[str, int], offset: int) -> int:
    rows = [OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, offset)])]
    asked = OffsetCommitRequest(group, member[1], member[0], topics=rows)
    code: int = (await cluster.ask(node_id, asked, 9)).topics[0].partitions[0].error_code
    return code


async def committed(cluster: Cluster, node_id: int, group: str) -> int:
    answer = await cluster.ask(node_id, OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)]), 9)
    (row,) = answer.groups[0].topics[0].partitions
    offset: int = row.committed_offset
    return offset


async def test_every_node_describes_the_same_cluster() -> None:
    async with three() as cluster:
        ports = [node.bound[0].port for node in cluster.server.nodes]
        assert len(set(ports)) == 3
        for node_id in (1, 2, 3):
            answer = await cluster.ask(node_id, DescribeClusterRequest())
            reported = [(row.broker_id, row.host, row.port) for row in answer.brokers]
            assert reported == [(place, "127.0.0.1", port) for place, port in enumerate(ports, 1)]
            assert answer.controller_id == 1
        leaders = [await cluster.leaders(node_id=node_id) for node_id in (1, 2, 3)]
        assert leaders[0] == leaders[1] == leaders[2]
        # each node leads two of the partitions of topics and of coordinators
        for topic in ("t", GROUP_OFFSETS_TOPIC):
            led = [leader for leader, _ in (await cluster.leaders(topic)).values()]
            assert sorted(led) == [1, 1, 2, 2, 3, 3]


async def test_a_node_that_does_not_lead_names_the_leader() -> None:
    async with three() as cluster:
        leader, epoch = (await cluster.leaders())[0]
        other = leader % 3 + 1
        row, _ = await cluster.produce(leader, 0, b"x")
        assert row.error_code == 0
        row, endpoints = await cluster.produce(other, 0, b"x")
        port = cluster.server.cluster.nodes[leader].bound[0].port
        assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (leader, epoch)
        assert [(one.node_id, one.host, one.port) for one in endpoints] == [(leader, "127.0.0.1", port)]
        markers = WritableTxnMarker(7, 0, True, [WritableTxnMarkerTopic("t", [0])], 0)
        for node_id, code in ((leader, 0), (other, ErrorCode.NOT_LEADER_OR_FOLLOWER)):
            answer = await cluster.ask(node_id, WriteTxnMarkersRequest([markers]))
            assert [row.error_code for row in answer.markers[0].topics[0].partitions] == [code]
        group = cluster.group_of(2)
        assert [await cluster.coordinator(group, node_id) for node_id in (1, 2, 3)] == [2, 2, 2]
        answer = await cluster.ask(1, HeartbeatRequest(group, 1, "m"))
        assert answer.error_code == ErrorCode.NOT_COORDINATOR


async def test_a_stopped_broker_hands_over_at_once_and_members_continue() -> None:
    async with three() as cluster:
        group = cluster.group_of(2)
        member = await join(cluster, 2, group)
        assert await commit(cluster, 2, group, member, 41) == 0
        before = await cluster.leaders()
        topic_id = cluster.server.topics.by_name["t"].topic_id
        mine = next(index for index, (leader, _) in before.items() if leader == 2)
        fetch = FetchRequest(max_wait_ms=30_000, min_bytes=1, topics=[FetchTopic(topic_id=topic_id)])
        fetch.topics[0].partitions = [FetchPartition(mine, fetch_offset=0, partition_max_bytes=1_000)]
        reader = await cluster.connect(2)
        waiting = reader.send(fetch)
        await until(lambda: bool(cluster.server.topics.by_name["t"].partitions[mine]._waiting))
        await cluster.server.cluster.stop_node(2)
        # clients with a parked request are answered at once, and find the new node
        answer = await reader.receive(waiting)
        row = answer.responses[0].partitions[0]
        after = await cluster.leaders()
        assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == after[mine]
        assert after[mine][0] in (1, 3)
        assert after[mine][1] == before[mine][1] + 1
        assert {index for index in before if before[index] != after[index]} == {
            index for index, (leader, _) in before.items() if leader == 2
        }
        assert await reader.closed()
        there = await cluster.coordinator(group)
        assert there in (1, 3)
        assert (await cluster.ask(there, HeartbeatRequest(group, member[1], member[0]))).error_code == 0
        assert await committed(cluster, there, group) == 41
        assert await commit(cluster, there, group, member, 42) == 0
        with pytest.raises(WrongNode, match="node 2 is stopped"):
            cluster.server.cluster.kill_node(2)
        # it returns at its port, leads nothing at first, and gets its partitions back at the request of an
        # administrator
        port = cluster.server.cluster.nodes[2].bound[0].port
        await cluster.server.cluster.return_node(2)
        assert cluster.server.cluster.nodes[2].bound[0].port == port
        assert await cluster.leaders(node_id=2) == after
        elected = await cluster.ask(1, ElectLeadersRequest(0, None, 5_000))
        rows = {row.topic: row.partition_result for row in elected.replica_election_results}
        assert [(one.partition_id, one.error_code) for one in rows["t"]] == [
            (index, 0) for index, (leader, _) in before.items() if leader == 2
        ]
        back = await cluster.leaders()
        assert {index: leader for index, (leader, _) in back.items()} == {
            index: leader for index, (leader, _) in before.items()
        }
        assert await cluster.coordinator(group) == 2
        assert await committed(cluster, 2, group) == 42
        assert (await cluster.ask(2, HeartbeatRequest(group, member[1], member[0]))).error_code == 0


async def test_a_killed_broker_is_replaced_after_its_session_without_loss(tmp_path: Path) -> None:
    async with three(tmp_path, muster_offsets_durability="os") as cluster:
        server = cluster.server
        group = cluster.group_of(3)
        member = await join(cluster, 3, group)
        assert await commit(cluster, 3, group, member, 7) == 0
        before = await cluster.leaders()
        mine = next(index for index, (leader, _) in before.items() if leader == 3)
        written = []
        for n in range(5):
            row, _ = await cluster.produce(3, mine, b"%d" % n)
            written.append(row.base_offset)
        held = server.topics.by_name["t"].partitions[mine]
        assert held is not None
        server.cluster.kill_node(3)
        assert await cluster.clients[3].closed()
        assert held.closed
        # other nodes do not know it yet
        assert await cluster.leaders() == before
        await comes_true(lambda: server.topics.open.leaders["t"][mine].broker_id != 3)
        await comes_true(lambda: all(one.broker_id != 3 for one in server.topics.open.leaders["t"]))
        after = await cluster.leaders()
        assert [row.broker_id for row in (await cluster.ask(1, DescribeClusterRequest())).brokers] == [1, 2]
        all_of_them = await cluster.ask(1, DescribeClusterRequest(include_fenced_brokers=True))
        reported = [(row.broker_id, row.port, row.is_fenced) for row in all_of_them.brokers]
        ports = [bound.port for bound in server.bound]
        assert reported == [(1, ports[0], False), (2, ports[1], False), (3, ports[2], True)]
        row, _ = await cluster.produce(after[mine][0], mine, b"more")
        assert row.base_offset == written[-1] + 1
        there = await cluster.coordinator(group)
        await comes_true(lambda: server.cluster.nodes[there].routing.shard(group).active)
        assert await committed(cluster, there, group) == 7
        assert (await cluster.ask(there, HeartbeatRequest(group, member[1], member[0]))).error_code == 0
        await server.cluster.return_node(3)
        assert len((await cluster.ask(3, DescribeClusterRequest())).brokers) == 3


async def test_metadata_names_no_leader_that_is_not_among_the_brokers() -> None:
    """A node is dead, and no other node follows it yet. kafka-python's producer would wait for it and ask no other
    node.
    """
    async with three() as cluster:
        before = await cluster.leaders()
        cluster.server.cluster._changes.fence(3)
        asked = MetadataRequest([MetadataRequestTopic(name="t")])
        answer = await cluster.ask(1, asked)
        assert [row.node_id for row in answer.brokers] == [1, 2]
        described = await cluster.ask(1, DescribeTopicPartitionsRequest([TopicRequest("t")]))
        for rows in (answer.topics[0].partitions, described.topics[0].partitions):
            for row in rows:
                leader, epoch = before[row.partition_index]
                is_dead = leader == 3
                assert row.leader_id == (-1 if is_dead else leader)
                assert row.leader_epoch == epoch
                assert row.error_code == (ErrorCode.LEADER_NOT_AVAILABLE if is_dead else 0)
                assert list(row.isr_nodes) == [leader]
                assert list(row.offline_replicas) == ([3] if is_dead else [])
        group = cluster.group_of(3)
        found = await cluster.ask(1, FindCoordinatorRequest(coordinator_keys=[group]))
        assert found.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_leadership_survives_a_restart_and_fewer_nodes(tmp_path: Path) -> None:
    async with three(tmp_path) as cluster:
        await cluster.server.cluster.stop_node(3)
        before = await cluster.leaders()
    async with three(tmp_path) as cluster:
        again = await cluster.leaders()
        assert {index: leader for index, (leader, _) in again.items()} == {
            index: leader for index, (leader, _) in before.items()
        }
        assert all(again[index][1] > before[index][1] for index in before)
        assert len((await cluster.ask(1, DescribeClusterRequest())).brokers) == 3
    async with running({"offsets.topic.num.partitions": str(OFFSETS)}, data_dir=tmp_path) as server:
        alone = Cluster(server)
        last = await alone.leaders()
        assert {leader for leader, _ in last.values()} == {1}
        assert all(last[index][1] > again[index][1] for index in last)
        assert len((await alone.ask(1, DescribeClusterRequest())).brokers) == 1
        alone.clients[1].writer.close()


async def test_replicas_are_placed_in_different_racks() -> None:
    async with three(muster_nodes_racks="a,b,a") as cluster:
        answer = await cluster.ask(1, DescribeClusterRequest())
        assert [row.rack for row in answer.brokers] == ["a", "b", "a"]
        await cluster.ask(1, CreateTopicsRequest([CreatableTopic("r", 6, 2)], 5_000))
        rows = (await cluster.ask(1, MetadataRequest([MetadataRequestTopic(name="r")]))).topics[0].partitions
        assert all(2 in row.replica_nodes for row in rows)
        # the hash of a group's topics is the same on every node
        racks = {node.routing.shards[0]._make_core().state.settings.broker_rack for node in cluster.server.nodes}
        assert len(racks) == 1


async def test_all_replicas_share_one_log() -> None:
    async with three() as cluster:
        wanted = CreateTopicsRequest([CreatableTopic("r", 3, 3), CreatableTopic("no", 1, 4)], 5_000)
        answer = await cluster.ask(2, wanted)
        assert [row.error_code for row in answer.topics] == [0, ErrorCode.INVALID_REPLICATION_FACTOR]
        assert "only 3 broker(s) are registered" in answer.topics[1].error_message
        assert answer.topics[0].replication_factor == 3
        rows = (await cluster.ask(1, MetadataRequest([MetadataRequestTopic(name="r")]))).topics[0].partitions
        for row in rows:
            assert sorted(row.replica_nodes) == sorted(row.isr_nodes) == [1, 2, 3]
            assert row.leader_id == row.replica_nodes[0]
        leader = rows[0].leader_id
        await cluster.server.cluster.stop_node(leader)
        asked = MetadataRequest([MetadataRequestTopic(name="r")])
        row = (await cluster.ask(leader % 3 + 1, asked)).topics[0].partitions[0]
        assert row.leader_id == rows[0].replica_nodes[1]
        assert sorted(row.isr_nodes) == sorted({1, 2, 3} - {leader})
        assert list(row.offline_replicas) == [leader]


async def test_leaders_are_moved_by_a_reassignment_or_an_election() -> None:
    async with three() as cluster:
        leader, epoch = (await cluster.leaders())[0]
        target = leader % 3 + 1

        async def move(replicas: list[int] | None) -> Any:
            rows = [ReassignableTopic("t", [ReassignablePartition(0, replicas)])]
            answer = await cluster.ask(3, AlterPartitionReassignmentsRequest(5_000, topics=rows))
            return answer.responses[0].partitions[0].error_code

        assert await move([target]) == 0
        assert (await cluster.leaders())[0] == (target, epoch + 1)
        assert await move([target, leader]) == 0
        assert (await cluster.leaders())[0] == (target, epoch + 1)
        assert await move([9]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert await move(None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        answer = await cluster.ask(1, ElectLeadersRequest(0, [TopicPartitions("t", [0, 9])], 5_000))
        codes = [row.error_code for row in answer.replica_election_results[0].partition_result]
        assert codes == [ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        await cluster.server.cluster.stop_node(target)
        asker = leader
        answer = await cluster.ask(asker, ElectLeadersRequest(0, [TopicPartitions("t", [0])], 5_000))
        codes = [row.error_code for row in answer.replica_election_results[0].partition_result]
        assert codes == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]


async def test_the_quorum_is_described_and_a_broker_can_be_unregistered() -> None:
    async with three() as cluster:
        asked = DescribeQuorumRequest(
            [DescribeQuorumRequestTopicData("__cluster_metadata", [DescribeQuorumRequestPartitionData(0)])]
        )
        row = (await cluster.ask(2, asked)).topics[0].partitions[0]
        assert (row.leader_id, [one.replica_id for one in row.current_voters]) == (1, [1])
        assert [one.replica_id for one in row.observers] == [2, 3]
        assert (await cluster.ask(1, UnregisterBrokerRequest(9))).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
        await cluster.server.cluster.stop_node(1)
        assert (await cluster.ask(2, UnregisterBrokerRequest(1))).error_code == 0
        row = (await cluster.ask(2, asked)).topics[0].partitions[0]
        assert (row.leader_id, [one.replica_id for one in row.observers]) == (2, [3])
        assert not any(leader == 1 for leader, _ in (await cluster.leaders(node_id=2)).values())
        # a live node is removed as well; it returns with a stop and a start
        assert (await cluster.ask(2, UnregisterBrokerRequest(3))).error_code == 0
        assert {leader for leader, _ in (await cluster.leaders(node_id=2)).values()} == {2}
        await cluster.server.cluster.stop_node(3)
        await cluster.server.cluster.return_node(3)
        assert [row.broker_id for row in (await cluster.ask(3, DescribeClusterRequest())).brokers] == [2, 3]


async def test_preferred_leaders_are_restored_automatically() -> None:
    async with three(leader_imbalance_check_interval_seconds="1") as cluster:
        before = await cluster.leaders()
        await cluster.server.cluster.stop_node(2)
        await cluster.server.cluster.return_node(2)
        leaders = cluster.server.topics.open.leaders
        assert any(one.broker_id != before[index][0] for index, one in enumerate(leaders["t"]))
        cluster.server.cluster._elect_preferred_leaders()
        leaders = cluster.server.topics.open.leaders
        await comes_true(
            lambda: (
                [one.broker_id for one in cluster.server.topics.open.leaders["t"]]
                == [leader for leader, _ in before.values()]
            ),
        )


async def test_the_last_node_may_be_stopped_too() -> None:
    async with three() as cluster:
        for node_id in (1, 2, 3):
            await cluster.server.cluster.stop_node(node_id)
        assert {one.broker_id for one in cluster.server.topics.open.leaders["t"]} == {-1}
        await cluster.server.cluster.return_node(2)
        assert {leader for leader, _ in (await cluster.leaders(node_id=2)).values()} == {2}
