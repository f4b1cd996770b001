"""InitProducerId: the producer id and epoch of each producer. The answers are those of Kafka 4.3 to the same
requests.
"""

from __future__ import annotations

import pytest

from muster.coordinator.transactions import events
from muster.coordinator.transactions.commands import TransactionSettings
from muster.coordinator.transactions.init_producer_id import refusal
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.init_producer_id import InitProducerIdRequest
from muster.protocol.messages.transaction_records.transaction_log import TransactionLogKey, TransactionLogValue
from tests.coordinator.transactions.harness import START, TransactionHarness

FULL = 32_766


def with_epoch(epoch: int, status: int = 0, **fields: int) -> TransactionHarness:
    """The id `x` of producer 7, with this epoch."""
    partitions = None if status == 0 else []
    value = TransactionLogValue(7, 7, -1, epoch, -1, 60_000, status, partitions, START.wall_ms, START.wall_ms)
    for name, given in fields.items():
        setattr(value, name, given)
    return TransactionHarness([(TransactionLogKey("x"), value)])


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (InitProducerIdRequest("x", 60_000, 5, -1), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest("x", 60_000, -1, 5), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest("", 60_000, -1, -1), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest("", 0, -1, -1), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest("x", 0, -1, -1), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (InitProducerIdRequest("x", -1, -1, -1), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (InitProducerIdRequest("x", 900_001, -1, -1), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (InitProducerIdRequest("x", 900_000, -1, -1), ErrorCode.NONE),
        (InitProducerIdRequest("x", 1, 5, 0), ErrorCode.NONE),
    ],
)
def test_init_producer_id_refuses_malformed_requests(request_: InitProducerIdRequest, error: int) -> None:
    assert refusal(request_, TransactionSettings()) == error
    answer = TransactionHarness().ask(request_)
    assert (answer.error_code, answer.producer_id == -1) == (error, error != 0)


def test_a_new_id_gets_a_new_producer_id() -> None:
    harness = TransactionHarness()
    assert harness.init() == (0, 1_001, 0)
    assert harness.init("y", timeout_ms=1_000) == (0, 1_002, 0)
    # a producer that names another cluster's id is accepted too
    assert harness.init("z", 77, 5) == (0, 1_003, 0)
    value = harness.records[0].value
    assert value == TransactionLogValue(1_001, 1_001, -1, 0, -1, 60_000, 0, None, START.wall_ms, -1, 0)
    assert harness.events[0].facts == {
        "cause": events.NEW_ID,
        "timeout_ms": 60_000,
        "client_id": "c",
        "host": "/10.0.0.1",
        "fenced_producer_id": -1,
        "fenced_producer_epoch": -1,
    }


def test_a_second_producer_gets_the_next_epoch() -> None:
    harness = TransactionHarness()
    harness.init()
    assert harness.init(timeout_ms=30_000) == (0, 1_001, 1)
    assert harness.one().timeout_ms == 30_000
    assert harness.events[-1].facts["cause"] == events.NEW_PRODUCER
    assert harness.events[-1].facts["fenced_producer_epoch"] == 0
    assert harness.spare == 1_001, "the spare producer id was not used"


def test_a_repeated_request_for_the_next_epoch_gets_the_same_answer() -> None:
    harness = TransactionHarness()
    harness.init()
    assert harness.init("x", 1_001, 0) == (0, 1_001, 1)
    assert harness.init("x", 1_001, 0) == (0, 1_001, 1)
    assert harness.events[-1].facts["cause"] == events.SAME_PRODUCER
    assert harness.init("x", 1_001, 1) == (0, 1_001, 2)
    assert harness.init("x", 1_001, 0) == (ErrorCode.PRODUCER_FENCED, -1, -1)
    assert harness.init("x", 9, 2) == (ErrorCode.PRODUCER_FENCED, -1, -1)
    assert harness.kinds()[-2:] == [events.FENCED, events.FENCED]
    assert harness.events[-1].facts["current_producer_epoch"] == 2


def test_a_repeated_request_for_the_next_epoch_is_fenced_after_a_restart() -> None:
    harness = TransactionHarness()
    harness.init()
    harness.init("x", 1_001, 0)
    harness.restart()
    assert harness.init("x", 1_001, 0) == (ErrorCode.PRODUCER_FENCED, -1, -1)


def test_a_repeated_request_is_fenced_if_another_producer_came_between() -> None:
    harness = TransactionHarness()
    harness.init()
    harness.init("x", 1_001, 0)
    harness.init()
    assert harness.init("x", 1_001, 1) == (ErrorCode.PRODUCER_FENCED, -1, -1)


@pytest.mark.parametrize("status", [0, 4, 5])
def test_a_new_producer_id_follows_the_last_epoch(status: int) -> None:
    harness = with_epoch(FULL, status)
    assert harness.init() == (0, 1_001, 0)
    assert harness.one().previous_producer_id == 7
    assert harness.one().last_producer_epoch == -1


def test_a_repeated_request_at_the_last_epoch_gets_the_same_answer() -> None:
    harness = with_epoch(FULL)
    assert harness.init("x", 7, FULL) == (0, 1_001, 0)
    assert harness.init("x", 7, FULL) == (0, 1_001, 0)
    # that answer has the new id as the previous id too, as Kafka's has
    assert harness.init("x", 7, FULL) == (ErrorCode.PRODUCER_FENCED, -1, -1)


def test_an_old_epoch_of_a_replaced_producer_id_is_fenced() -> None:
    """This differs from Kafka 4.3, which answers UNKNOWN_SERVER_ERROR."""
    harness = with_epoch(FULL - 1)
    assert harness.init("x", 7, FULL - 1) == (0, 7, FULL)
    assert harness.init("x", 7, FULL - 1) == (0, 7, FULL), "once more"
    assert harness.init("x", 7, 3) == (ErrorCode.PRODUCER_FENCED, -1, -1)
    harness.restart()
    assert harness.init("x", 7, FULL - 1) == (ErrorCode.PRODUCER_FENCED, -1, -1)


def test_init_producer_id_is_refused_without_a_spare_producer_id() -> None:
    for harness in (TransactionHarness(), with_epoch(FULL), with_epoch(FULL, 1)):
        harness.next_producer_id = lambda: -1
        assert harness.init() == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)
        assert harness.records == []
        assert harness.markers == {}


def test_a_new_producer_aborts_the_open_transaction() -> None:
    harness = TransactionHarness()
    harness.init()
    harness.add((1_001, 0))
    assert harness.init() == (ErrorCode.CONCURRENT_TRANSACTIONS, -1, -1)
    assert (harness.one().state, harness.one().producer_epoch, harness.one().version) == ("PrepareAbort", 1, 2)
    marker = harness.markers["x"]
    assert (marker.producer_epoch, marker.transaction_result, marker.transaction_version) == (1, False, 2)
    assert harness.init() == (ErrorCode.CONCURRENT_TRANSACTIONS, -1, -1)
    assert harness.init("x", 9, 9) == (ErrorCode.CONCURRENT_TRANSACTIONS, -1, -1)
    harness.written()
    assert harness.init() == (0, 1_001, 2)
    ending = next(event for event in harness.events if event.kind == events.ENDING)
    assert (ending.facts["cause"], ending.producer_epoch) == (events.NEW_PRODUCER, 0)
    ended = next(event for event in harness.events if event.kind == events.ABORTED)
    assert (ended.producer_epoch, ended.facts["next_producer_epoch"]) == (0, 1)


def test_a_takeover_at_the_last_epoch_uses_the_spare_producer_id_of_the_request() -> None:
    harness = with_epoch(FULL)
    harness.add((7, FULL))
    assert harness.init() == (ErrorCode.CONCURRENT_TRANSACTIONS, -1, -1)
    assert harness.spare == 1_001
    assert (harness.markers["x"].producer_id, harness.markers["x"].producer_epoch) == (7, 32_767)
    harness.written()
    assert (harness.one().producer_id, harness.one().producer_epoch) == (1_001, 0)
    assert harness.init() == (0, 1_001, 1)


def test_an_open_transaction_without_partitions_is_complete_at_once() -> None:
    harness = with_epoch(3, 1)
    assert harness.init() == (ErrorCode.CONCURRENT_TRANSACTIONS, -1, -1)
    assert harness.markers == {}
    assert harness.init() == (0, 7, 5)
