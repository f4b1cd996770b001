"""One memory for decoded large requests: how many are decoded at once, which requests wait, and which end early."""

from __future__ import annotations

import gc
from functools import partial
from typing import Any, Final

import pytest

from muster.coordinator.api import decoded_requests, registry
from muster.coordinator.api.decoded_requests import (
    AT_ONCE,
    FACTOR,
    MAX_BYTES,
    MAX_OF_ONE,
    PAUSE_MS,
    ROW_BYTES,
    DecodedRequests,
)
from muster.coordinator.api.dispatch import Dispatcher
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.system.jobs import JobQueue
from muster.coordinator.topics.fetch_wait import WATCHED_AT_ONCE
from muster.protocol import frames
from muster.protocol.api import ApiKey, api
from muster.protocol.message import Message
from muster.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from muster.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from muster.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.coordinator.api.data_plane import data_node, fetch_request, send
from tests.coordinator.api.dispatch_harness import Connection, Elsewhere
from tests.coordinator.api.harness import FakeTopics, make_context, make_node
from tests.coordinator.topics.support import add_topic, batch, produce

ROWS: Final = 6_000
MANY: Final = 40


def deleting_records() -> DeleteRecordsRequest:
    return DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(i, 0) for i in range(ROWS)])], 1)


def committing() -> OffsetCommitRequest:
    rows = [OffsetCommitRequestPartition(i, 1, -1, "") for i in range(ROWS)]
    return OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", partitions=rows)])


def creating() -> CreateTopicsRequest:
    return CreateTopicsRequest([CreatableTopic(f"t{i}", 1, 1) for i in range(ROWS)], 1)


class World:
    """Connections to one node. The test decides when its handlers and its thread answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *keys: int) -> None:
        self.clock, self.thread = ManualClock(), Elsewhere()
        self.node = make_node(topics=FakeTopics(), clock=self.clock, job_queue=JobQueue(self.clock, self.thread))
        self.dispatcher = Dispatcher(self.node)
        self.open: list[tuple[Any, Respond]] = []
        self.seen = 0

        def keep(node: Node, context: object, request: Any, respond: Respond) -> None:
            self.seen += 1
            self.open.append((request, respond))

        for key in keys:
            monkeypatch.setitem(registry._loaded, key, keep)

    def connect(self, host: str = "/1") -> Connection:
        connection = Connection(dispatcher=self.dispatcher)
        connection.channel.host = host
        return connection

    def work(self) -> None:
        """Do all work that can be done now."""
        for _ in range(3):
            while self.thread.waiting:
                self.thread.do()
            self.clock.advance(PAUSE_MS)

    def answer(self, response: Message) -> None:
        _, respond = self.open.pop(0)
        respond(response)


@pytest.mark.parametrize(
    ("key", "version", "make"),
    [
        (ApiKey.DELETE_RECORDS, 2, deleting_records),
        (ApiKey.OFFSET_COMMIT, 9, committing),
        (ApiKey.CREATE_TOPICS, 7, creating),
    ],
)
def test_few_of_many_large_requests_are_decoded_at_the_same_time(
    key: int, version: int, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(monkeypatch, key)
    world.node.decoded_requests = DecodedRequests(world.clock, 16 << 20)
    connections = [world.connect() for _ in range(MANY)]
    asked = frames.request_frame(api(key), version, 5, make(), "me")
    for connection in connections:
        connection.receive(asked)
    most = rounds = 0
    while world.seen < MANY or world.open:
        world.work()
        rows = [sum(len(getattr(topic, "partitions", "x")) for topic in one.topics) for one, _ in world.open]
        most = max(most, sum(rows))
        assert world.node.decoded_requests.bytes <= 16 << 20
        world.answer(CreateTopicsResponse() if key == ApiKey.CREATE_TOPICS else None)
        rounds += 1
        assert rounds < 1_000
    assert ROWS < most <= 8 * ROWS
    world.work()
    assert world.node.decoded_requests.bytes == 0
    assert all(connection.answers for connection in connections)


def full(monkeypatch: pytest.MonkeyPatch, *keys: int) -> World:
    """One large request fills all of the memory."""
    world = World(monkeypatch, ApiKey.DELETE_RECORDS, *keys)
    monkeypatch.setattr(decoded_requests, "FACTOR", MAX_BYTES)
    monkeypatch.setattr(decoded_requests, "MAX_OF_ONE", MAX_BYTES)
    world.connect().ask(ApiKey.DELETE_RECORDS, 2, deleting_records())
    world.work()
    assert world.node.decoded_requests.bytes == MAX_BYTES
    return world


def test_a_small_request_does_not_wait_for_large_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    world = full(monkeypatch)
    world.connect().ask(ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest([]))
    assert world.seen == 2


def test_waiting_large_requests_are_decoded_in_turn_by_client_address(monkeypatch: pytest.MonkeyPatch) -> None:
    world = full(monkeypatch)
    hosts = ["/1", "/1", "/1", "/2"]
    connections = [world.connect(host) for host in hosts]
    for connection in connections:
        connection.ask(ApiKey.DELETE_RECORDS, 2, deleting_records())
    order = []
    for _ in hosts:
        world.answer(None)
        world.work()
        (order_now,) = [i for i, one in enumerate(connections) if one.requests.current is not None
                        and not one.requests.is_reading]  # fmt: skip
        order.append(hosts[order_now])
    assert order == ["/1", "/2", "/1", "/1"]


def test_a_waiting_request_of_a_closed_connection_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    world = full(monkeypatch)
    gone, stays = world.connect(), world.connect()
    for connection in (gone, stays):
        connection.ask(ApiKey.DELETE_RECORDS, 2, deleting_records())
    gone.requests.closed()
    gone.channel.close()
    world.answer(None)
    world.work()
    assert world.seen == 2
    assert stays.requests.current is not None


def test_a_request_of_a_closed_connection_counts_until_nothing_refers_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    world = full(monkeypatch)
    gone = world.connect()
    world.answer(None)
    gone.ask(ApiKey.DELETE_RECORDS, 2, deleting_records())
    world.work()
    gone.requests.closed()
    gone.channel.close()
    assert world.node.decoded_requests.bytes == MAX_BYTES
    gc.disable()
    try:
        world.open.clear()
        assert world.node.decoded_requests.bytes == 0
    finally:
        gc.enable()


def test_a_handler_that_ends_after_its_connection_releases_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    world = full(monkeypatch)
    gone = world.connect()
    world.answer(None)
    gone.ask(ApiKey.DELETE_RECORDS, 2, deleting_records())
    world.work()
    gone.requests.closed()
    gone.channel.close()
    _, respond = world.open[0]
    respond(None)
    world.work()
    assert world.node.decoded_requests.bytes == 0


def test_a_join_counts_as_decoded_until_its_group_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, ApiKey.JOIN_GROUP)
    protocols = [JoinGroupRequestProtocol("range", bytes(300_000))]
    joins = [world.connect() for _ in range(100)]
    for connection in joins:
        connection.ask(ApiKey.JOIN_GROUP, 9, JoinGroupRequest("g", 1_000, 1_000, "", None, "consumer", protocols))
    while world.seen < len(joins):
        world.work()
    assert world.node.decoded_requests.bytes == 0
    for _ in joins:
        world.answer(JoinGroupResponse())
    assert all(connection.answers for connection in joins)


@pytest.mark.parametrize(("rows", "is_counted"), [(10, False), (ROWS, True)])
def test_records_of_a_produce_request_are_not_counted_as_elements(
    rows: int, is_counted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(monkeypatch, ApiKey.PRODUCE)
    data = bytes(registry.RECORDS_LARGE_BYTES // rows + 1)
    topics = [TopicProduceData("t", partition_data=[PartitionProduceData(i, data) for i in range(rows)])]
    connection = world.connect()
    connection.ask(ApiKey.PRODUCE, 9, ProduceRequest(None, 1, 1, topics))
    world.work()
    assert world.seen == 1
    assert (world.node.decoded_requests.bytes > 0) == is_counted


def test_the_largest_request_is_counted_as_at_most_the_whole_memory() -> None:
    requests = DecodedRequests(ManualClock(), 100)
    first = requests.take(1 << 30, "/1")
    assert requests.bytes == first.bytes == 100
    first.release()
    first.release()
    assert requests.bytes == 0
    assert DecodedRequests(ManualClock()).take(1 << 30, "/1").bytes == MAX_OF_ONE
    assert DecodedRequests(ManualClock()).take(10, "/1").bytes == 10 * FACTOR


# ---- Fetches that wait


PARTITIONS: Final = WATCHED_AT_ONCE * 2


def waiting_node() -> Node:
    node = data_node()
    add_topic(node.topics, "a", PARTITIONS)
    return node


def wait(node: Node, rows: int = PARTITIONS) -> Any:
    request = fetch_request(node, *[("a", i, 0) for i in range(rows)], max_wait_ms=100_000)
    context = make_context(1, 13)
    return send(node, request, 13, context), context, request


def advance(node: Node, ms: int) -> None:
    assert isinstance(node.clock, ManualClock)
    node.clock.advance(ms)


def test_parked_fetches_count_their_rows_and_the_oldest_end_when_there_are_too_many() -> None:
    node = waiting_node()
    node.decoded_requests = DecodedRequests(node.clock, 3 * PARTITIONS * ROW_BYTES)
    waiting = [wait(node) for _ in range(3)]
    advance(node, PAUSE_MS)
    assert node.decoded_requests.bytes == 3 * PARTITIONS * ROW_BYTES
    assert not any(answers.all for answers, _, _ in waiting)
    assert not any(request.topics for _, _, request in waiting)
    waiting += [wait(node) for _ in range(2)]
    advance(node, 3 * PAUSE_MS)
    assert node.decoded_requests.bytes <= 3 * PARTITIONS * ROW_BYTES
    ended = [len(answers.all) for answers, _, _ in waiting]
    assert ended[:2] == [1, 1]
    assert ended[-1] == 0
    partition = node.topics.open.partition("a", 7)
    assert partition is not None
    produce(partition, batch(b"x"), node.clock.now())
    assert all(answers.all for answers, _, _ in waiting)
    advance(node, 2 * PAUSE_MS)
    assert node.decoded_requests.bytes == 0


def test_the_rows_of_small_parked_fetches_are_not_counted() -> None:
    node = waiting_node()
    answers, _, _ = wait(node, WATCHED_AT_ONCE)
    assert node.decoded_requests.bytes == 0
    assert not answers.all


def test_a_large_parked_fetch_ends_when_others_need_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    node = waiting_node()
    node.decoded_requests = DecodedRequests(node.clock, 10_000)
    decoded = node.decoded_requests.take(10_000, "/1")
    request = fetch_request(node, *[("a", i, 0) for i in range(PARTITIONS)], max_wait_ms=100_000)
    context = make_context(1, 13)
    context.channel.large_request = decoded
    answers = send(node, request, 13, context)
    advance(node, 10 * PAUSE_MS)
    assert not answers.all
    begun: list[int] = []
    others = [node.decoded_requests.take(10_000, "/2") for _ in range(AT_ONCE)]
    for number, other in enumerate(others):
        other.when_available(partial(begun.append, number))
    advance(node, PAUSE_MS)
    assert len(answers.all) == 1
    decoded.release()  # as its exchange does
    advance(node, PAUSE_MS)
    assert begun == [0]


def test_many_fetches_that_end_together_are_removed_from_their_partitions_in_steps() -> None:
    node = waiting_node()
    waiting = [wait(node) for _ in range(3)]
    partition = node.topics.open.partition("a", 0)
    last = node.topics.open.partition("a", PARTITIONS - 1)
    assert partition is not None
    assert last is not None
    node.job_queue._used_ms = 1_000  # the share of this iteration is used
    for _, context, _ in waiting:
        context.channel.close()
    assert len(last._waiting) == 3
    produce(last, batch(b"x"), node.clock.now())
    advance(node, 100)
    assert not last._waiting
    assert not partition._waiting
    assert not any(answers.all for answers, _, _ in waiting)
    assert node.decoded_requests.bytes == 0
