"""EndTxn: every answer for both kinds of clients in every state, equal to that of Kafka 4.3."""

from __future__ import annotations

import pytest

from muster.coordinator.transactions import events
from muster.coordinator.transactions.end_txn import ABORT, COMMIT, NEW_CLIENT, OLD_CLIENT
from muster.coordinator.transactions.transaction import ENDING, IDLE, IN_RECORDS, ONGOING
from muster.protocol.errors import ErrorCode
from tests.coordinator.transactions.harness import TransactionHarness

INVALID = ErrorCode.INVALID_TXN_STATE
FULL = 32_766
P = (1_001, 0)


def ended(state: str, version: int = 2) -> TransactionHarness:
    """The id `x`, in `state`."""
    harness = TransactionHarness()
    harness.init()
    if state != "Empty":
        harness.add(P)
    if state != "Empty" and state != "Ongoing":
        harness.end(P, commit=state.endswith("Commit"), version=version)
    if state.startswith("Complete"):
        harness.written()
    assert harness.one().state == state
    return harness


def test_the_tables_of_end_txn_have_every_state() -> None:
    settled = {ONGOING, *IDLE}
    assert settled | ENDING == set(IN_RECORDS)
    assert set(OLD_CLIENT) == {(state, end) for state in settled for end in (COMMIT, ABORT)}
    complete = settled - {ONGOING, "Empty"}
    assert set(NEW_CLIENT) == {(state, end, False) for state in settled for end in (COMMIT, ABORT)} | {
        (state, end, True) for state in complete for end in (COMMIT, ABORT)
    }


@pytest.mark.parametrize("version", [0, 2])
def test_end_txn_refuses_unknown_ids_and_old_producers(version: int) -> None:
    harness = ended("Ongoing")
    for transactional_id, producer, error in [
        ("", P, ErrorCode.INVALID_REQUEST),
        ("unknown", P, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ("x", (1_002, 0), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ("x", (1_001, 1), ErrorCode.PRODUCER_FENCED),
        ("x", (1_001, -1), ErrorCode.PRODUCER_FENCED),
    ]:
        assert harness.end(producer, transactional_id=transactional_id, version=version) == (error, -1, -1)
    assert harness.kinds()[-5:] == [events.REQUEST_REFUSED] * 2 + [events.FENCED] * 3
    assert harness.one().state == "Ongoing"


@pytest.mark.parametrize("state", ["PrepareCommit", "PrepareAbort"])
@pytest.mark.parametrize("commit", [True, False])
def test_end_txn_is_refused_while_markers_are_written(state: str, commit: bool) -> None:
    busy = (ErrorCode.CONCURRENT_TRANSACTIONS, -1, -1)
    harness = ended(state, version=0)
    assert harness.end(P, commit=commit, version=0) == busy
    assert harness.end((1_001, 1), commit=commit, version=0) == (ErrorCode.PRODUCER_FENCED, -1, -1)
    harness = ended(state, version=2)
    assert harness.end(P, commit=commit) == busy
    assert harness.end((9, 9), commit=commit) == busy


@pytest.mark.parametrize(
    ("state", "commit", "error"),
    [
        ("Empty", True, INVALID),
        ("Empty", False, INVALID),
        ("CompleteCommit", True, 0),
        ("CompleteCommit", False, INVALID),
        ("CompleteAbort", True, INVALID),
        ("CompleteAbort", False, 0),
    ],
)
def test_end_txn_of_an_old_client_without_open_transaction_is_answered_as_on_kafka(
    state: str, commit: bool, error: int
) -> None:
    harness = ended(state, version=0)
    records = len(harness.records)
    assert harness.end(P, commit=commit, version=0) == (error, -1, -1)
    assert len(harness.records) == records


@pytest.mark.parametrize(
    ("state", "commit", "answer"),
    [
        ("CompleteCommit", True, (0, 1_001, 1)),
        ("CompleteCommit", False, (INVALID, -1, -1)),
        ("CompleteAbort", True, (INVALID, -1, -1)),
        ("CompleteAbort", False, (0, 1_001, 1)),
    ],
)
def test_a_repeated_end_txn_of_a_new_client_gets_the_same_answer(
    state: str, commit: bool, answer: tuple[int, int, int]
) -> None:
    harness = ended(state)
    records = len(harness.records)
    assert harness.end(P, commit=commit) == answer
    assert len(harness.records) == records


@pytest.mark.parametrize("state", ["Empty", "CompleteCommit", "CompleteAbort"])
def test_an_abort_of_nothing_by_a_new_client_gets_the_next_epoch(state: str) -> None:
    harness = ended(state)
    epoch = harness.one().producer_epoch
    reported = len(harness.events)
    harness.advance(10)
    assert harness.end((1_001, epoch), commit=True) == (INVALID, -1, -1)
    assert harness.end((1_001, epoch), commit=False) == (0, 1_001, epoch + 1)
    assert harness.markers == {}
    assert harness.one().state == "CompleteAbort"
    assert harness.one().start_ms == harness.now.wall_ms
    assert [record.value.transaction_status for record in harness.records[-2:] if record.value] == [3, 5]
    assert harness.kinds()[reported:] == [events.REQUEST_REFUSED], "no transaction was aborted"


def test_a_new_client_ends_a_transaction_of_an_old_client() -> None:
    harness = TransactionHarness()
    harness.init()
    harness.add(P, version=0)
    assert harness.end(P, version=2) == (0, 1_001, 1)


@pytest.mark.parametrize("commit", [True, False])
def test_a_fenced_producer_does_not_take_the_end_of_an_older_client_for_its_own(commit: bool) -> None:
    """This differs from Kafka 4.3, which answers NONE and the epoch of the other producer."""
    harness = TransactionHarness()
    harness.init()
    harness.init(timeout_ms=1_000)
    harness.add((1_001, 1), version=0)
    harness.end((1_001, 1), commit=commit, version=0)
    harness.written()
    assert harness.end(P, commit=commit, version=2) == (ErrorCode.PRODUCER_FENCED, -1, -1)


@pytest.mark.parametrize("commit", [True, False])
def test_after_the_last_epoch_the_next_transaction_has_another_producer_id(commit: bool) -> None:
    harness = ended("Ongoing")
    harness.one().producer_epoch = FULL
    assert harness.end((1_001, FULL), commit=commit) == (0, 1_002, 0)
    assert harness.end((1_001, FULL), commit=commit) == (ErrorCode.CONCURRENT_TRANSACTIONS, -1, -1)
    assert (harness.markers["x"].producer_id, harness.markers["x"].producer_epoch) == (1_001, 32_767)
    assert (harness.one().producer_id, harness.one().next_producer_id) == (1_001, 1_002)
    harness.written()
    one = harness.one()
    assert (one.producer_id, one.producer_epoch, one.previous_producer_id, one.next_producer_id) == (
        1_002,
        0,
        1_001,
        -1,
    )
    assert harness.end((1_001, FULL), commit=commit) == (0, 1_002, 0), "once more"
    assert harness.end((1_001, FULL), commit=not commit) == (INVALID, -1, -1)
    assert harness.end((1_001, FULL - 1), commit=commit) == (ErrorCode.INVALID_PRODUCER_ID_MAPPING, -1, -1)
    assert harness.add((1_002, 0)) == 0


def test_an_old_client_keeps_its_last_epoch() -> None:
    harness = ended("Ongoing")
    harness.one().producer_epoch = FULL
    assert harness.end((1_001, FULL), version=0) == (0, -1, -1)
    harness.written()
    assert (harness.one().producer_id, harness.one().producer_epoch) == (1_001, FULL)


def test_end_txn_at_the_last_epoch_is_refused_without_a_spare_producer_id() -> None:
    harness = ended("Ongoing")
    harness.one().producer_epoch = FULL
    harness.next_producer_id = lambda: -1
    assert harness.end((1_001, FULL)) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)
    assert harness.one().state == "Ongoing"


def test_the_end_of_a_transaction_has_its_events() -> None:
    harness = TransactionHarness()
    harness.init()
    harness.add(P, {"t": [0, 1], "__consumer_offsets": [7]})
    harness.advance(40)
    harness.end(P)
    harness.advance(7)
    harness.written()
    ending, ended_ = harness.events[-2:]
    assert (ending.kind, ended_.kind) == (events.ENDING, events.COMMITTED)
    assert (ending.producer_epoch, ended_.producer_epoch) == (0, 0)
    start_ms = harness.now.wall_ms - 47
    assert ending.facts == {
        "is_committed": True,
        "cause": events.BY_CLIENT,
        "start_ms": start_ms,
        "open_ms": 40,
        "partitions": 3,
        "version": 2,
        "client_id": "c",
        "host": "/10.0.0.1",
    }
    topics = ended_.facts.pop("topics")
    assert {topic: sorted(ids) for topic, ids in topics.items()} == {"t": [0, 1], "__consumer_offsets": [7]}
    assert ended_.facts == {
        "cause": events.BY_CLIENT,
        "start_ms": start_ms,
        "took_ms": 47,
        "markers_ms": 7,
        "version": 2,
        "next_producer_id": 1_001,
        "next_producer_epoch": 1,
    }
    assert harness.core.state.endings == {}
