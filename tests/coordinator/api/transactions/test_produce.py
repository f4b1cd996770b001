"""Produce with batches of transactions: all partitions are verified at once, and each has its own error."""

from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.api.node import Node
from muster.coordinator.log.records.markers import EndMarker
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.coordinator.api.data_plane import data_node, send, topic_id
from tests.coordinator.api.transactions.coordinator import FakeTransactions
from tests.coordinator.topics.support import add_topic, batch

Row = tuple[int, bytes]


class ProduceHarness:
    """A node with a topic, and a transaction coordinator that the test plays."""

    def __init__(self) -> None:
        self.node: Node = data_node()
        self.transactions: Any = FakeTransactions()
        self.node.transactions = self.transactions
        add_topic(self.node.topics, "t", 3)

    def send(self, *rows: Row, version: int = 13, acks: int = -1, transactional_id: str | None = "tx") -> Any:
        data = [PartitionProduceData(index, records) for index, records in rows]
        topic = TopicProduceData("" if version >= 13 else "t", partition_data=data)
        if version >= 13:
            topic.topic_id = topic_id(self.node, "t")
        return send(self.node, ProduceRequest(transactional_id, acks, topic_data=[topic]), version)

    def ask(self, *rows: Row, **more: Any) -> list[tuple[int, int, int, str | None]]:
        """(partition, error, log start, message)."""
        (topic,) = self.send(*rows, **more).one().responses
        return [
            (row.index, row.error_code, row.log_start_offset, row.error_message) for row in topic.partition_responses
        ]

    def codes(self, *rows: Row, **more: Any) -> list[int]:
        return [code for _, code, _, _ in self.ask(*rows, **more)]

    def mark(self, index: int, *, epoch: int = 0) -> None:
        partition = self.node.topics.by_name["t"].partitions[index]
        assert partition is not None
        partition.append_marker(EndMarker(1, epoch, True, 0, 0), self.node.clock.now())


def tx(sequence: int = 0, *, producer_id: int = 1, epoch: int = 0, transactional: bool = True) -> bytes:
    return bytes(
        batch(transactional=transactional, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    )


@pytest.fixture
def harness() -> ProduceHarness:
    return ProduceHarness()


@pytest.mark.parametrize(("version", "verify_only"), [(3, True), (11, True), (12, False), (13, False)])
def test_all_partitions_are_verified_in_one_request_and_open_ones_in_none(
    harness: ProduceHarness, version: int, verify_only: bool
) -> None:
    assert harness.codes((0, tx()), (1, tx()), (2, tx(transactional=False)), version=version) == [0, 0, 0]
    assert [(one[0], one[1], one[2], one[4]) for one in harness.transactions.asked] == [
        ("tx", (1, 0), verify_only, {"t": [0, 1]})
    ]
    assert harness.codes((0, tx(1)), version=version) == [0]
    assert len(harness.transactions.asked) == 1


def test_batches_without_transaction_are_not_verified(harness: ProduceHarness) -> None:
    assert harness.codes((0, bytes(batch())), (1, tx(transactional=False))) == [0, 0]
    assert harness.transactions.asked == []


@pytest.mark.parametrize(
    ("error", "version", "expected"),
    [
        (120, 10, (48, "Partition was not added to the transaction")),
        (120, 11, (120, None)),
        (90, 13, (47, None)),
        (49, 12, (49, None)),
        (51, 11, (19, "Unable to verify the partition has been added to the transaction. Underlying error: "
                      "CONCURRENT_TRANSACTIONS")),
        (16, 13, (19, "Unable to verify the partition has been added to the transaction. Underlying error: "
                      "NOT_COORDINATOR")),
    ],
)  # fmt: skip
def test_each_partition_gets_its_own_verification_error(
    harness: ProduceHarness, error: int, version: int, expected: tuple[int, str | None]
) -> None:
    harness.transactions.errors["t", 1] = error
    code, message = expected
    assert harness.ask((0, tx()), (1, tx()), version=version) == [(0, 0, 0, None), (1, code, -1, message)]


def test_a_new_client_waits_for_the_end_of_the_previous_transaction(harness: ProduceHarness) -> None:
    harness.transactions.errors["t", 0] = ErrorCode.CONCURRENT_TRANSACTIONS
    answers = harness.send((0, tx()))
    clock: Any = harness.node.clock
    clock.advance(40)
    assert answers.all == []
    harness.transactions.errors.clear()
    clock.advance(20)
    assert answers.one().responses[0].partition_responses[0].error_code == 0


def test_more_than_one_producer_refuses_the_whole_request(harness: ProduceHarness) -> None:
    text = "Transactional records contained more than one producer ID"
    refused = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    rows = (0, tx()), (1, tx(producer_id=2)), (9, tx())
    assert harness.ask(*rows) == [(index, refused, -1, text) for index in (0, 1, 9)]
    assert harness.codes((0, tx()), (1, tx(producer_id=2, transactional=False))) == [0, 0]


def test_refused_batches_are_not_verified(harness: ProduceHarness) -> None:
    assert harness.codes((0, b"rubbish" * 10), (1, tx())) == [2, 2]
    assert harness.codes((7, tx()), (1, tx())) == [3, 0]
    assert [one[4] for one in harness.transactions.asked] == [{"t": [1]}]


@pytest.mark.parametrize(("version", "asked"), [(11, 48), (12, 21)])
def test_verification_is_before_the_check_of_acks(harness: ProduceHarness, version: int, asked: int) -> None:
    harness.transactions.errors["t", 0] = 48 if version < 12 else 0
    assert harness.codes((0, tx()), version=version, acks=5) == [asked]


def test_a_marker_during_the_verification_voids_it(harness: ProduceHarness) -> None:
    harness.transactions.holds = True
    answers = harness.send((0, tx()), version=11)
    harness.mark(0)
    harness.transactions.held.pop()()
    row = answers.one().responses[0].partition_responses[0]
    assert (row.error_code, row.log_start_offset) == (ErrorCode.INVALID_TXN_STATE, 0)


def test_a_partition_that_arrives_during_the_verification_of_another_is_not_led_yet(harness: ProduceHarness) -> None:
    topic, held = harness.node.topics.by_name["t"], harness.transactions
    topic.is_shared = held.holds = True
    led, topic.partitions[1] = topic.partitions[1], None  # this node is the leader, and has not fetched the log
    answers = harness.send((0, tx()), (1, tx()))
    topic.partitions[1] = led
    held.held.pop()()
    rows = answers.one().responses[0].partition_responses
    not_leader = ErrorCode.NOT_LEADER_OR_FOLLOWER  # the producer tries again; INVALID_TXN_STATE would end it
    assert [(row.index, row.error_code) for row in rows] == [(0, 0), (1, not_leader)]
    answers = harness.send((1, tx()))
    held.held.pop()()
    assert answers.one().responses[0].partition_responses[0].error_code == 0
    assert [one[4] for one in held.asked] == [{"t": [0]}, {"t": [1]}]


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("is_open", [False, True])
def test_a_verification_is_of_one_log(harness: ProduceHarness, anew: bool, is_open: bool) -> None:
    """A new epoch of a leader may have the log read again: that log does not know of the verification."""
    if is_open:
        harness.codes((0, tx()))
    harness.transactions.holds = True
    answers = harness.send((0, tx(int(is_open))), (1, tx()))
    harness.node.topics.open.hand_over(harness.node.topics.by_name["t"].state, [0], anew=anew)
    harness.transactions.held.pop()()
    error = ErrorCode.NOT_LEADER_OR_FOLLOWER if anew else ErrorCode.NONE
    assert [row.error_code for row in answers.one().responses[0].partition_responses] == [error, 0]


def test_a_zombie_is_fenced_by_the_log(harness: ProduceHarness) -> None:
    harness.codes((0, tx(epoch=2)))
    assert harness.ask((0, tx(epoch=1)), (1, tx(epoch=1))) == [(0, 47, -1, None), (1, 0, 0, None)]
    assert harness.transactions.asked[-1][4] == {"t": [1]}


def test_a_batch_refused_by_the_log_has_the_log_start_offset(harness: ProduceHarness) -> None:
    harness.codes((0, tx()))
    assert harness.ask((0, tx(5))) == [(0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0, None)]
    assert harness.ask((0, tx(1, transactional=False))) == [(0, ErrorCode.INVALID_TXN_STATE, 0, None)]
