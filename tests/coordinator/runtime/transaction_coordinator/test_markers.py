"""How markers are sent."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from muster.coordinator.runtime.transaction_coordinator.markers import RETRY_MS, MarkerSender
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.system.jobs import SLICE_MS, Job, JobQueue
from muster.coordinator.transactions.commands import MarkersWritten
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


class Writer:
    """Notes what is written to which partition. `errors`: the answers of partitions; None: no answer yet."""

    def __init__(self) -> None:
        self.written: list[tuple[Any, str, int]] = []
        self.errors: dict[tuple[str, int], int | None] = {}
        self.waiting: list[Any] = []

    def writing(self, marker: Any, topic: str, index: int, ended: Any) -> Job[None]:
        self.write(marker, topic, index, ended)
        yield None

    def write(self, marker: Any, topic: str, index: int, ended: Any, *, if_loaded: bool = False) -> bool:
        if if_loaded and topic == "cold":
            return False
        self.written.append((tuple(marker), topic, index))
        error = self.errors.get((topic, index), ErrorCode.NONE)
        if error is None:
            self.waiting.append(ended)
        else:
            ended(error)
        return True


class MarkerHarness:
    def __init__(self) -> None:
        self.clock, self.writer = ManualClock(), Writer()
        self.done: list[MarkersWritten] = []
        writer: Any = self.writer
        self.sender = MarkerSender(writer, JobQueue(self.clock), self.clock, lambda: 12, self.done.append)

    def send(self, *topics: tuple[str, list[int]], transactional_id: str = "x", epoch: int = 3) -> None:
        rows = [WritableTxnMarkerTopic(name, indexes) for name, indexes in topics]
        self.sender.send(transactional_id)(
            WriteTxnMarkersRequest([WritableTxnMarker(7, epoch, True, rows, transaction_version=2)])
        )


@pytest.fixture
def harness() -> MarkerHarness:
    return MarkerHarness()


DONE = [MarkersWritten("x", 7, 3)]


def test_each_partition_gets_the_marker_with_the_epoch_of_the_coordinator(harness: MarkerHarness) -> None:
    harness.send(("t", [0, 2]), ("u", [1]))
    marker = (7, 3, True, 12, 2)
    assert harness.writer.written == [(marker, "t", 0), (marker, "t", 2), (marker, "u", 1)]
    assert harness.done == DONE
    assert len(harness.sender) == 0


def test_a_transaction_without_partitions_is_complete_at_once(harness: MarkerHarness) -> None:
    harness.send()
    assert harness.done == DONE


def test_a_transaction_is_complete_when_all_markers_are_written(harness: MarkerHarness) -> None:
    harness.writer.errors = {("t", 0): None, ("t", 1): None}
    harness.send(("t", [0, 1, 2]))
    first, second = harness.writer.waiting
    second(ErrorCode.NONE)
    assert (harness.done, len(harness.sender)) == ([], 1)
    first(ErrorCode.NONE)
    assert harness.done == DONE


def test_a_marker_that_cannot_be_written_is_tried_again(harness: MarkerHarness) -> None:
    errors = [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_SERVER_ERROR]
    for index, error in enumerate(errors):
        harness.writer.errors["t", index] = error
    harness.send(("t", [0, 1, 2, 3]))
    harness.send(("t", [0]), transactional_id="y")
    assert len(harness.writer.written) == 5
    harness.clock.advance(RETRY_MS - 1)
    assert len(harness.writer.written) == 5
    harness.clock.advance(1)
    assert [row[1:] for row in harness.writer.written[5:]] == [("t", 0), ("t", 1), ("t", 2), ("t", 0)]
    harness.writer.errors.clear()
    assert harness.done == []
    harness.clock.advance(RETRY_MS)
    assert harness.done == [MarkersWritten("x", 7, 3), MarkersWritten("y", 7, 3)]
    harness.clock.advance(10 * RETRY_MS)
    assert len(harness.writer.written) == 13


def test_a_deleted_partition_needs_no_marker(harness: MarkerHarness) -> None:
    harness.writer.errors["t", 0] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    harness.send(("t", [0, 1]))
    assert harness.done == DONE


def test_a_partition_with_a_newer_producer_epoch_needs_no_marker(harness: MarkerHarness) -> None:
    harness.writer.errors["t", 0] = ErrorCode.INVALID_PRODUCER_EPOCH
    with capture_logs() as logs:
        harness.send(("t", [0, 1]))
    assert harness.done == DONE
    assert [(line["log_level"], line["transactional_id"], line["partition"]) for line in logs] == [("warning", "x", 0)]


def test_markers_refused_by_a_newer_coordinator_epoch_are_given_up(harness: MarkerHarness) -> None:
    harness.writer.errors = {("t", 0): ErrorCode.TRANSACTION_COORDINATOR_FENCED, ("t", 1): None}
    with capture_logs() as logs:
        harness.send(("t", [1, 0, 2]))
    harness.writer.waiting[0](ErrorCode.NONE)
    assert (harness.done, len(harness.sender), len(logs), len(harness.writer.written)) == ([], 0, 1, 2)


def test_a_newer_transaction_of_an_id_replaces_the_older_one(harness: MarkerHarness) -> None:
    harness.writer.errors = {("t", 0): None, ("t", 1): ErrorCode.KAFKA_STORAGE_ERROR}
    harness.send(("t", [0, 1]))
    harness.writer.errors = {}
    harness.send(("u", [0]), epoch=4)
    harness.writer.waiting[0](ErrorCode.NONE)
    harness.clock.advance(RETRY_MS)
    assert harness.done == [MarkersWritten("x", 7, 4)]
    assert len(harness.writer.written) == 3


def test_no_marker_is_sent_after_the_end(harness: MarkerHarness) -> None:
    harness.writer.errors = {("t", 0): None, ("t", 1): ErrorCode.KAFKA_STORAGE_ERROR}
    harness.send(("t", [0, 1]))
    harness.sender.close()
    harness.writer.waiting[0](ErrorCode.NONE)
    harness.clock.advance(RETRY_MS)
    harness.send(("t", [2]))
    assert (harness.done, len(harness.writer.written), harness.sender.closed) == ([], 2, True)
    MarkerHarness().sender.close()


def test_no_marker_is_sent_for_a_decision_that_was_not_written(harness: MarkerHarness) -> None:
    harness.sender.send("x")(WriteTxnMarkersResponse())
    assert (harness.writer.written, harness.done) == ([], [])


def test_markers_of_many_partitions_are_spread_over_iterations(harness: MarkerHarness) -> None:
    slow = harness.writer.write

    def write(*given: Any) -> None:
        harness.clock._move_to(harness.clock.mono_ms() + 1)
        slow(*given)

    harness.writer.write = write
    harness.send(("t", list(range(100))))
    assert 0 < len(harness.writer.written) < 30
    harness.clock.advance(1_000)
    assert len(harness.writer.written) == 100
    assert harness.done == DONE


def test_markers_of_many_small_transactions_share_iterations(harness: MarkerHarness) -> None:
    slow = harness.writer.write

    def write(*given: Any, if_loaded: bool = False) -> bool:
        harness.clock._move_to(harness.clock.mono_ms() + 1)
        return slow(*given, if_loaded=if_loaded)

    harness.writer.write = write
    for number in range(20):
        harness.send(("t", [0, 1]), transactional_id=str(number))
    assert len(harness.writer.written) == SLICE_MS
    harness.clock.advance(1_000)
    assert len(harness.writer.written) == 40
    assert [done.transactional_id for done in harness.done] == [str(number) for number in range(20)]


def test_a_log_that_must_be_loaded_first_delays_no_other_marker(harness: MarkerHarness) -> None:
    harness.writer.errors["cold", 0] = None
    harness.send(("cold", [0]), ("t", [0]))
    assert [row[1:] for row in harness.writer.written] == [("cold", 0), ("t", 0)]
    harness.writer.waiting[0](ErrorCode.NONE)
    assert harness.done == DONE


def test_a_fault_of_the_marker_sender_is_logged(harness: MarkerHarness) -> None:
    with capture_logs() as logs:
        harness.sender.fault(RuntimeError("a bug"))
    assert logs[0]["event"] == "a marker could not be sent, because of a bug in the server"
