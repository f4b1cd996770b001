"""The kinds of requests that have a budget. Each scene makes a node, and counts some kinds of requests one by one."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

import structlog

from muster.coordinator.log import maintenance
from muster.coordinator.server.metrics import ServerMetrics
from muster.coordinator.topics import partition_maintenance
from muster.protocol.message import Message
from muster.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_client_quotas,
    create_acls,
    end_txn,
    fetch,
    list_offsets,
    offset_commit,
    offset_fetch,
    produce,
    txn_offset_commit,
)
from muster.protocol.messages.api_versions import ApiVersionsRequest
from muster.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from muster.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from muster.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from muster.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from muster.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from muster.protocol.messages.describe_groups import DescribeGroupsRequest
from muster.protocol.messages.find_coordinator import FindCoordinatorRequest
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.init_producer_id import InitProducerIdRequest
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from muster.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from muster.protocol.messages.list_groups import ListGroupsRequest
from muster.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from muster.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from muster.protocol.messages.sasl_handshake import SaslHandshakeRequest
from muster.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, Topology
from muster.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from muster.virtual.machine import PORT
from tests.budget.counting import Cost, Counter, Stack, peak_bytes
from tests.coordinator.topics.support import batch
from tests.support.virtual_node import NEVER, ClusterNode, Link, VirtualNode, errors_in

TOPIC: Final = "orders"
PARTITIONS: Final = 1000
REPEATS: Final = 10
FIRST: Final = 1
"""The id of the first node."""
REST_MS: Final = 50
"""The time after the requests in which the node writes behind its answers."""
LATER_MS: Final = 3_000
"""The time before the next requests: a node does some work, such as writing events, a second later."""
SESSION_MS: Final = 1_800_000
ASSIGNMENT: Final = b"\0\0\0\0\0\1\0\6orders\0\0\0\1\0\0\0\0\xff\xff\xff\xff"
"""A ConsumerProtocolAssignment of version 0: partition 0 of `orders`, no user data."""
PLAIN: Final = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "group.max.session.timeout.ms": "1800000",
    "group.consumer.max.heartbeat.interval.ms": "1800000",
    "group.consumer.heartbeat.interval.ms": "1000000",
    "group.consumer.max.session.timeout.ms": "1800000",
    "group.consumer.session.timeout.ms": "1800000",
    "group.streams.max.session.timeout.ms": "1800000",
    "group.streams.session.timeout.ms": "1800000",
    "group.streams.initial.rebalance.delay.ms": "0",
    **dict.fromkeys(
        (
            "log.retention.check.interval.ms",
            "log.cleaner.backoff.ms",
            "log.flush.offset.checkpoint.interval.ms",
            "log.flush.start.offset.checkpoint.interval.ms",
            "producer.id.expiration.check.interval.ms",
        ),
        "100000000",
    ),
}
"""Settings with which a node does nothing at intervals: such work would count for the request during which it happens.
"""
_LOGIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
ACLS: Final = PLAIN | {
    "listeners": f"SASL_PLAINTEXT://127.0.0.1:{PORT}",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{_LOGIN} required user_alice="pw" user_root="pw";',
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:root",
}


class Scene:
    """One node, one client with a connection, and the costs that were counted."""

    def __init__(
        self, properties: dict[str, str], *, user: str | None = None, observer: Any = None, suffix: str = "",
        node: VirtualNode | ClusterNode | None = None,
    ) -> None:  # fmt: skip
        """`suffix` follows the name of each kind: what is special about the node. `node`: instead of a node with the
        other arguments.
        """
        self.node = node or VirtualNode(
            properties, observer=observer, listen=None if "listeners" in properties else f"127.0.0.1:{PORT}"
        )
        self.user, self.suffix = user, suffix
        self.costs: dict[str, Cost] = {}
        self.where: dict[str, dict[Stack, float]] = {}
        """The instructions by stack, by kind, if `Counter.explains`."""
        self.link = self.connect()

    def connect(self, user: str | None = None) -> Link:
        """Return a connection that has authenticated, if the node wants this."""
        link = self.node.connect()
        user = user or self.user
        if user is not None:
            assert link.ask(SaslHandshakeRequest("PLAIN")).error_code == 0
            assert link.ask(SaslAuthenticateRequest(f"\0{user}\0pw".encode())).error_code == 0
        return link

    def ask(self, request: Message, version: int | None = None) -> Any:
        """Ask without counting."""
        return self.link.ask(request, version)

    def prepare(self) -> bytes:
        """Make the topic and wait for coordinators; return the topic's id."""
        root = self.connect("root") if self.user else self.link
        made = root.ask(CreateTopicsRequest([CreatableTopic(TOPIC, PARTITIONS, 1)]))
        for kind in (0, 1):
            root.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=["a"]))
        self.node.rest(2_000)
        topic_id: bytes = made.topics[0].topic_id
        return topic_id

    def count(
        self, kind: str, requests: Sequence[Message], version: int | None = None, link: Link | None = None
    ) -> list[Any]:
        """Count what these requests cost, each asked when the one before is answered; return their answers."""
        link = link or self.link
        counter, first = Counter(), len(link.answers)
        half = len(requests) // 2

        def ask(some: Iterable[Message]) -> None:
            for request in some:
                assert link.ask(request, version) is not None, f"{kind}: the connection was closed"
            self.node.rest(REST_MS)

        gc.disable()
        try:
            # tracing and tracemalloc would count each other: half of the requests are for each of the two
            peak = peak_bytes(lambda: ask(requests[:half])) if half else 0
            with counter.counting():
                ask(requests[half:])
        finally:
            gc.enable()
        self.node.rest(LATER_MS)
        answers = link.answers[first:]
        for answer in answers:
            assert not errors_in(answer), (kind, errors_in(answer))
        self.costs[kind + self.suffix] = counter.cost(len(requests) - half, peak)
        self.where[kind + self.suffix] = {
            stack: number / (len(requests) - half) for stack, number in counter.where.items()
        }
        return answers

    def group(self, name: str) -> str:
        """Return a group that the first node coordinates. Its name begins with `name`."""
        for number in range(100):
            found = self.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[f"{name}{number}"]))
            if found.coordinators[0].port == PORT:
                return f"{name}{number}"
        raise AssertionError(f"the first node coordinates no group {name}*")

    def partition(self) -> int:
        """Return a partition that the first node leads."""
        (topic,) = self.ask(MetadataRequest([MetadataRequestTopic(name=TOPIC)])).topics
        led: int = min(row.partition_index for row in topic.partitions if row.leader_id == FIRST)
        return led

    def join(self, group: str, link: Link | None = None) -> tuple[str, int]:
        """Join a classic group as its only member; return the member id and the generation."""
        link = link or self.link
        first = link.ask(join(group))
        joined = link.ask(join(group, first.member_id))
        assert joined.error_code == 0
        link.ask(sync(group, joined.member_id, joined.generation_id))
        return joined.member_id, joined.generation_id

    def close(self) -> None:
        self.node.close()


# ---- requests


def join(group: str, member: str = "") -> JoinGroupRequest:
    """Return a member's request to join."""
    subscription = b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff"
    protocols = [JoinGroupRequestProtocol("range", subscription)]
    return JoinGroupRequest(group, SESSION_MS, SESSION_MS, member, None, "consumer", protocols, None)


def sync(group: str, member: str, generation: int) -> SyncGroupRequest:
    """Return a leader's request to share out the partitions."""
    given = [SyncGroupRequestAssignment(member, ASSIGNMENT)]
    return SyncGroupRequest(group, generation, member, None, "consumer", "range", given)


def commit(group: str, topic_id: bytes, offset: int, partitions: int = 1, first: int = 0) -> Message:
    """Return a commit without a member."""
    rows = [offset_commit.OffsetCommitRequestPartition(first + i, offset, -1, "") for i in range(partitions)]
    return offset_commit.OffsetCommitRequest(group, topics=[offset_commit.OffsetCommitRequestTopic("", topic_id, rows)])


def fetching(topic_id: bytes, max_bytes: int, isolation: int = 0, partition: int = 0) -> Message:
    """Return a Fetch of one partition from its start, without a session."""
    topic = fetch.FetchTopic("", topic_id, [fetch.FetchPartition(partition, -1, 0, -1, -1, max_bytes)])
    return fetch.FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=max_bytes, isolation_level=isolation, session_id=0, session_epoch=-1,
        topics=[topic],
    )  # fmt: skip


def producing(
    topic_id: bytes, data: bytes, partitions: Sequence[int] = (0,), transactional: str | None = None
) -> Message:
    """Return a Produce with the same batch to each partition."""
    rows = [produce.PartitionProduceData(i, data) for i in partitions]
    return produce.ProduceRequest(transactional, -1, 30_000, [produce.TopicProduceData("", topic_id, rows)])


def ending(name: str, producer: Any) -> Message:
    """Return the commit of a transaction."""
    return end_txn.EndTxnRequest(name, producer.producer_id, producer.producer_epoch, True)


def beat(group: str, member: str = "member", epoch: int = 0, **more: Any) -> ConsumerGroupHeartbeatRequest:
    """Return a heartbeat of a member of a consumer group; with epoch 0 it joins."""
    if not epoch:
        more = {"rebalance_timeout_ms": SESSION_MS, "subscribed_topic_names": [TOPIC]} | more
        more["topic_partitions"] = []
    return ConsumerGroupHeartbeatRequest(group, member, epoch, **more)


def streams_beat(group: str, epoch: int = 0) -> StreamsGroupHeartbeatRequest:
    """Return a heartbeat of the only member of a streams group; with epoch 0 it joins."""
    if epoch:
        return StreamsGroupHeartbeatRequest(group, "member", epoch)
    topology = Topology(0, [Subtopology("0", [TOPIC])])
    return StreamsGroupHeartbeatRequest(
        group, "member", 0, rebalance_timeout_ms=SESSION_MS, topology=topology, active_tasks=[], standby_tasks=[],
        warmup_tasks=[], process_id="process",
    )  # fmt: skip


def settled(scene: Scene, group: str) -> int:
    """Let the only member of a streams group join, and get its tasks, which are computed in a thread. Its epoch."""
    answer = scene.ask(streams_beat(group))
    while answer.status:
        scene.node.rest(REST_MS)
        answer = scene.ask(streams_beat(group, answer.member_epoch))
    return int(answer.member_epoch)


# ---- scenes


def everyday(scene: Scene, topic_id: bytes) -> None:
    """What a consumer and a producer ask again and again."""
    count = scene.count
    a, b, c, d, k, m = map(scene.group, ("a", "b", "c", "d-longer", "k", "m"))
    partition = scene.partition()
    member, generation = scene.join(a)
    other, other_generation = scene.join(b)
    beats = [HeartbeatRequest(*one) for one in ((a, generation, member), (b, other_generation, other))]
    fresh = scene.connect()
    count("heartbeat, first of a connection", beats[:1], link=fresh)
    count("heartbeat, second of a connection", beats[:1], link=fresh)
    scene.ask(beats[0])
    count("heartbeat, alike", beats[:1] * REPEATS)
    count("heartbeat, not alike", beats * REPEATS)
    count("commit, first of a connection", [commit(c, topic_id, 1)], link=scene.connect())
    for offset in range(3):
        scene.ask(commit(c, topic_id, offset))
    count("commit, alike", [commit(c, topic_id, offset) for offset in range(REPEATS)])
    count("commit, not alike", [commit(name, topic_id, i) for i in range(REPEATS) for name in (c, d)])
    again = [beat(group, epoch=scene.ask(beat(group)).member_epoch) for group in (k, m)]
    for request in again * 2:
        scene.ask(request)
    scene.ask(again[0])
    scene.ask(again[0])
    count("consumer group heartbeat, alike", again[:1] * REPEATS)
    count("consumer group heartbeat, not alike", again * REPEATS)
    tasks = [streams_beat(group, settled(scene, group)) for group in map(scene.group, ("s", "t"))]
    for task_beat in tasks * 4:
        scene.ask(task_beat)
    scene.ask(tasks[0])
    scene.ask(tasks[0])
    count("streams group heartbeat, alike", tasks[:1] * REPEATS)
    count("streams group heartbeat, not alike", tasks * REPEATS)
    small = batch(b"x" * 100)
    for _ in range(2):
        scene.ask(producing(topic_id, small, (partition,)))
    count("produce, 100 B", [producing(topic_id, small, (partition,))] * REPEATS)
    count("fetch, small", [fetching(topic_id, 400, partition=partition)] * REPEATS)


def commits_and_offsets(scene: Scene, topic_id: bytes) -> None:
    """Larger commits, and what a consumer asks before it reads."""
    count = scene.count
    for size in (10, 50, 400, 1000):
        scene.ask(commit("c", topic_id, 0, size))
        count(f"commit, {size:,} partitions", [commit("c", topic_id, i + 1, size) for i in range(4)])
    ten = [commit(name, topic_id, 0, 10) for name in ("c", "d-longer")]
    for request in ten * 2:
        scene.ask(request)
    count("commit, 10 partitions, not alike", ten * REPEATS)
    rows = [offset_fetch.OffsetFetchRequestTopics("", topic_id, [0])]
    one = offset_fetch.OffsetFetchRequest(groups=[offset_fetch.OffsetFetchRequestGroup("c", None, -1, rows)])
    scene.ask(one)
    count("offset fetch, one partition", [one] * REPEATS)
    every = offset_fetch.OffsetFetchRequest(groups=[offset_fetch.OffsetFetchRequestGroup("c", None, -1, None)])
    count("offset fetch, all of 1,000 partitions", [every] * 2)
    ends = list_offsets.ListOffsetsRequest(
        -1, 0, [list_offsets.ListOffsetsTopic(TOPIC, [list_offsets.ListOffsetsPartition(0, -1, -1)])]
    )
    scene.ask(ends)
    count("list offsets, the end of one partition", [ends] * REPEATS)


def connections(scene: Scene, topic_id: bytes) -> None:
    """What a client asks first, and administration."""
    count = scene.count
    for version in (4, 3):
        hello = ApiVersionsRequest("client", "1.0")
        scene.ask(hello, version)
        count(f"api versions {version}", [hello] * 4, version)
    metadata = MetadataRequest([MetadataRequestTopic(name=TOPIC)])
    scene.ask(metadata)
    count("metadata, one topic of 1,000 partitions", [metadata] * 4)
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=["a"])
    scene.ask(find)
    count("find coordinator", [find] * REPEATS)
    new = [CreateTopicsRequest([CreatableTopic(f"t{i}", 1, 1)]) for i in range(5)]
    scene.ask(new[0])
    count("create a topic", new[1:])
    gone = [DeleteTopicsRequest([DeleteTopicState(f"t{i}")], timeout_ms=30_000) for i in range(5)]
    scene.ask(gone[0])
    count("delete a topic", gone[1:])
    configs = DescribeConfigsRequest([DescribeConfigsResource(2, TOPIC, None)])
    scene.ask(configs)
    count("describe the configs of a topic", [configs] * 4)


def classic_groups(scene: Scene, topic_id: bytes) -> None:
    """The requests of a classic group of one member, from its first join to its end."""
    count = scene.count
    scene.join("warm")
    ids = [scene.ask(join(f"g{i}")).member_id for i in range(4)]
    joined = count("join, the only member of a new group", [join(f"g{i}", ids[i]) for i in range(4)])
    count("sync, the leader", [sync(f"g{i}", ids[i], joined[i].generation_id) for i in range(4)])
    count("join again, a leader of a stable group", [join(f"g{i}", ids[i]) for i in range(4)])
    count("describe a group", [DescribeGroupsRequest([f"g{i}"]) for i in range(4)])
    count("list groups", [ListGroupsRequest()] * 4)
    count("leave", [LeaveGroupRequest(f"g{i}", members=[MemberIdentity(ids[i])]) for i in range(4)])


def consumer_groups(scene: Scene, topic_id: bytes) -> None:
    """A consumer group of one member and of two."""
    count = scene.count
    scene.ask(beat("warm"))
    count("consumer group, the first member joins", [beat(f"k{i}") for i in range(4)])
    count("consumer group, the second member joins", [beat(f"k{i}", "second") for i in range(4)])
    count("consumer group, describe", [ConsumerGroupDescribeRequest([f"k{i}"]) for i in range(4)])
    count("consumer group, a member leaves", [beat(f"k{i}", "second", -1) for i in range(4)])


def data(scene: Scene, topic_id: bytes) -> None:
    """Records of several sizes."""
    count = scene.count
    large = batch(bytes(1_000_000))
    scene.ask(producing(topic_id, large))
    count("produce, 1 MB", [producing(topic_id, large)] * 4)
    count("fetch, 1 MB", [fetching(topic_id, 1 << 20)] * 4)
    count("fetch, 4 KB asked and 1 MB there, committed only", [fetching(topic_id, 4096, 1)] * 4)
    middle = producing(topic_id, batch(bytes(4_000)), (50,))
    for _ in range(4):
        scene.ask(middle)
    count("fetch, 4 KB", [fetching(topic_id, 4096, partition=50)] * REPEATS)
    count("fetch, 4 KB, committed only", [fetching(topic_id, 4096, 1, 50)] * REPEATS)
    small = batch(b"x" * 100)
    ten = producing(topic_id, small, range(1, 11))
    scene.ask(ten)
    count("produce, 10 partitions", [ten] * 4)
    many = batch(*[b"x" * 100] * 100)
    scene.ask(producing(topic_id, many, (20,)))
    count("produce, 100 records", [producing(topic_id, many, (20,))] * 4)
    partitions = [fetch.FetchPartition(i, -1, 0, -1, -1, 1 << 20) for i in range(30, 40)]
    opened = scene.ask(
        fetch.FetchRequest(
            max_wait_ms=0, min_bytes=0, session_id=0, session_epoch=0,
            topics=[fetch.FetchTopic("", topic_id, partitions)],
        )
    )  # fmt: skip
    polls = [
        fetch.FetchRequest(max_wait_ms=0, min_bytes=0, session_id=opened.session_id, session_epoch=epoch)
        for epoch in range(1, 9)
    ]
    count("fetch, nothing new in a session of 10 partitions", polls)


def transactions(scene: Scene, topic_id: bytes) -> None:
    """The steps of transactions of version 2, and of version 1."""
    count = scene.count
    scene.ask(InitProducerIdRequest("warm", 60_000))
    count("init producer id", [InitProducerIdRequest(f"t{i}", 60_000) for i in range(4)])
    scene.node.rest(500)
    producers = [scene.ask(InitProducerIdRequest(f"x{i}", 60_000)) for i in range(4)]

    def records(i: int, epoch: int) -> bytes:
        return batch(
            b"v", producer_id=producers[i].producer_id, producer_epoch=epoch, base_sequence=0, transactional=True
        )

    def offsets(i: int, epoch: int) -> Message:
        rows = [txn_offset_commit.TxnOffsetCommitRequestPartition(0, 5, -1, "")]
        topics = [txn_offset_commit.TxnOffsetCommitRequestTopic(TOPIC, partitions=rows)]
        return txn_offset_commit.TxnOffsetCommitRequest(
            f"x{i}", "tg", producers[i].producer_id, epoch, -1, "", None, topics
        )

    ids = range(len(producers))
    for epoch, (first, rest) in enumerate((("first", ""), ("later", "later "))):
        count(f"transaction, {first} produce", [producing(topic_id, records(i, epoch), (i,), f"x{i}") for i in ids])
        count(f"transaction, {rest}offset commit", [offsets(i, epoch) for i in ids], 5)
        ends = [end_txn.EndTxnRequest(f"x{i}", producers[i].producer_id, epoch, True) for i in ids]
        count(f"transaction, {rest}end", ends)
        scene.node.rest(500)
    old = [scene.ask(InitProducerIdRequest(f"y{i}", 60_000), 2) for i in range(4)]
    count(
        "transaction of version 1, add partitions",
        [
            add_partitions_to_txn.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=f"y{i}", v3_and_below_producer_id=one.producer_id,
                v3_and_below_producer_epoch=one.producer_epoch,
                v3_and_below_topics=[add_partitions_to_txn.AddPartitionsToTxnTopic(TOPIC, [100 + i])],
            )
            for i, one in enumerate(old)
        ], 3,
    )  # fmt: skip
    count(
        "transaction of version 1, add offsets",
        [
            add_offsets_to_txn.AddOffsetsToTxnRequest(f"y{i}", one.producer_id, one.producer_epoch, "tg")
            for i, one in enumerate(old)
        ],
        3,
    )
    count("transaction of version 1, end", [ending(f"y{i}", one) for i, one in enumerate(old)], 3)


def plain_node() -> Scene:
    """A node with default settings."""
    return Scene(dict(PLAIN))


def with_acls() -> Scene:
    """Everybody authenticates, and each request is authorized by access control entries."""
    scene = Scene(dict(ACLS), user="alice", suffix=", with ACLs")
    rules = [create_acls.AclCreation(kind, "*", 3, "User:alice", "*", 2, 3) for kind in (2, 3, 5)]
    rules.append(create_acls.AclCreation(4, "kafka-cluster", 3, "User:alice", "*", 2, 3))
    answer = scene.connect("root").ask(create_acls.CreateAclsRequest(rules))
    assert not errors_in(answer)
    return scene


def with_quotas() -> Scene:
    """Clients have quotas, which they do not reach."""
    scene = Scene(dict(PLAIN), suffix=", with quotas")
    entity = [alter_client_quotas.AlterClientQuotasRequestEntityData("client-id", None)]
    values = [
        alter_client_quotas.OpData(key, 1e12, False)
        for key in ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
    ]
    rows = [alter_client_quotas.AlterClientQuotasRequestEntryData(entity, values)]
    assert not errors_in(scene.ask(alter_client_quotas.AlterClientQuotasRequest(rows)))
    return scene


def with_metrics() -> Scene:
    """Requests are counted for `--metrics`."""
    return Scene(dict(PLAIN), observer=ServerMetrics(), suffix=", with metrics")


def with_nodes() -> Scene:
    """The node is one of three in the process."""
    return Scene(PLAIN | {"muster.nodes": "3", "offsets.topic.num.partitions": "6"}, suffix=", with nodes")


def with_cluster() -> Scene:
    """The node is in a cluster, whose shared log is a database. A database write counts as a sync."""
    return Scene({}, node=ClusterNode(PLAIN), suffix=", with cluster")


SCENES: Final[dict[str, tuple[Callable[[], Scene], Callable[[Scene, bytes], None]]]] = {
    "everyday": (plain_node, everyday),
    "everyday, with ACLs": (with_acls, everyday),
    "everyday, with quotas": (with_quotas, everyday),
    "everyday, with metrics": (with_metrics, everyday),
    "everyday, with nodes": (with_nodes, everyday),
    "commits and offsets": (plain_node, commits_and_offsets),
    "connections": (plain_node, connections),
    "classic groups": (plain_node, classic_groups),
    "consumer groups": (plain_node, consumer_groups),
    "data": (plain_node, data),
    "transactions": (plain_node, transactions),
    "everyday, with cluster": (with_cluster, everyday),
    "classic groups, with cluster": (with_cluster, classic_groups),
    "transactions, with cluster": (with_cluster, transactions),
}
"""By name: how the node is made, and the requests that are counted on it."""


def costs_of(name: str) -> dict[str, Cost]:
    """Play a scene; return the costs by kind of request."""
    return played(name).costs


def played(name: str) -> Scene:
    """Play a scene twice, and return the second one: the first one in a process fills some tables."""
    make, play = SCENES[name]
    with undisturbed():
        for _ in range(2):
            scene = make()
            try:
                play(scene, scene.prepare())
            finally:
                scene.close()
    return scene


@contextmanager
def quiet() -> Iterator[None]:
    """Log nothing but what a server logs by default, and drop its lines: their text is no part of the cost.

    Garbage collections visit only what is made from now on. There are many, and they took most of the time.
    """
    gc.collect()
    gc.freeze()
    before = structlog.get_config()
    structlog.configure(processors=[_drop], wrapper_class=structlog.make_filtering_bound_logger(20))
    try:
        yield
    finally:
        structlog.configure(**before)


def _drop(*_: object) -> str:
    raise structlog.DropEvent


@contextmanager
def undisturbed() -> Iterator[None]:
    """Inside the block a node does nothing at intervals: such work would count for the request during which it
    happens.
    """
    with (
        patch.object(maintenance, "CHECK_EVERY_MS", NEVER),
        patch.object(partition_maintenance, "CHECK_EVERY_MS", NEVER),
    ):
        yield
