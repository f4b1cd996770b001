"""Random histories on two nodes. One node caches repeated requests, and both nodes send the same bytes.

After each step the two nodes are compared. Equal are the answers with connection and order, the errors, the waiting
requests, the log with its leader epochs, and the committed offsets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from structlog.testing import capture_logs

from muster.conform.player.stage import subscription
from muster.coordinator.api.layers import CloseConnection
from muster.protocol import frames
from muster.protocol.api import ApiKey, api
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from muster.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequestTopicPartitions as TopicPartitions,
)
from muster.protocol.messages.delete_groups import DeleteGroupsRequest
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from muster.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from muster.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from muster.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, Topology
from muster.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequestEndpoint as Endpoint
from muster.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequestTaskIds as TaskIds
from muster.protocol.messages.sync_group import SyncGroupRequest
from tests.coordinator.api.cached_requests.peer import COMMIT, HEARTBEAT, Peer, commit
from tests.coordinator.api.harness import FakeTopics, make_channel

JOIN, SYNC, LEAVE = ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.LEAVE_GROUP
CONSUMER_HEARTBEAT, STREAMS_HEARTBEAT = ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT
PROTOCOLS = {CONSUMER_HEARTBEAT: "consumer", STREAMS_HEARTBEAT: "streams"}
CONNECTIONS = 3
SESSION_MS = 6_000, 10_000
FULL_DISK = OSError(28, "No space left on device")
prepared: Counter[str] = Counter()
"""How many requests took the cached path."""
kinds: Counter[str] = Counter()
"""How often a group changed its protocol: before and after."""


class Connection:
    """One of a peer's connections; `answers` has all answers of the whole peer, in their order."""

    def __init__(self, peer: Peer, number: int, answers: list[tuple[int, bytes]]) -> None:
        self.number, self.answers = number, answers
        self.requests: Any = peer.dispatcher.open(make_channel(), self)

    def answer(self, answer: Any) -> None:
        self.answers.append((self.number, answer if isinstance(answer, bytes) else b"".join(answer)))

    def request_decoded(self) -> None:
        """Do nothing: no memory is counted."""

    def fail(self, refused: CloseConnection) -> None:
        self.answers.append((self.number, refused.reason.encode()))

    def send(self, data: bytes) -> None:
        answer = self.requests.handle(data, 4, len(data))
        if answer is not None:
            self.answer(answer)
        cached = self.requests.cached
        if cached is not None:
            name = type(cached).__name__
            protocol = PROTOCOLS.get(cached.route.api.key) if name == "CachedHeartbeat" else None
            prepared[name if protocol is None else f"{name} of the {protocol} protocol"] += 1


class Side:
    """One of the two nodes."""

    def __init__(self, *, caches: bool, linger_ms: int) -> None:
        self.peer = Peer(caches=caches, linger_ms=linger_ms)
        self.answers: list[tuple[int, bytes]] = []
        self.connections = [Connection(self.peer, number, self.answers) for number in range(CONNECTIONS)]

    def reconnect(self, number: int) -> None:
        self.connections[number].requests.closed()
        self.connections[number] = Connection(self.peer, number, self.answers)

    def set_image(self, topics: FakeTopics) -> None:
        self.peer.node.topics.image = topics.image
        self.peer.shard.topics_changed(topics.image)

    def resign_or_lead(self) -> None:
        if self.peer.shard.active:
            self.peer.shard.runtime.resign()
        else:
            self.peer.epoch += 1
            list(self.peer.shard.runtime.start())

    def fail(self, error: Exception | None) -> None:
        self.peer.log.fail = error

    @property
    def kind(self) -> str | None:
        """The protocol of the group. None without a group, or without a leader."""
        core = self.peer.shard.runtime.core
        group = None if core is None else core.state.groups.get("g")
        return None if group is None else group.kind

    def visible(self) -> Any:
        core, log = self.peer.shard.runtime.core, self.peer.log
        offsets = None if core is None else core.state.offsets
        return (
            self.answers,
            [connection.requests.current is not None for connection in self.connections],
            (log.rows, log.epochs, log.durable_offset),
            offsets and {topic: dict(offsets.topics("g")[topic]) for topic in offsets.topics("g")},
            self.peer.shard.runtime.state_error,
        )


class Pair:
    """Both sides, and what clients know: the member on each connection, and its last request."""

    subscription = b""

    def __init__(self, linger_ms: int, version: int) -> None:
        self.sides = [Side(caches=caches, linger_ms=linger_ms) for caches in (True, False)]
        self.members: dict[int, str] = {}
        self.generation = 1
        self.last: dict[int, tuple[int, int, Any]] = {}
        self.repeated: dict[int, tuple[int, int, Any]] = {}
        """The last heartbeat or commit on each connection."""
        self.version = version
        self.read = 0
        self.correlation = 0

    def both(self, do: Callable[[Side], object]) -> None:
        before = self.sides[0].kind
        for side in self.sides:
            do(side)
        kinds[f"{before} {self.sides[0].kind}"] += 1
        assert self.sides[0].visible() == self.sides[1].visible()
        answers = self.sides[0].answers
        while self.read < len(answers):
            number, answer = answers[self.read]
            self.read += 1
            key, version, _ = self.last[number]
            if key in (JOIN, HEARTBEAT, *PROTOCOLS):
                _, body = frames.decode_response_header(api(key), version, answer, 4, len(answer))
                self.heard(number, key, api(key).decode_response(version, answer, body))

    def heard(self, number: int, key: int, response: Any) -> None:
        """Go on as clients do: a member that has joined syncs, and a member that is answered REBALANCE_IN_PROGRESS
        joins.
        """
        error = response.error_code
        if key == JOIN and error == 0:
            self.members[number], self.generation = response.member_id, response.generation_id
            self.ask(number, SYNC, 3, SyncGroupRequest("g", response.generation_id, response.member_id))
        elif error == ErrorCode.UNKNOWN_MEMBER_ID:
            self.members.pop(number, None)
        elif error == ErrorCode.REBALANCE_IN_PROGRESS:
            self.join(number)

    def ask(self, number: int, key: int, version: int, request: Any) -> None:
        """Ask both sides. A connection that waits for an answer sends nothing."""
        if self.sides[0].connections[number].requests.current is None:
            self.correlation += 1
            data = frames.request_frame(api(key), version, self.correlation, request, "me")
            self.last[number] = key, version, request
            if key in (COMMIT, HEARTBEAT, *PROTOCOLS):
                self.repeated[number] = key, version, request
            self.both(lambda side: side.connections[number].send(data))

    def join(self, number: int) -> None:
        member = self.members.get(number, "")
        protocols = [JoinGroupRequestProtocol("range", self.subscription)]
        session_ms = SESSION_MS[self.correlation % 2]
        self.ask(number, JOIN, 3, JoinGroupRequest("g", session_ms, 10_000, member, None, "consumer", protocols))
        self.both(lambda side: side.peer.clock.advance(0))


class MixedPair(Pair):
    """The group may also have members of the consumer protocol. Each connection may have a member of each protocol."""

    subscription = subscription(["t1"], {})

    def __init__(self, linger_ms: int, version: int) -> None:
        super().__init__(linger_ms, version)
        self.epochs: dict[int, int] = {}
        """The epochs of members of the consumer protocol, by connection."""

    def enter(self, number: int) -> None:
        self._beat(number, 0, rebalance_timeout_ms=5_000, subscribed_topic_names=["t1"], topic_partitions=[])

    def beat(self, number: int, *, less: int = 0, **more: Any) -> None:
        self._beat(number, self.epochs.get(number, 1) - less, **more)

    def quit(self, number: int) -> None:
        self._beat(number, -1)

    def _beat(self, number: int, epoch: int, **more: Any) -> None:
        request = ConsumerGroupHeartbeatRequest("g", f"c{number}", epoch, **more)
        self.ask(number, CONSUMER_HEARTBEAT, 1, request)

    def heard(self, number: int, key: int, response: Any) -> None:
        if key != CONSUMER_HEARTBEAT:
            super().heard(number, key, response)
        elif response.error_code:
            self.epochs.pop(number, None)
        else:
            self.epochs[number] = response.member_epoch
            if response.assignment is not None:
                rows = [TopicPartitions(one.topic_id, one.partitions) for one in response.assignment.topic_partitions]
                self.beat(number, topic_partitions=rows)


class StreamsPair(Pair):
    """The group is a streams group: each connection may have a member."""

    def __init__(self, linger_ms: int, version: int) -> None:
        super().__init__(linger_ms, version)
        self.epochs: dict[int, tuple[int, int]] = {}
        """The epochs of members and of the endpoints that they know, by connection."""

    def join(self, number: int) -> None:
        topology = Topology(0, [Subtopology("0", ["t1"])])
        none: Any = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
        self._beat(number, 0, 0, rebalance_timeout_ms=5_000, topology=topology, process_id=f"p{number}", **none)

    def beat(self, number: int, **more: Any) -> None:
        self._beat(number, *self.epochs.get(number, (2, 0)), **more)

    def quit(self, number: int) -> None:
        self._beat(number, -1, 0)

    def _beat(self, number: int, epoch: int, endpoints: int, **more: Any) -> None:
        request = StreamsGroupHeartbeatRequest("g", f"s{number}", epoch, endpoints, **more)
        self.ask(number, STREAMS_HEARTBEAT, self.version % 2, request)

    def heard(self, number: int, key: int, response: Any) -> None:
        if response.error_code or response.member_epoch < 0:
            self.epochs.pop(number, None)
            return
        self.epochs[number] = response.member_epoch, response.endpoint_information_epoch
        if response.active_tasks is not None:
            rows = [TaskIds(one.subtopology_id, one.partitions) for one in response.active_tasks]
            self.beat(number, active_tasks=rows, standby_tasks=[], warmup_tasks=[])


def play_streams(pair: StreamsPair, kind: str, number: int, a: int, b: int) -> None:
    if kind == "streams beat":
        for _ in range(1 + a % 3):
            pair.beat(number)
    elif kind == "endpoint":
        pair.beat(number, user_endpoint=Endpoint("h", b))
    elif kind == "quit":
        pair.quit(number)
    else:
        play(pair, kind, number, a, b)


def play_mixed(pair: MixedPair, kind: str, number: int, a: int, b: int) -> None:
    if kind == "enter":
        pair.enter(number)
    elif kind == "consumer beat":
        for _ in range(1 + a % 3):
            pair.beat(number, less=b == 0)
    elif kind == "quit":
        pair.quit(number)
    elif kind == "consumer commit":
        epoch = pair.epochs.get(number, 1) - (b == 0)
        request = commit(("t1", a % 3, b), version=pair.version, member=f"c{number}", generation=epoch)
        pair.ask(number, COMMIT, pair.version, request)
    elif kind == "commit of nobody":
        pair.ask(number, COMMIT, pair.version, commit(("t1", a % 3, b), version=pair.version))
    elif kind == "read":
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)])
        pair.ask(number, ApiKey.OFFSET_FETCH, 9, request)
    elif kind == "delete":
        pair.ask(number, ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(["g"]))
    else:
        play(pair, kind, number, a, b)


USUAL = {"beat": 20, "commit": 15, "again": 60, "turn": 20, "synced": 8, "join": 2}
UNUSUAL = {
    "advance": 12, "join": 5, "leave": 8, "topics": 12, "permissions": 3, "sync": 5, "fail": 3, "leadership": 6,
    "reconnect": 3,
}  # fmt: skip
"""Possible events, by how often they happen. Each history has some of the unusual events."""
MIXED = {
    "enter": 6, "consumer beat": 60, "quit": 3, "consumer commit": 15, "commit of nobody": 4, "read": 8, "delete": 2,
    "leave": 4, "beat": 30, "commit": 5, "again": 30, "join": 4,
}  # fmt: skip
"""The same for groups whose members have both protocols: such groups are upgraded, downgraded and deleted."""

STREAMS = {
    "streams beat": 80, "again": 40, "join": 4, "quit": 2, "endpoint": 2, "turn": 20, "synced": 8, "advance": 6
}  # fmt: skip
"""The same for streams groups."""


def play(pair: Pair, kind: str, number: int, a: int, b: int) -> None:
    member = pair.members.get(number, "")
    if kind == "again" and number in pair.repeated:
        key, version, request = pair.repeated[number]
        for _ in range(1 + a % 3):
            if key == COMMIT:
                for topic in request.topics:
                    topic.partitions[0].committed_offset += a
            pair.ask(number, key, version, request)
    elif kind == "beat":
        pair.ask(number, HEARTBEAT, pair.version % 5, HeartbeatRequest("g", pair.generation - (b == 0), member))
    elif kind == "commit":
        rows = [("t1", a % 2, 10 * b), ("t2", b % 3, b), ("no", 0, 1)][: 1 + (a % 3 if b < 2 else a % 2)]
        generation = pair.generation - (b == 0) if member else -1
        request = commit(*rows, version=pair.version, member=member, generation=generation)
        request.topics[0].partitions[0].committed_metadata = "m" * (a * 30)
        pair.ask(number, COMMIT, pair.version, request)
    elif kind == "join":
        pair.join(number)
    elif kind == "leave":
        pair.ask(number, LEAVE, 3, LeaveGroupRequest("g", members=[MemberIdentity(member_id=member)]))
        pair.members.pop(number, None)
    elif kind == "turn":
        pair.both(lambda side: side.peer.clock.advance(5))
    elif kind == "advance":
        pair.both(lambda side: side.peer.clock.advance([0, 1, 5, 100, 3_000, 4_000, 6_000, 9_000, 9_000, 11_000][a]))
    elif kind == "topics":
        pair.both(lambda side: side.set_image(FakeTopics(t1=1 + a % 4, t2=1 + b % 3)))
    elif kind == "permissions":
        pair.both(lambda side: setattr(side.peer.node.authorizer, "version", pair.correlation))
    elif kind == "sync":
        pair.both(lambda side: setattr(side.peer.log, "sync", a < 5))
    elif kind == "synced":
        pair.both(lambda side: side.peer.log.synced(error=FULL_DISK if a == 0 else None))
    elif kind == "fail":
        pair.both(lambda side: side.fail(FULL_DISK if a < 5 else None))
    elif kind == "leadership":
        pair.both(Side.resign_or_lead)
    elif kind == "reconnect":
        pair.both(lambda side: side.reconnect(number))


def history(seed: int) -> None:
    rng = Random(seed)
    pair = Pair(rng.choice([0, 5]), rng.randrange(2, 11))
    weights = USUAL | {kind: UNUSUAL[kind] for kind in rng.sample(list(UNUSUAL), rng.randrange(6))}
    run(pair, play, weights, rng)


def mixed_history(seed: int) -> None:
    rng = Random(seed)
    pair = MixedPair(rng.choice([0, 5]), rng.choice([9, 9, 10, rng.randrange(2, 9)]))
    weights = USUAL | MIXED | {kind: UNUSUAL[kind] for kind in rng.sample(list(UNUSUAL), rng.randrange(6))}
    for kind in rng.sample(list(MIXED), rng.randrange(3)):
        del weights[kind]
    run(pair, play_mixed, weights, rng)


def streams_history(seed: int) -> None:
    rng = Random(seed)
    pair = StreamsPair(rng.choice([0, 5]), rng.randrange(2))
    weights = STREAMS | {kind: UNUSUAL[kind] for kind in rng.sample(list(UNUSUAL), rng.randrange(6)) if kind != "leave"}
    weights.pop("sync", None)
    run(pair, play_streams, weights, rng)


def run(pair: Any, step: Callable[..., None], weights: dict[str, int], rng: Random) -> None:
    with capture_logs():
        pair.join(0)
        connections = rng.randint(1, CONNECTIONS)
        for kind in rng.choices(list(weights), list(weights.values()), k=500):
            step(pair, kind, rng.randrange(connections), rng.randrange(10), rng.randrange(10))
        pair.both(lambda side: side.fail(None))
        pair.both(lambda side: side.peer.log.synced())
        pair.both(lambda side: side.peer.clock.advance(70_000))


@pytest.mark.parametrize("seed", range(60))
def test_a_node_with_cached_requests_sends_the_same_bytes_as_one_without(seed: int) -> None:
    history(seed)


def test_groups_of_both_protocols_get_the_same_bytes_with_cached_requests_as_without() -> None:
    prepared.clear()
    kinds.clear()
    for seed in range(25):
        mixed_history(seed)
    assert prepared["CachedHeartbeat of the consumer protocol"] > 100
    assert prepared["CachedHeartbeat"] > 30
    assert prepared["CachedCommit"] > 20
    assert kinds["classic consumer"] > 20
    assert kinds["consumer classic"] > 10


def test_streams_groups_get_the_same_bytes_with_cached_requests_as_without() -> None:
    prepared.clear()
    for seed in range(4):
        streams_history(seed)
    assert prepared["CachedHeartbeat of the streams protocol"] > 60


def test_the_compared_histories_use_cached_requests() -> None:
    prepared.clear()
    for seed in range(20):
        history(seed)
    assert prepared["CachedHeartbeat"] > 200
    assert prepared["CachedCommit"] > 200
