"""The handlers of transactions over real shards of groups and of transactions."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from muster.coordinator.api.many_rows import ROWS_AT_ONCE, AnswerSize
from muster.coordinator.api.node import Node
from muster.coordinator.api.transactions import administration
from muster.coordinator.log import batches
from muster.coordinator.runtime.routing import Routing
from muster.coordinator.runtime.transaction_coordinator.transactions import Transactions
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.system.jobs import at_once
from muster.coordinator.system.jobs.matching import Budget
from muster.coordinator.topics.names import TRANSACTION_STATE_TOPIC
from muster.coordinator.transactions.commands import TransactionSettings
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from muster.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from muster.protocol.messages.describe_transactions import DescribeTransactionsRequest
from muster.protocol.messages.end_txn import EndTxnRequest
from muster.protocol.messages.find_coordinator import FindCoordinatorRequest
from muster.protocol.messages.init_producer_id import InitProducerIdRequest
from muster.protocol.messages.list_transactions import ListTransactionsRequest
from muster.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from muster.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.coordinator.api.data_plane import data_node, send
from tests.coordinator.api.harness import Refusing, TickingClock

Topics = tuple[tuple[str, list[int]], ...]
TOPIC: Topics = (("t", [0, 1]),)


class Groups:
    """A shard of __consumer_offsets. Each end of a transaction is done at once."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.runtime = self
        self.ended: list[tuple[Any, bool]] = []

    def complete_transaction(self, producer: Any, *, is_committed: bool, ended: Any, **_: int) -> None:
        self.ended.append((producer, is_committed))
        ended(ErrorCode.NONE)


@pytest.fixture
def node() -> Node:
    """A node with a topic `t` of two partitions; FindCoordinator was not sent yet."""
    return made_node(None)


def made_node(clock: ManualClock | None) -> Node:
    node = data_node(clock=clock, transaction_state_log_num_partitions=3)
    at_once(node.topics.ensuring("t", 2))
    node.routing = Routing([Groups(0), Groups(1)])
    node.transactions = Transactions(
        node.topics, node.clock, node.job_queue, node.routing.shards, TransactionSettings
    )  # fmt: skip
    node.transactions.start(100)
    return node


def ask(node: Node, request: Any, version: int | None = None) -> Any:
    answers = send(node, request, version)
    node.clock.advance(0)
    return answers.one()


def find(node: Node, *ids: str) -> list[tuple[int, int]]:
    rows = ask(node, FindCoordinatorRequest(key_type=1, coordinator_keys=list(ids))).coordinators
    return [(row.error_code, row.node_id) for row in rows]


def init(node: Node, transactional_id: str = "x") -> tuple[int, int]:
    answer = ask(node, InitProducerIdRequest(transactional_id, 60_000))
    assert answer.error_code == ErrorCode.NONE
    return answer.producer_id, answer.producer_epoch


def transaction(producer: tuple[int, int], topics: Topics = TOPIC, transactional_id: str = "x") -> Any:
    rows = [AddPartitionsToTxnTopic(name, indexes) for name, indexes in topics]
    return AddPartitionsToTxnTransaction(transactional_id, *producer, topics=rows)


def add(node: Node, *transactions: Any, version: int = 3) -> Any:
    answer = ask(node, AddPartitionsToTxnRequest(list(transactions)), version)
    return [
        [(topic.name, row.partition_index, row.partition_error_code) for topic in one.topic_results
         for row in topic.results_by_partition]
        for one in answer.results_by_transaction
    ]  # fmt: skip


@pytest.fixture
def begun(node: Node) -> Node:
    find(node, "x")
    return node


class TestFindCoordinator:
    def test_find_coordinator_creates_the_transaction_topic(self, node: Node) -> None:
        assert TRANSACTION_STATE_TOPIC not in node.topics.by_name
        assert find(node, "x", "y") == [(0, 1), (0, 1)]
        assert len(node.topics.by_name[TRANSACTION_STATE_TOPIC].partitions) == 3
        assert find(node, "x") == [(0, 1)]

    def test_find_coordinator_without_permission_creates_no_transaction_topic(self, node: Node) -> None:
        node.authorizer = Refusing((8, 5, "x"))
        assert find(node, "x") == [(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1)]
        assert TRANSACTION_STATE_TOPIC not in node.topics.by_name

    def test_find_coordinator_finds_nobody_if_the_topic_cannot_be_created(self, node: Node) -> None:
        node.topics.metadata_log.log.go_offline("m", OSError("the disk is gone"))
        assert find(node, "x") == [(ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)]


def test_transactions_have_no_coordinator_before_their_topic_exists(node: Node) -> None:
    assert ask(node, InitProducerIdRequest("x", 1_000)).error_code == ErrorCode.NOT_COORDINATOR
    assert add(node, transaction((1, 0))) == [[("t", 0, 16), ("t", 1, 16)]]
    assert ask(node, AddOffsetsToTxnRequest("x", 1, 0, "g")).error_code == ErrorCode.NOT_COORDINATOR
    assert ask(node, EndTxnRequest("x", 1, 0, True)).error_code == ErrorCode.NOT_COORDINATOR
    (row,) = ask(node, DescribeTransactionsRequest(["x"])).transaction_states
    assert row.error_code == ErrorCode.NOT_COORDINATOR
    assert ask(node, ListTransactionsRequest()).transaction_states == []
    assert TRANSACTION_STATE_TOPIC not in node.topics.by_name


class TestInitProducerId:
    def test_each_start_of_a_producer_has_its_own_epoch(self, begun: Node) -> None:
        assert [init(begun), init(begun), init(begun, "y")] == [(0, 0), (0, 1), (1, 0)]

    def test_producers_without_transactional_id_get_other_producer_ids(self, begun: Node) -> None:
        assert init(begun) == (0, 0)
        answer = ask(begun, InitProducerIdRequest(None))
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, 1, 0)

    @pytest.mark.parametrize(
        ("request_", "error"),
        [
            (InitProducerIdRequest("", 1_000), ErrorCode.INVALID_REQUEST),
            (InitProducerIdRequest("x", 0), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
            (InitProducerIdRequest("x", 900_001), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
            (InitProducerIdRequest("x", 1_000, 5), ErrorCode.INVALID_REQUEST),
            (InitProducerIdRequest("x", 1_000, 5, 0), ErrorCode.PRODUCER_FENCED),
        ],
    )
    def test_init_producer_id_refuses_bad_transactional_requests(
        self, begun: Node, request_: InitProducerIdRequest, error: int
    ) -> None:
        init(begun)
        answer = ask(begun, request_)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (error, -1, -1)

    def test_while_no_id_can_be_taken(self, begun: Node) -> None:
        begun.topics.metadata_log.log.go_offline("m", OSError("the disk is gone"))
        answer = ask(begun, InitProducerIdRequest("x", 1_000))
        assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class TestAddPartitions:
    def test_add_partitions_has_a_row_for_each_partition(self, begun: Node) -> None:
        producer = init(begun)
        assert add(begun, transaction(producer)) == [[("t", 0, 0), ("t", 1, 0)]]

    def test_add_partitions_with_an_unknown_partition_adds_none(self, begun: Node) -> None:
        producer = init(begun)
        found = add(begun, transaction(producer, (("t", [1, 2]), ("no", [0]), ("t", [0, 1]))))
        assert found == [[("t", 1, 55), ("t", 2, 3), ("t", 0, 55), ("no", 0, 3)]]
        (row,) = ask(begun, DescribeTransactionsRequest(["x"])).transaction_states
        assert row.transaction_state == "Empty"

    def test_a_transaction_with_one_error_names_topics_without_partitions(
        self, begun: Node, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        producer = init(begun)
        asked: list[Any] = []
        submit = type(begun.transactions).submit

        def spying(transactions: Any, key: str, command: Any) -> None:
            asked.extend(command.request.transactions[0].topics)
            submit(transactions, key, command)

        monkeypatch.setattr(type(begun.transactions), "submit", spying)

        def names(topics: Topics, *, verify_only: bool = False) -> list[str]:
            wanted = transaction(producer, topics)
            wanted.verify_only = verify_only
            answer = ask(begun, AddPartitionsToTxnRequest([wanted]), 5)
            return [topic.name for topic in answer.results_by_transaction[0].topic_results]

        some: Topics = (("a", []), ("t", [0]), ("b", []))
        assert names(some) == ["a", "t", "b"]
        assert names(some, verify_only=True) == ["t"]
        assert names((*some, ("t", [7]))) == ["t"]
        assert [topic.name for topic in asked] == ["t", "t"]
        assert names((("a", []),)) == ["a"]

    def test_only_brokers_may_add_internal_topics_to_a_transaction(self, begun: Node) -> None:
        at_once(begun.topics.ensuring("__consumer_offsets"))
        producer = init(begun)
        topics: Topics = (("t", [0]), ("__consumer_offsets", [1]))
        assert add(begun, transaction(producer, topics)) == [[("t", 0, 55), ("__consumer_offsets", 1, 29)]]
        assert add(begun, transaction(producer, topics), version=4) == [[("t", 0, 0), ("__consumer_offsets", 1, 0)]]

    def test_brokers_add_partitions_of_many_transactions(self, begun: Node) -> None:
        producer = init(begun)
        add(begun, transaction(producer, (("t", [1]),)))
        verified = transaction(producer)
        verified.verify_only = True
        others = [transaction((7, 0), transactional_id=name) for name in ("y", "")]
        found = add(begun, verified, *others, version=5)
        assert found == [
            [("t", 0, ErrorCode.TRANSACTION_ABORTABLE), ("t", 1, 0)],
            [("t", 0, ErrorCode.INVALID_PRODUCER_ID_MAPPING), ("t", 1, ErrorCode.INVALID_PRODUCER_ID_MAPPING)],
            [("t", 0, ErrorCode.INVALID_REQUEST), ("t", 1, ErrorCode.INVALID_REQUEST)],
        ]

    def test_add_offsets_to_txn_adds_the_partition_of_the_group(self, begun: Node) -> None:
        producer = init(begun)
        assert ask(begun, AddOffsetsToTxnRequest("x", *producer, "g")).error_code == ErrorCode.NONE
        (row,) = ask(begun, DescribeTransactionsRequest(["x"])).transaction_states
        assert [(topic.topic, topic.partitions) for topic in row.topics] == [
            ("__consumer_offsets", [begun.routing.partition("g")])
        ]
        fenced = ask(begun, AddOffsetsToTxnRequest("x", producer[0], 7, "g"))
        assert fenced.error_code == ErrorCode.PRODUCER_FENCED
        assert ask(begun, AddOffsetsToTxnRequest("", *producer, "g")).error_code == ErrorCode.INVALID_REQUEST


class TestEndTxn:
    def test_a_client_of_the_old_protocol_keeps_its_producer_epoch_at_the_end(self, begun: Node) -> None:
        producer = init(begun)
        add(begun, transaction(producer))
        assert ask(begun, EndTxnRequest("x", *producer, True), 4).error_code == ErrorCode.NONE
        (row,) = ask(begun, DescribeTransactionsRequest(["x"])).transaction_states
        assert (row.transaction_state, row.producer_epoch) == ("CompleteCommit", 0)

    def test_a_client_of_the_new_protocol_gets_the_next_producer_epoch_at_the_end(self, begun: Node) -> None:
        producer = init(begun)
        add(begun, transaction(producer))
        answer = ask(begun, EndTxnRequest("x", *producer, False), 5)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, producer[0], 1)
        (row,) = ask(begun, DescribeTransactionsRequest(["x"])).transaction_states
        assert (row.transaction_state, row.producer_epoch) == ("CompleteAbort", 1)

    def test_end_txn_without_an_open_transaction_is_answered_as_on_kafka(self, begun: Node) -> None:
        producer = init(begun)
        assert ask(begun, EndTxnRequest("x", *producer, True)).error_code == ErrorCode.INVALID_TXN_STATE
        assert ask(begun, EndTxnRequest("", *producer, True)).error_code == ErrorCode.INVALID_REQUEST
        assert ask(begun, EndTxnRequest("no", *producer, True)).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING

    def test_while_no_id_can_be_taken(self, begun: Node) -> None:
        producer = init(begun)
        add(begun, transaction(producer))
        begun.topics.metadata_log.log.go_offline("m", OSError("the disk is gone"))
        assert ask(begun, EndTxnRequest("x", *producer, True)).error_code == ErrorCode.NONE


class TestWriteTxnMarkers:
    def test_write_txn_markers_has_a_row_for_each_partition(self, node: Node) -> None:
        topics = [WritableTxnMarkerTopic("t", [1, 5]), WritableTxnMarkerTopic("__consumer_offsets", [1])]
        marker = WritableTxnMarker(7, 3, False, topics, coordinator_epoch=2)
        answer = ask(node, WriteTxnMarkersRequest([marker, WritableTxnMarker(8)]))
        assert [one.producer_id for one in answer.markers] == [7, 8]
        rows = [(t.name, p.partition_index, p.error_code) for t in answer.markers[0].topics for p in t.partitions]
        assert rows == [("t", 1, 0), ("t", 5, 3), ("__consumer_offsets", 1, 0)]
        partition = node.topics.by_name["t"].partitions[1]
        assert partition is not None
        ((header, (record,)),) = batches.read(partition.log.read(0, 1_000))
        assert (header.producer_id, batches.control_kind(record)) == (7, batches.CONTROL_ABORT)

    def test_many_markers_are_written_in_steps(self, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(administration, "AT_ONCE", 3)
        waiting: list[Any] = []

        def complete_transaction(producer: Any, *, ended: Any, **_: int) -> None:
            waiting.append(ended)

        node.routing.shards[0].runtime.complete_transaction = complete_transaction
        topics = [WritableTxnMarkerTopic("__consumer_offsets", [0])]
        markers = [WritableTxnMarker(producer, 0, True, topics) for producer in range(7)]
        answers = send(node, WriteTxnMarkersRequest(markers))
        for expected in (3, 3, 1):
            assert (len(waiting), answers.all) == (expected, [])
            for number, ended in enumerate(waiting.copy()):
                waiting.remove(ended)
                ended(number)
            node.clock.advance(0)
        codes = [one.topics[0].partitions[0].error_code for one in answers.one().markers]
        assert codes == [0, 1, 2, 0, 1, 2, 0]

    @pytest.mark.parametrize(("producer", "epoch"), [(-1, 0), (7, -1)])
    def test_a_marker_without_a_producer_refuses_all_markers(self, node: Node, producer: int, epoch: int) -> None:
        nowhere = [WritableTxnMarkerTopic("t", [5]), WritableTxnMarkerTopic("no", [0])]
        markers = [WritableTxnMarker(producer, epoch, False, nowhere), WritableTxnMarker(8, 0, False, nowhere)]
        rows = [
            topic.partitions[0] for one in ask(node, WriteTxnMarkersRequest(markers)).markers for topic in one.topics
        ]
        assert [row.error_code for row in rows] == [3, 3, 3, 3]
        markers[0].topics = [*nowhere, WritableTxnMarkerTopic("t", [1])]
        answer = ask(node, WriteTxnMarkersRequest(markers))
        codes = [topic.partitions[0].error_code for one in answer.markers for topic in one.topics]
        assert codes == [ErrorCode.UNKNOWN_SERVER_ERROR] * 5

    def test_write_txn_markers_without_markers_has_no_rows(self, node: Node) -> None:
        assert ask(node, WriteTxnMarkersRequest()).markers == []


class TestDescribing:
    def test_describe_transactions_has_the_rows_of_the_request(self, begun: Node) -> None:
        producer = init(begun)
        add(begun, transaction(producer))
        rows = ask(begun, DescribeTransactionsRequest(["no", "x", "", "x"])).transaction_states
        assert [(row.transactional_id, row.error_code, row.transaction_state) for row in rows] == [
            ("no", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ""),
            ("x", 0, "Ongoing"),
            ("", ErrorCode.INVALID_REQUEST, ""),
            ("x", 0, "Ongoing"),
        ]
        assert [(topic.topic, topic.partitions) for topic in rows[1].topics] == [("t", [1, 0])]

    def test_topics_that_the_client_may_not_see_are_left_out(self, begun: Node) -> None:
        producer = init(begun)
        add(begun, transaction(producer))
        begun.authorizer = Refusing((8, 2, "t"))
        (row,) = ask(begun, DescribeTransactionsRequest(["x"])).transaction_states
        assert (row.error_code, row.transaction_state, row.topics) == (0, "Ongoing", [])

    def test_list_transactions_asks_all_shards(self, begun: Node) -> None:
        names = [f"id-{number}" for number in range(9)]
        for name in names:
            init(begun, name)
        answer = ask(begun, ListTransactionsRequest(["Empty", "No"]))
        assert sorted(row.transactional_id for row in answer.transaction_states) == names
        assert answer.unknown_state_filters == ["No"]
        answer = ask(begun, ListTransactionsRequest(transactional_id_pattern="id-[3-5]"))
        assert sorted(row.transactional_id for row in answer.transaction_states) == names[3:6]
        begun.authorizer = Refusing((8, 5, "id-4"))
        answer = ask(begun, ListTransactionsRequest(["Empty"], [4, 5]))
        assert [row.transactional_id for row in answer.transaction_states] == ["id-5"]

    def test_list_transactions_reads_a_large_shard_in_steps(self, begun: Node, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(administration, "IDS_AT_ONCE", 2)
        names = [f"id-{number}" for number in range(30)]
        for name in names:
            init(begun, name)
        answer = ask(begun, ListTransactionsRequest())
        assert sorted(row.transactional_id for row in answer.transaction_states) == sorted(names)

    def test_list_transactions_authorizes_and_filters_in_steps(
        self, begun: Node, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        names = [f"id-{number}" for number in range(1_700)]
        for name in names:
            init(begun, name)
        asked: list[int] = []

        class Counting(Refusing):
            def allowed(self, context: Any, operation: int, kind: int, names: Any, **how: Any) -> Any:
                asked.append(len(names))
                return super().allowed(context, operation, kind, names, **how)

        begun.authorizer = Counting((8, 5, "id-4"))
        answer = ask(begun, ListTransactionsRequest(transactional_id_pattern="(?P<what>id)-([0-9]*)"))
        assert sorted(row.transactional_id for row in answer.transaction_states) == sorted({*names} - {"id-4"})
        assert sum(asked) == len(names)
        assert max(asked) <= ROWS_AT_ONCE
        monkeypatch.setattr(administration, "Budget", partial(Budget, 1_000_000))
        answer = ask(begun, ListTransactionsRequest(transactional_id_pattern="(?P<what>id)-([0-9]*)"))
        assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION

    def test_list_transactions_refuses_an_answer_that_is_too_large(
        self, begun: Node, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(9):
            init(begun, f"id-{number}")
        monkeypatch.setattr(AnswerSize.__init__, "__defaults__", (200,))
        assert ask(begun, ListTransactionsRequest()).error_code == ErrorCode.INVALID_REQUEST
        answer = ask(begun, ListTransactionsRequest(transactional_id_pattern="id-[3-5]"))
        assert len(answer.transaction_states) == 3

    def test_list_transactions_checks_filters_without_shards(self, node: Node) -> None:
        assert ask(node, ListTransactionsRequest(["No", "Empty", "No"])).unknown_state_filters == ["No"]
        answer = ask(node, ListTransactionsRequest(transactional_id_pattern="("))
        assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION

    def test_list_transactions_is_refused_by_a_loading_shard_but_not_by_an_offline_one(self, begun: Node) -> None:
        init(begun)
        shards = begun.transactions.routing.shards
        mine = begun.transactions.routing.shard("x")
        others = [shard for shard in shards if shard is not mine]
        others[0].runtime.resign(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        assert len(ask(begun, ListTransactionsRequest()).transaction_states) == 1
        others[1].runtime.resign(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        answer = ask(begun, ListTransactionsRequest(transactional_id_pattern="("))
        assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


MANY = 20_000
_NOWHERE = transaction((0, 0), (("t", [*range(MANY)]),))
_OFFSETS = [TxnOffsetCommitRequestPartition(index) for index in range(2, MANY)]


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (AddPartitionsToTxnRequest([_NOWHERE]), 3),
        (AddPartitionsToTxnRequest([transaction((0, 0), (("t", [0] * 200_000), ("no", [0])))] * 5), 5),
        (TxnOffsetCommitRequest("x", "g", 0, 0, topics=[TxnOffsetCommitRequestTopic("t", partitions=_OFFSETS)]), 5),
        (WriteTxnMarkersRequest([WritableTxnMarker(7)] * MANY), 1),
        (WriteTxnMarkersRequest([WritableTxnMarker(7, 0, False, [WritableTxnMarkerTopic("no")] * MANY)]), 1),
        (WriteTxnMarkersRequest([WritableTxnMarker(-1, 0, False, [WritableTxnMarkerTopic("no")] * MANY)]), 1),
        (ListTransactionsRequest([f"s{number}" for number in range(MANY)]), 2),
        (ListTransactionsRequest([], [*range(MANY)]), 2),
    ],
    ids=[
        "unknown partitions",
        "again and again",
        "offsets",
        "markers",
        "topics",
        "no producers",
        "states",
        "producers",
    ],
)
def test_describe_transactions_of_many_rows_takes_many_steps(request_: Any, version: int) -> None:
    """Each step takes a millisecond here, so an earlier answer is impossible."""
    clock = TickingClock()
    node = made_node(clock)
    began_ms = clock.now().mono_ms
    answers = send(node, request_, version)
    assert answers.all == []
    assert clock.now().mono_ms - began_ms < 60
    for _ in range(20_000):
        if answers.all:
            break
        clock.advance(100)
    assert answers.one() is not None


def test_list_transactions_with_many_filters_answers_as_with_few(begun: Node) -> None:
    producers = [init(begun, name)[0] for name in ("a", "b", "c")]
    many = [f"s{number}" for number in range(1_000)]
    answer = ask(begun, ListTransactionsRequest([*many, "Empty", *many], [*range(10_000, 11_000), *producers[1:]]))
    assert sorted(row.transactional_id for row in answer.transaction_states) == ["b", "c"]
    assert answer.unknown_state_filters == many
    assert ask(begun, ListTransactionsRequest(many)).transaction_states == []
