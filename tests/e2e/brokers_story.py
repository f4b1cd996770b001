"""A transcript of what clients see of three brokers whose leaders and coordinators move. Muster and a real Kafka play
the same story, and their answers are compared line by line.

The brokers are 1, 2, 3 on both. Values that differ by themselves (epochs, ids, ports) are shown relative to earlier
values, or not at all. `brokers-story.txt` is what Kafka 4.3 answered.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from muster.coordinator.log import batches
from muster.protocol.errors import error_name
from muster.protocol.hashing import group_partition
from muster.protocol.message import Message
from muster.protocol.messages import produce
from muster.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from muster.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from muster.protocol.messages.describe_cluster import DescribeClusterRequest
from muster.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from muster.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from muster.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from muster.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from muster.protocol.messages.find_coordinator import FindCoordinatorRequest
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from muster.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from muster.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from muster.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from muster.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from muster.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from muster.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from muster.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tests.support.muster import Client

KAFKA_SAID = Path(__file__).parent / "brokers-story.txt"
PROPERTIES = {
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "300",
    "offsets.topic.num.partitions": "6",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "auto.leader.rebalance.enable": "false",
}
"""The properties of both servers."""
REPLICAS = ([1, 2], [2, 3], [3, 1])
"""The replicas of each partition of the topic."""
PATIENCE_S = 120.0
ALL = (1, 2, 3)
NOT_NEEDED = "ELECTION_NOT_NEEDED Leader election not needed for topic partition."


class Brokers(Protocol):
    """Three brokers that run."""

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of brokers 1, 2, 3."""

    def stop_node(self, node: int) -> None:
        """End a broker in order."""

    def kill_node(self, node: int) -> None:
        """Kill a broker as SIGKILL does."""

    def start_node(self, node: int) -> None:
        """Start a broker again."""


def name(code: int) -> str:
    """The name of an error."""
    return "ok" if code == 0 else error_name(code)


def leader_in(row: Any) -> int:
    """The leader that an error answer names (KIP-951)."""
    return -1 if row.current_leader is None else int(row.current_leader.leader_id)


class Story:
    """The story of this module. `lines`: what was seen."""

    def __init__(self, brokers: Brokers, *, topic: str = "moves", group: str = "movers") -> None:
        self.brokers, self.topic, self.group = brokers, topic, group
        self.lines: list[str] = []
        self._clients: dict[int, Client] = {}
        self._topic_id = bytes(16)
        self._last_offset = -1

    # ---- asking

    async def connect(self, node: int) -> Client:
        host, port = self.brokers.addresses[node - 1]
        reader, writer = await asyncio.open_connection(host, port)
        return Client(reader, writer, "story")

    async def ask(self, node: int, request: Message, version: int | None = None) -> Any:
        client = self._clients.get(node)
        if client is None or client.reader.at_eof():
            client = self._clients[node] = await self.connect(node)
        return await asyncio.wait_for(client.ask(request, version), PATIENCE_S)

    def forget(self, node: int) -> None:
        client = self._clients.pop(node, None)
        if client is not None:
            client.writer.close()

    async def until(self, what: str, is_so: Callable[[], Any]) -> None:
        """Ask again and again: both servers take some time, Kafka more."""
        end = time.monotonic() + PATIENCE_S
        while True:
            with suppress(OSError, asyncio.IncompleteReadError):
                if await is_so():
                    return
            assert time.monotonic() < end, f"it never came true: {what}; so far:\n" + "\n".join(self.lines)
            await asyncio.sleep(0.02)

    def tell(self, line: str) -> None:
        self.lines.append(line)

    async def rows(self, node: int, topic: str = "") -> list[Any]:
        answer = await self.ask(node, MetadataRequest([MetadataRequestTopic(name=topic or self.topic)]))
        if not topic:
            self._topic_id = answer.topics[0].topic_id
        return sorted(answer.topics[0].partitions, key=lambda row: row.partition_index)

    async def tell_partitions(self, node: int) -> None:
        """Write the topic as Metadata and DescribeTopicPartitions show it."""
        for row in await self.rows(node):
            self.tell(
                f"    {row.partition_index}: leader {row.leader_id} replicas {list(row.replica_nodes)} "
                f"in sync {sorted(row.isr_nodes)} offline {sorted(row.offline_replicas)} {name(row.error_code)}"
            )
        answer = await self.ask(node, DescribeTopicPartitionsRequest([TopicRequest(self.topic)]))
        same = [
            (row.partition_index, row.leader_id, sorted(row.isr_nodes), sorted(row.offline_replicas))
            for row in answer.topics[0].partitions
        ]
        rows = await self.rows(node)
        assert same == [
            (row.partition_index, row.leader_id, sorted(row.isr_nodes), sorted(row.offline_replicas)) for row in rows
        ]

    # ---- the chapters

    async def play(self) -> list[str]:
        await self.topics()
        await self.who_does_not_lead()
        await self.epochs()
        await self.elections()
        await self.reassignments()
        await self.a_coordinator_moves()
        await self.a_reader_waits()
        await self.a_broker_stops()
        await self.a_broker_dies()
        await self.administration()
        for node in ALL:
            self.forget(node)
        return self.lines

    async def topics(self) -> None:
        self.tell("a topic with replicas that are named")
        assignments = [CreatableReplicaAssignment(index, ids) for index, ids in enumerate(REPLICAS)]
        wanted = [
            CreatableTopic(self.topic, -1, -1, assignments),
            CreatableTopic("many", 1, 4),
            CreatableTopic("twice", -1, -1, [CreatableReplicaAssignment(0, [1, 1])]),
            CreatableTopic("strange", -1, -1, [CreatableReplicaAssignment(0, [9])]),
        ]
        answer = await self.ask(1, CreateTopicsRequest(wanted, 30_000))
        for row in answer.topics:
            self.tell(f"    {row.name}: {name(row.error_code)} {row.error_message or ''}".rstrip())
        for node in ALL:
            await self.until("the topic is known", lambda node=node: self._is_led(node))
        for partition, (leader, *_) in enumerate(REPLICAS):
            await self.until(
                "who leads has its log", lambda leader=leader, partition=partition: self._has_log(leader, partition)
            )
        await self.tell_partitions(2)
        answer = await self.ask(3, DescribeClusterRequest())
        self.tell(f"    brokers {sorted(row.broker_id for row in answer.brokers)}")

    async def _is_led(self, node: int) -> bool:
        rows = await self.rows(node)
        return len(rows) == len(REPLICAS) and all(
            row.leader_id == ids[0] for row, ids in zip(rows, REPLICAS, strict=True)
        )

    async def _has_log(self, node: int, partition: int) -> bool:
        parts = [ListOffsetsTopic(self.topic, [ListOffsetsPartition(partition, -1, -1)])]
        answer = await self.ask(node, ListOffsetsRequest(topics=parts))
        return bool(answer.topics[0].partitions[0].error_code == 0)

    async def _produce(self, node: int, partition: int, value: bytes = b"v") -> Any:
        data = [produce.PartitionProduceData(partition, batches.build([(None, value)], timestamp_ms=1_700_000_000_000))]
        asked = produce.ProduceRequest(None, -1, 5_000, [produce.TopicProduceData(self.topic, partition_data=data)])
        return await self.ask(node, asked, 12)

    async def _takes_record(self, node: int, partition: int) -> bool:
        """A node that just became leader may not know it yet."""
        row = (await self._produce(node, partition)).responses[0].partition_responses[0]
        self._last_offset = row.base_offset
        return bool(row.error_code == 0)

    def _fetch(self, partition: int, *, epoch: int = -1, offset: int = 0, wait_ms: int = 0) -> FetchRequest:
        row = FetchPartition(partition, epoch, offset, partition_max_bytes=1_000_000)
        return FetchRequest(
            max_wait_ms=wait_ms, min_bytes=1, max_bytes=1_000_000, topics=[FetchTopic("", self._topic_id, [row])]
        )

    async def who_does_not_lead(self) -> None:
        self.tell("who does not lead says who does")
        epochs = {row.partition_index: row.leader_epoch for row in await self.rows(1)}
        for node in ALL:
            answer = await self._produce(node, 0)
            row = answer.responses[0].partition_responses[0]
            ends = [one.node_id for one in answer.node_endpoints]
            is_newest = row.current_leader is None or row.current_leader.leader_epoch == epochs[0]
            self.tell(f"    produce to {node}: {name(row.error_code)} {leader_in(row)} {is_newest} {ends}")
        for node in (1, 2):  # 3 is a replica: clients may read from replicas of Kafka (KIP-392)
            answer = await self.ask(node, self._fetch(1))
            row = answer.responses[0].partitions[0]
            ends = [one.node_id for one in answer.node_endpoints]
            self.tell(f"    fetch from {node}: {name(row.error_code)} {leader_in(row)} {ends}")
        for node in ALL:
            parts = [ListOffsetsTopic(self.topic, [ListOffsetsPartition(2, -1, -1)])]
            row = (await self.ask(node, ListOffsetsRequest(topics=parts))).topics[0].partitions[0]
            self.tell(f"    offsets of {node}: {name(row.error_code)} {row.offset}")
        for node in ALL:
            row = await self._epoch_end(node, 2, 0)
            self.tell(f"    epoch's end of {node}: {name(row.error_code)} {row.end_offset}")
        answer = await self._produce(2, 9)
        row = answer.responses[0].partition_responses[0]
        self.tell(f"    a partition that is not there: {name(row.error_code)} {leader_in(row)}")

    async def _epoch_end(self, node: int, partition: int, epoch: int, current: int = -1) -> Any:
        asked = [OffsetForLeaderTopic(self.topic, [OffsetForLeaderPartition(partition, current, epoch)])]
        answer = await self.ask(node, OffsetForLeaderEpochRequest(-1, asked))
        return answer.topics[0].partitions[0]

    async def epochs(self) -> None:
        self.tell("epochs of leaders that are not the newest")
        now = (await self.rows(1))[0].leader_epoch
        for node in (1, 3):  # 2 is a replica: replicas of Kafka compare epochs before they answer that they do not lead
            for step in (-1, 0, 1):
                row = (await self.ask(node, self._fetch(0, epoch=now + step))).responses[0].partitions[0]
                self.tell(f"    fetch from {node} with {step:+}: {name(row.error_code)} {leader_in(row)}")
                parts = [ListOffsetsTopic(self.topic, [ListOffsetsPartition(0, now + step, -1)])]
                offsets = (await self.ask(node, ListOffsetsRequest(topics=parts))).topics[0].partitions[0]
                end = await self._epoch_end(node, 0, now, now + step)
                self.tell(f"        offsets: {name(offsets.error_code)}; epoch's end: {name(end.error_code)}")

    async def _move(self, partition: int, replicas: Sequence[int] | None, topic: str = "") -> str:
        rows = [ReassignableTopic(topic or self.topic, [ReassignablePartition(partition, replicas)])]
        answer = await self.ask(1, AlterPartitionReassignmentsRequest(5_000, topics=rows))
        row = answer.responses[0].partitions[0]
        return f"{name(row.error_code)} {row.error_message or ''}".rstrip()

    async def _elect(self, partition: int, topic: str = "", kind: int = 0) -> str:
        answer = await self.ask(
            2, ElectLeadersRequest(kind, [TopicPartitions(topic or self.topic, [partition])], 5_000)
        )
        row = answer.replica_election_results[0].partition_result[0]
        return f"{name(row.error_code)} {row.error_message or ''}".rstrip()

    async def elections(self) -> None:
        self.tell("elections that change nothing")
        self.tell(f"    preferred: {await self._elect(0)}")
        self.tell(f"    any: {await self._elect(0, kind=1)}")
        self.tell(f"    not there: {await self._elect(9)}")
        self.tell(f"    no topic: {await self._elect(0, 'none')}")
        answer = await self.ask(1, ElectLeadersRequest(0, None, 5_000))
        results = [row.partition_result for row in answer.replica_election_results if row.topic == self.topic]
        self.tell(f"    all: {name(answer.error_code)} {[len(rows) for rows in results]}")

    async def reassignments(self) -> None:
        self.tell("other replicas")
        before = await self.rows(1)
        self.tell(f"    the others first: {await self._move(0, [2, 1])}")
        await self.until("it is over", lambda: self._is_over())
        after = await self.rows(1)
        self.tell(f"    leader {after[0].leader_id}, epoch {after[0].leader_epoch - before[0].leader_epoch:+}")
        self.tell(f"    elected: {await self._elect(0)}")
        await self.until("2 leads", lambda: self._leads(0, 2))
        last = await self.rows(1)
        self.tell(f"    leader {last[0].leader_id}, epoch {last[0].leader_epoch - after[0].leader_epoch:+}")
        await self.until("2 takes records", lambda: self._takes_record(2, 0))
        self.tell(f"    produced at {self._last_offset}")
        row = await self._epoch_end(2, 0, before[0].leader_epoch)
        self.tell(f"    the epoch before ended at {row.end_offset}, {row.leader_epoch - before[0].leader_epoch:+}")
        self.tell(f"    without the leader: {await self._move(0, [3, 1])}")
        await self.until("it is over", lambda: self._is_over())
        await self.until("3 leads", lambda: self._leads(0, 3))
        await self.tell_partitions(1)
        for replicas in ([9], [1, 1], [], None):
            self.tell(f"    to {replicas}: {await self._move(0, replicas)}")
        self.tell(f"    not there: {await self._move(9, [1])}")
        self.tell(f"    no topic: {await self._move(0, [1], 'none')}")
        self.tell(f"    back: {await self._move(0, REPLICAS[0])}")
        await self.until("it is over", lambda: self._is_over())
        await self._elect(0)
        for node in ALL:
            await self.until("1 leads", lambda node=node: self._leads(0, 1, node))

    async def _is_over(self, node: int = 1) -> bool:
        answer = await self.ask(node, ListPartitionReassignmentsRequest(5_000, None))
        return not answer.topics

    async def _leads(self, partition: int, leader: int, node: int = 1) -> bool:
        rows = await self.rows(node)
        return bool(rows[partition].leader_id == leader)

    # ---- groups

    async def _coordinator(self, node: int = 1) -> int:
        answer = await self.ask(node, FindCoordinatorRequest(coordinator_keys=[self.group]))
        found: int = answer.coordinators[0].node_id
        return found

    async def _give_group_to(self, leader: int) -> None:
        """Let a broker coordinate the group, with the requests of Kafka's tools."""
        offsets = "__consumer_offsets"
        partition = await self._group_partition()
        others = [one for one in ALL if one != leader]
        moved = await self._move(partition, [leader, *others], offsets)
        await self.until("it is over", lambda: self._is_over())
        assert (moved, await self._elect(partition, offsets)) in (("ok", "ok"), ("ok", NOT_NEEDED))
        for node in ALL:
            await self.until("it coordinates", lambda node=node: self._coordinates(node, leader))

    async def _coordinates(self, node: int, leader: int) -> bool:
        return await self._coordinator(node) == leader

    async def _group_partition(self) -> int:
        return group_partition(self.group, len(await self.rows(1, "__consumer_offsets")))

    async def _heartbeat(self, node: int, member: str, generation: int) -> str:
        return name((await self.ask(node, HeartbeatRequest(self.group, generation, member))).error_code)

    async def _is_loaded(self, node: int) -> bool:
        asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(self.group, topics=None)])
        return (await self.ask(node, asked, 9)).groups[0].error_code == 0

    async def a_coordinator_moves(self) -> None:
        self.tell("a coordinator moves")
        await self.until("there is a coordinator", lambda: self._coordinates_somewhere())
        await self._give_group_to(1)
        await self.until("it is loaded", lambda: self._is_loaded(1))
        protocols = [JoinGroupRequestProtocol("range", b"m")]
        asked = JoinGroupRequest(self.group, 60_000, 60_000, protocol_type="consumer", protocols=protocols)
        asked.member_id = (await self.ask(1, asked)).member_id
        joined = await self.ask(1, asked)
        member, generation = joined.member_id, joined.generation_id
        sync = SyncGroupRequest(
            self.group, generation, member, assignments=[SyncGroupRequestAssignment(member, b"mine")]
        )
        sync.protocol_type, sync.protocol_name = "consumer", "range"
        self.tell(f"    in generation {generation}: {name((await self.ask(1, sync)).error_code)}")
        self.tell(f"    committed: {await self._commit(1, member, generation, 41)}")
        for node in ALL:
            self.tell(f"    heartbeat at {node}: {await self._heartbeat(node, member, generation)}")
        self.tell(f"    committed at another: {await self._commit(2, member, generation, 42)}")
        self.tell(f"    offsets at another: {await self._offsets(3)}")
        # another member waits for the first one to join again
        other = JoinGroupRequest(self.group, 60_000, 60_000, protocol_type="consumer", protocols=protocols)
        client = await self.connect(1)
        other.member_id = (await client.ask(other)).member_id
        waiting = client.send(other)
        await self.until("it rebalances", lambda: self._rebalances(member, generation))
        answered = asyncio.create_task(client.receive(waiting))
        await self._give_group_to(2)
        answer = await asyncio.wait_for(answered, PATIENCE_S)
        self.tell(f"    who waited in a join is told: {name(answer.error_code)}")
        client.writer.close()
        await self._tell_offsets(2, 41)
        self.tell(f"    heartbeat at the new one: {await self._heartbeat(2, member, generation)}")
        self.tell(f"    heartbeat at the old one: {await self._heartbeat(1, member, generation)}")
        self.tell(f"    committed at the new one: {await self._commit(2, member, generation, 43)}")
        self.tell(f"    the id that waited: {await self._heartbeat(2, other.member_id, generation)}")
        await self._give_group_to(3)
        await self._tell_offsets(3, 43)
        self._member = member, generation

    async def _tell_offsets(self, node: int, offset: int) -> None:
        """Write the committed offsets. A coordinator of Kafka answers them when their records are replicated."""
        rows = f"ok [(0, {offset})]"

        async def are_told() -> bool:
            return await self._offsets(node) == rows

        await self.until(f"the offset is {offset}", are_told)
        self.tell(f"    offsets: {rows}")

    async def _coordinates_somewhere(self) -> bool:
        return await self._coordinator() in ALL

    async def _rebalances(self, member: str, generation: int) -> bool:
        return await self._heartbeat(1, member, generation) == "REBALANCE_IN_PROGRESS"

    async def _commit(self, node: int, member: str, generation: int, offset: int) -> str:
        rows = [OffsetCommitRequestTopic(self.topic, partitions=[OffsetCommitRequestPartition(0, offset)])]
        answer = await self.ask(node, OffsetCommitRequest(self.group, generation, member, topics=rows), 9)
        return name(answer.topics[0].partitions[0].error_code)

    async def _offsets(self, node: int) -> str:
        asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(self.group, topics=None)])
        group = (await self.ask(node, asked, 9)).groups[0]
        rows = [(row.partition_index, row.committed_offset) for topic in group.topics for row in topic.partitions]
        return f"{name(group.error_code)} {rows}"

    # ---- readers

    async def a_reader_waits(self) -> None:
        self.tell("a leader moves while a reader waits")
        end = (await self.ask(2, self._fetch(1))).responses[0].partitions[0].high_watermark
        client = await self.connect(2)
        waiting = client.send(self._fetch(1, offset=end, wait_ms=30_000))
        answered = asyncio.create_task(client.receive(waiting))
        self.tell(f"    moved: {await self._move(1, [3, 1])}")
        await self.until("it is over", lambda: self._is_over())
        answer = await asyncio.wait_for(answered, PATIENCE_S)
        row = answer.responses[0].partitions[0]
        ends = [one.node_id for one in answer.node_endpoints]
        self.tell(f"    the reader is told: {name(row.error_code)} {leader_in(row)} {ends}")
        client.writer.close()
        await self._move(1, REPLICAS[1])
        await self.until("it is over", lambda: self._is_over())
        await self._elect(1)
        for node in ALL:
            await self.until("2 leads", lambda node=node: self._leads(1, 2, node))

    # ---- brokers

    async def _brokers(self, node: int) -> list[int]:
        return sorted(row.broker_id for row in (await self.ask(node, DescribeClusterRequest())).brokers)

    async def _goes(self, node: int, how: Callable[[int], None]) -> None:
        asker = 1 if node != 1 else 2
        before = {row.partition_index: row.leader_epoch for row in await self.rows(asker)}
        with suppress(OSError):
            self.forget(node)
        await asyncio.to_thread(how, node)
        await self.until("it is gone", lambda: self._is_gone(asker, node))
        self.tell(f"    brokers {await self._brokers(asker)}")
        await self.tell_partitions(asker)
        grown = {
            row.partition_index for row in await self.rows(asker) if row.leader_epoch > before[row.partition_index]
        }
        self.tell(f"    with new leader epochs: {sorted(grown)}")
        self.tell(f"    elected: {await self._elect(1)}" if node == 2 else f"    elected: {await self._elect(2)}")

    async def _is_gone(self, asker: int, node: int) -> bool:
        rows = await self.rows(asker)
        return node not in await self._brokers(asker) and not any(
            node in row.isr_nodes and len(row.replica_nodes) > 1 for row in rows
        )

    async def _comes_back(self, node: int) -> None:
        asker = 1 if node != 1 else 2
        await asyncio.to_thread(self.brokers.start_node, node)
        await self.until("it is back", lambda: self._is_back(asker, node))
        self.tell(f"    it returns: brokers {await self._brokers(asker)}")
        await self.tell_partitions(asker)
        for partition, replicas in enumerate(REPLICAS):
            if replicas[0] == node:
                self.tell(f"    elected {partition}: {await self._elect(partition)}")
        for one in ALL:
            await self.until("all is as before", lambda one=one: self._is_led(one))
        await self.tell_partitions(node)

    async def _is_back(self, asker: int, node: int) -> bool:
        rows = await self.rows(asker)
        in_sync = all(sorted(row.isr_nodes) == sorted(row.replica_nodes) for row in rows)
        return node in await self._brokers(asker) and in_sync and all(row.leader_id >= 0 for row in rows)

    async def a_broker_stops(self) -> None:
        self.tell("a broker stops in order")
        await self._goes(3, self.brokers.stop_node)
        await self.until("another one coordinates", lambda: self._coordinates_elsewhere(1, 3))
        there = await self._coordinator()
        await self._tell_offsets(there, 43)
        self.tell(f"    heartbeat: {await self._heartbeat(there, *self._member)}")
        await self._comes_back(3)

    async def a_broker_dies(self) -> None:
        self.tell("a broker is killed")
        await self._give_group_to(1)
        await self.until("it is loaded", lambda: self._is_loaded(1))
        await self._goes(1, self.brokers.kill_node)
        await self.until("another one coordinates", lambda: self._coordinates_elsewhere(2, 1))
        there = await self._coordinator(2)
        await self._tell_offsets(there, 43)
        self.tell(f"    heartbeat: {await self._heartbeat(there, *self._member)}")
        await self._comes_back(1)

    async def _coordinates_elsewhere(self, node: int, gone: int) -> bool:
        return await self._coordinator(node) in set(ALL) - {gone}

    async def administration(self) -> None:
        self.tell("what administrators ask")
        for node in ALL:
            answer = await self.ask(node, DescribeLogDirsRequest(None))
            here = sorted(
                row.partition_index
                for result in answer.results
                for topic in result.topics
                if topic.name == self.topic
                for row in topic.partitions
            )
            self.tell(f"    partitions in the directory of {node}: {here}")
        answer = await self.ask(1, UnregisterBrokerRequest(9))
        self.tell(f"    a broker that is not there is unregistered: {name(answer.error_code)} {answer.error_message}")
