"""Questions that nodes ask each other through the database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from muster.coordinator.log.records.markers import EndMarker
from muster.coordinator.runtime.routing import Routing
from muster.coordinator.share.in_flight import Row
from muster.coordinator.share_state.persister import (
    LoadedState,
    ReadState,
    ReadSummary,
    StateKey,
    StateResponse,
    Summary,
    WriteState,
)
from muster.coordinator.state_machine.interface import Client
from muster.coordinator.system.clock import LoopClock
from muster.coordinator.system.jobs import Job, JobQueue
from muster.coordinator.topics.cluster_image import Leader
from muster.coordinator.transactions.commands import PartitionErrors, PartitionsAsked, TransactionCommand
from muster.postgres import node_messages
from muster.postgres.node_messages import NodeMessages
from muster.postgres.store import StoreAway
from muster.protocol.errors import ErrorCode
from muster.virtual.world import World
from tests.postgres.stores import TableStore, table_store

MARKER = EndMarker(7, 2, True, 3, 2)
LEADERS = {
    "orders": (Leader(1, 5), Leader(2, 5), Leader(-1, 5)),
    "__transaction_state": (Leader(2, 1),),
    "__share_group_state": (Leader(2, 1),),
}


class Writer:
    """Replaces `MarkerWriter`: it notes the markers, and answers `code`."""

    code = 0

    def __init__(self, *_: object) -> None:
        self.written: list[tuple[EndMarker, str, int]] = []

    def writing(self, marker: EndMarker, topic: str, index: int, ended: Callable[[int], object]) -> Job[None]:
        yield None
        self.written.append((marker, topic, index))
        ended(self.code)


class Side:
    """One node."""

    def __init__(self, node_id: int, store: TableStore) -> None:
        clock = LoopClock(asyncio.get_running_loop())
        self.box = NodeMessages(node_id, store, clock)
        self.asked: list[TransactionCommand] = []
        node: Any = SimpleNamespace(
            topics=SimpleNamespace(open=None, by_name={"orders": None}),
            routing=SimpleNamespace(shards=()),
            clock=clock,
            job_queue=JobQueue(clock),
            cluster=SimpleNamespace(leaders=LEADERS),
            transactions=SimpleNamespace(routing=Routing(("shard",)), submit=lambda _, command: self._submit(command)),
        )
        self.box.begin(node)

    def _submit(self, command: TransactionCommand) -> None:
        self.asked.append(command)
        request: Any = command.request
        command.respond(PartitionErrors(request, {("orders", 1): ErrorCode.INVALID_TXN_STATE}))

    @property
    def writer(self) -> Any:
        return self.box._writer


@pytest.fixture
def store() -> TableStore:
    return table_store(World(Random(1)))


@pytest.fixture(autouse=True)
def writers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_messages, "MarkerWriter", Writer)


async def until(holds: Callable[[], bool], *sides: Side) -> None:
    """Check as often as needed until the condition holds."""
    while not holds():
        for side in sides:
            await side.box.check()
        await asyncio.sleep(0)


async def test_markers_are_sent_to_the_leader(store: TableStore) -> None:
    box = Side(1, store).box
    assert [box.leads("orders", index) for index in (0, 1, 2, 3)] == [None, 2, None, None]
    assert box.leads("unknown", 0) is None


async def test_markers_of_one_write_are_sent_together(store: TableStore) -> None:
    one, two = Side(1, store), Side(2, store)
    ended: list[int] = []
    one.box.mark(2, MARKER, "orders", 1, ended.append)
    one.box.mark(2, MARKER, "__consumer_offsets", 0, ended.append)
    await until(lambda: bool(store.tables.boxes))
    assert len(store.tables.boxes[2]) == 1
    await until(lambda: len(ended) == 2, one, two)
    assert ended == [0, 0]
    assert two.writer.written == [(MARKER, "orders", 1), (MARKER, "__consumer_offsets", 0)]


async def test_a_node_that_does_not_lead_or_know_the_topic_is_asked_again(
    store: TableStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = Side(1, store), Side(2, store)
    monkeypatch.setattr(Writer, "code", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    ended: list[int] = []
    one.box.mark(2, MARKER, "orders", 1, ended.append)
    one.box.mark(2, MARKER, "orders", 0, ended.append)
    await until(lambda: len(ended) == 2, one, two)
    assert ended == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    assert two.writer.written == [(MARKER, "orders", 1)]


def question(answers: list[Any], topic: str = "orders") -> TransactionCommand:
    asked = PartitionsAsked("t", 7, 2, True, {topic: [0, 1]})
    return TransactionCommand(asked, answers.append, Client("c", "/h"), 2)


async def test_partitions_of_a_transaction_are_asked_for(store: TableStore) -> None:
    one, two = Side(1, store), Side(2, store)
    answers: list[Any] = []
    one.box.ask(2, question(answers))
    await until(lambda: bool(answers), one, two)
    assert answers[0].errors == {("orders", 1): ErrorCode.INVALID_TXN_STATE}
    (command,) = two.asked
    asked: Any = command.request
    assert (asked.transactional_id, asked.producer_id, asked.producer_epoch, asked.verify_only) == ("t", 7, 2, True)
    assert (asked.topics, command.client.client_id, command.client_transaction_version) == ({"orders": [0, 1]}, "c", 2)


async def test_a_node_that_does_not_coordinate_the_id_refuses(store: TableStore) -> None:
    one, three = Side(1, store), Side(3, store)
    answers: list[Any] = []
    one.box.ask(3, question(answers))
    await until(lambda: bool(answers), one, three)
    assert set(answers[0].errors.values()) == {ErrorCode.NOT_COORDINATOR}
    assert not three.asked


async def test_an_unknown_topic_is_not_part_of_a_transaction(store: TableStore) -> None:
    one, two = Side(1, store), Side(2, store)
    answers: list[Any] = []
    one.box.ask(2, question(answers, "new"))
    await until(lambda: bool(answers), one, two)
    assert answers[0].errors == dict.fromkeys([("new", 0), ("new", 1)], ErrorCode.NOT_COORDINATOR)
    assert not two.asked


async def test_a_node_that_does_not_answer_is_given_up(store: TableStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_messages, "WAIT_MS", 1)
    one, two = Side(1, store), Side(2, store)
    answers: list[Any] = []
    ended: list[int] = []
    one.box.ask(2, question(answers))
    one.box.mark(2, MARKER, "orders", 1, ended.append)
    await until(lambda: bool(answers) and bool(ended))
    assert set(answers[0].errors.values()) == {ErrorCode.NETWORK_EXCEPTION}
    assert ended == [ErrorCode.NETWORK_EXCEPTION]
    await until(lambda: 1 in store.tables.boxes, two)
    await one.box.check()  # the answer comes too late
    assert (len(answers), len(ended)) == (1, 1)


async def test_node_messages_are_bounded_while_the_database_is_away(
    store: TableStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise StoreAway("away")

    one = Side(1, store)
    answers: list[Any] = []
    with monkeypatch.context() as inside:
        inside.setattr(store, "send", away)
        one.box.ask(2, question(answers))
        await until(lambda: bool(answers))
    monkeypatch.setattr(node_messages, "MAX_WAITING", 0)
    one.box.ask(2, question(answers))
    assert [set(answer.errors.values()) for answer in answers] == [{ErrorCode.NETWORK_EXCEPTION}] * 2


async def test_events_that_are_not_written_go_to_the_next_leader(
    store: TableStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_messages, "EVENT_BYTES", 10)
    one, two = Side(1, store), Side(2, store)
    taken: list[Any] = []
    two.box.take_over = lambda topic, index, rows: taken.append((topic, index, rows))
    rows = [(b"g", b"event-1"), (None, b"\xff\x00"), (b"h", b"event-3")]
    one.box.hand_over(2, "__group_events", 7, rows)
    await one.box.sent()
    assert len(store.tables.boxes[2]) == 2
    await two.box.check()
    assert taken == [("__group_events", 7, rows[:2]), ("__group_events", 7, rows[2:])]
    await one.box.sent()  # no message is left, and nobody waits for one


KEY = StateKey("g", bytes(15) + b"\1", 0)
ROWS = [Row(0, 4, 2, 1)]


class States:
    """The share coordinator of a node: it notes the questions."""

    def __init__(self) -> None:
        self.routing = Routing(("shard",))
        self.asked: list[Any] = []

    def submit(self, request: Any, respond: Callable[[Any], object]) -> None:
        self.asked.append(request)
        respond(LoadedState(0, None, 1, 7, ROWS) if isinstance(request, ReadState) else StateResponse(124, "old"))


async def test_states_of_share_groups_are_asked_for(store: TableStore) -> None:
    one, two, three = Side(1, store), Side(2, store), Side(3, store)
    two.box._node.persister = three.box._node.persister = cast("Any", States())
    write = WriteState(KEY, 1, 2, 3, 4, ROWS)
    answers: list[Any] = []
    for request in (ReadState(KEY, 5), write, ReadSummary(KEY)):
        one.box.ask_state(2, request, answers.append)
    one.box.ask_state(3, write, answers.append)
    await until(lambda: len(answers) == 4, one, two, three)
    assert sorted(answer.error_code for answer in answers) == [0, 16, 124, 124]
    assert LoadedState(0, None, 1, 7, ROWS) in answers
    asked: Any = two.box._node.persister
    assert asked.asked == [ReadState(KEY, 5), write, ReadSummary(KEY)]


async def test_a_lost_answer_about_a_state_is_an_error(store: TableStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_messages, "MAX_WAITING", 0)
    answers: list[Any] = []
    Side(1, store).box.ask_state(2, ReadSummary(KEY), answers.append)
    assert [(type(answer), answer.error_code) for answer in answers] == [(Summary, ErrorCode.COORDINATOR_NOT_AVAILABLE)]


async def test_end_offsets_are_asked_for(store: TableStore, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = Side(1, store), Side(2, store)
    log = SimpleNamespace(durable_offset=42)
    two.box._node.topics.by_name["orders"] = cast("Any", SimpleNamespace(existing=lambda _: SimpleNamespace(log=log)))
    answers: list[Any] = []
    one.box.ask_ends(2, [("orders", 1), ("unknown", 0)], answers.append)
    await until(lambda: bool(answers), one, two)
    monkeypatch.setattr(node_messages, "MAX_WAITING", 0)
    one.box.ask_ends(2, [("orders", 1)], answers.append)
    assert answers == [[42, -1], [-1]]
