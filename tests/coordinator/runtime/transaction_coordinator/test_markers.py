"""The sender of markers."""

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
    """Remembers what is written where; `errors`: what partitions answer; None: nothing yet."""

    def __init__(self) -> None:
        self.written: list[tuple[Any, str, int]] = []
        self.errors: dict[tuple[str, int], int | None] = {}
        self.waiting: list[Any] = []

    def is_ready(self, topic: str, index: int) -> bool:
        return topic != "cold"

    def writing(self, marker: Any, topic: str, index: int, ended: Any) -> Job[None]:
        self.write(marker, topic, index, ended)
        yield None

    def write(self, marker: Any, topic: str, index: int, ended: Any) -> None:
        self.written.append((tuple(marker), topic, index))
        error = self.errors.get((topic, index), ErrorCode.NONE)
        if error is None:
            self.waiting.append(ended)
        else:
            ended(error)


class Bench:
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
def bench() -> Bench:
    return Bench()


DONE = [MarkersWritten("x", 7, 3)]


def test_each_partition_gets_the_marker_with_the_epoch_of_the_coordinator(bench: Bench) -> None:
    bench.send(("t", [0, 2]), ("u", [1]))
    marker = (7, 3, True, 12, 2)
    assert bench.writer.written == [(marker, "t", 0), (marker, "t", 2), (marker, "u", 1)]
    assert bench.done == DONE
    assert len(bench.sender) == 0


def test_a_transaction_without_partitions_is_complete_at_once(bench: Bench) -> None:
    bench.send()
    assert bench.done == DONE


def test_a_transaction_is_complete_when_all_markers_are_written(bench: Bench) -> None:
    bench.writer.errors = {("t", 0): None, ("t", 1): None}
    bench.send(("t", [0, 1, 2]))
    first, second = bench.writer.waiting
    second(ErrorCode.NONE)
    assert (bench.done, len(bench.sender)) == ([], 1)
    first(ErrorCode.NONE)
    assert bench.done == DONE


def test_a_marker_that_cannot_be_written_is_tried_again(bench: Bench) -> None:
    errors = [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_SERVER_ERROR]
    for index, error in enumerate(errors):
        bench.writer.errors["t", index] = error
    bench.send(("t", [0, 1, 2, 3]))
    bench.send(("t", [0]), transactional_id="y")
    assert len(bench.writer.written) == 5
    bench.clock.advance(RETRY_MS - 1)
    assert len(bench.writer.written) == 5
    bench.clock.advance(1)
    assert [row[1:] for row in bench.writer.written[5:]] == [("t", 0), ("t", 1), ("t", 2), ("t", 0)]
    bench.writer.errors.clear()
    assert bench.done == []
    bench.clock.advance(RETRY_MS)
    assert bench.done == [MarkersWritten("x", 7, 3), MarkersWritten("y", 7, 3)]
    bench.clock.advance(10 * RETRY_MS)
    assert len(bench.writer.written) == 13


def test_a_deleted_partition_needs_no_marker(bench: Bench) -> None:
    bench.writer.errors["t", 0] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    bench.send(("t", [0, 1]))
    assert bench.done == DONE


def test_a_partition_with_a_newer_producer_epoch_needs_no_marker(bench: Bench) -> None:
    bench.writer.errors["t", 0] = ErrorCode.INVALID_PRODUCER_EPOCH
    with capture_logs() as logs:
        bench.send(("t", [0, 1]))
    assert bench.done == DONE
    assert [(line["log_level"], line["transactional_id"], line["partition"]) for line in logs] == [("warning", "x", 0)]


def test_markers_refused_by_a_newer_coordinator_epoch_are_given_up(bench: Bench) -> None:
    bench.writer.errors = {("t", 0): ErrorCode.TRANSACTION_COORDINATOR_FENCED, ("t", 1): None}
    with capture_logs() as logs:
        bench.send(("t", [1, 0, 2]))
    bench.writer.waiting[0](ErrorCode.NONE)
    assert (bench.done, len(bench.sender), len(logs), len(bench.writer.written)) == ([], 0, 1, 2)


def test_a_newer_transaction_of_an_id_replaces_the_older_one(bench: Bench) -> None:
    bench.writer.errors = {("t", 0): None, ("t", 1): ErrorCode.KAFKA_STORAGE_ERROR}
    bench.send(("t", [0, 1]))
    bench.writer.errors = {}
    bench.send(("u", [0]), epoch=4)
    bench.writer.waiting[0](ErrorCode.NONE)
    bench.clock.advance(RETRY_MS)
    assert bench.done == [MarkersWritten("x", 7, 4)]
    assert len(bench.writer.written) == 3


def test_no_marker_is_sent_after_the_end(bench: Bench) -> None:
    bench.writer.errors = {("t", 0): None, ("t", 1): ErrorCode.KAFKA_STORAGE_ERROR}
    bench.send(("t", [0, 1]))
    bench.sender.close()
    bench.writer.waiting[0](ErrorCode.NONE)
    bench.clock.advance(RETRY_MS)
    bench.send(("t", [2]))
    assert (bench.done, len(bench.writer.written), bench.sender.closed) == ([], 2, True)
    Bench().sender.close()


def test_no_marker_is_sent_for_a_decision_that_was_not_written(bench: Bench) -> None:
    bench.sender.send("x")(WriteTxnMarkersResponse())
    assert (bench.writer.written, bench.done) == ([], [])


def test_markers_of_many_partitions_are_spread_over_iterations(bench: Bench) -> None:
    slow = bench.writer.write

    def write(*given: Any) -> None:
        bench.clock._move_to(bench.clock.mono_ms() + 1)
        slow(*given)

    bench.writer.write = write  # type: ignore[method-assign]
    bench.send(("t", list(range(100))))
    assert 0 < len(bench.writer.written) < 30
    bench.clock.advance(1_000)
    assert len(bench.writer.written) == 100
    assert bench.done == DONE


def test_markers_of_many_small_transactions_share_iterations(bench: Bench) -> None:
    slow = bench.writer.write

    def write(*given: Any) -> None:
        bench.clock._move_to(bench.clock.mono_ms() + 1)
        slow(*given)

    bench.writer.write = write  # type: ignore[method-assign]
    for number in range(20):
        bench.send(("t", [0, 1]), transactional_id=str(number))
    assert len(bench.writer.written) == SLICE_MS
    bench.clock.advance(1_000)
    assert len(bench.writer.written) == 40
    assert [done.transactional_id for done in bench.done] == [str(number) for number in range(20)]


def test_a_log_that_must_be_loaded_first_delays_no_other_marker(bench: Bench) -> None:
    bench.writer.errors["cold", 0] = None
    bench.send(("cold", [0]), ("t", [0]))
    assert [row[1:] for row in bench.writer.written] == [("cold", 0), ("t", 0)]
    bench.writer.waiting[0](ErrorCode.NONE)
    assert bench.done == DONE


def test_a_fault_of_the_marker_sender_is_logged(bench: Bench) -> None:
    with capture_logs() as logs:
        bench.sender.fault(RuntimeError("a bug"))
    assert logs[0]["event"] == "a marker could not be sent, by a fault of the server"
