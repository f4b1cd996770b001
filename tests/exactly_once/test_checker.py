"""The outside checker finds violations: each test writes segments with one fault."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.coordinator.log import batches
from tests.exactly_once.application import judge
from tests.exactly_once.checker import Checker
from tests.exactly_once.segments import ABORT, COMMIT, STATES, Place
from tests.support.markers import build_control

NOW = 1_700_000_000_000
OUTPUT, OFFSETS, STATE = Place("counted", 0), Place("__consumer_offsets", 0), Place("__transaction_state", 0)
PRODUCER = 7
NUMBERS = {name: number for number, name in STATES.items()}


class Directory:
    """A data directory that is written batch by batch."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ends: dict[Place, int] = {}
        self.aborted: dict[Place, bytes] = {}

    def append(self, place: Place, data: bytearray, count: int = 1) -> None:
        folder = self.path / f"{place.topic}-{place.partition}"
        folder.mkdir(exist_ok=True)
        base = self.ends.get(place, 0)
        struct.pack_into(">q", data, 0, base)
        with (folder / f"{0:020}.log").open("ab") as file:
            file.write(data)
        self.ends[place] = base + count

    def records(
        self, place: Place, *values: bytes, epoch: int = 0, producer: int = PRODUCER, key: bytes | None = None
    ) -> None:
        """The records of a transaction."""
        rows = [(key, value) for value in values]
        ids = {"producer_id": producer, "producer_epoch": epoch, "base_sequence": 0}
        self.append(place, batches.build(rows, timestamp_ms=NOW, transactional=True, **ids), len(values))

    def marker(
        self, place: Place, kind: int, *, epoch: int = 0, coordinator_epoch: int = 0, index: bool = True
    ) -> None:
        data = build_control(
            kind, timestamp_ms=NOW, producer_id=PRODUCER, producer_epoch=epoch, coordinator_epoch=coordinator_epoch
        )
        self.append(place, data)

    def aborts(self, place: Place, first: int, last: int) -> None:
        """Write the transaction index."""
        folder = self.path / f"{place.topic}-{place.partition}"
        with (folder / f"{0:020}.txnindex").open("ab") as file:
            file.write(struct.pack(">hqqqq", 0, PRODUCER, first, last, last + 1))

    def state(self, name: str, *places: Place, epoch: int = 0) -> None:
        key = struct.pack(">hh", 0, 1) + b"t"
        value = struct.pack(">hqhib", 0, PRODUCER, epoch, 60_000, NUMBERS[name]) + struct.pack(">i", len(places))
        for place in places:
            topic = place.topic.encode()
            value += struct.pack(">h", len(topic)) + topic + struct.pack(">ii", 1, place.partition)
        value += struct.pack(">qq", NOW, NOW)
        self.append(STATE, batches.build([(key, value)], timestamp_ms=NOW))

    def offset(self, offset: int, epoch: int = 0) -> None:
        """An offset of input partition 0, in a transaction."""
        key = struct.pack(">hh", 1, 1) + b"g" + struct.pack(">h", 7) + b"numbers" + struct.pack(">i", 0)
        value = struct.pack(">hqih", 3, offset, -1, 0) + struct.pack(">q", NOW)
        self.records(OFFSETS, value, key=key, epoch=epoch)

    def transaction(self, number: int, *, value: bytes | None = None, offset: int | None = None) -> None:
        """A whole committed transaction: one output, one offset."""
        self.records(OUTPUT, value or b"0:%d:%d:w" % (number, number), epoch=number)
        self.offset(number + 1 if offset is None else offset, epoch=number)
        self.state("PrepareCommit", OUTPUT, OFFSETS, epoch=number)
        self.marker(OUTPUT, COMMIT, epoch=number)
        self.marker(OFFSETS, COMMIT, epoch=number)
        self.state("CompleteCommit", epoch=number)

    def numbers(self, count: int) -> None:
        for number in range(count):
            self.append(Place("numbers", 0), batches.build([(None, b"%d" % number)], timestamp_ms=NOW))


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    return Directory(tmp_path)


def test_the_checker_finds_no_fault_in_sound_segments(directory: Directory) -> None:
    directory.numbers(2)
    directory.transaction(0)
    directory.transaction(1)
    directory.records(OUTPUT, b"0:9:9:w", epoch=2)
    directory.state("PrepareAbort", OUTPUT, epoch=2)
    directory.marker(OUTPUT, ABORT, epoch=2)
    directory.marker(OUTPUT, ABORT, epoch=2, coordinator_epoch=1)  # the same marker again, by the next coordinator
    directory.state("CompleteAbort", epoch=2)
    directory.aborts(OUTPUT, 4, 5)
    checker = Checker(directory.path)
    assert checker.faults == []
    assert judge(checker, "g", "numbers", "counted") == []
    assert (len(checker.decisions), checker.markers_without_effect) == (3, 1)


def missing(directory: Directory) -> None:
    directory.records(OUTPUT, b"x")
    directory.state("PrepareCommit", OUTPUT)
    directory.state("CompleteCommit")


def twice(directory: Directory) -> None:
    directory.transaction(0)
    directory.records(OUTPUT, b"x")
    directory.marker(OUTPUT, COMMIT)


def undecided(directory: Directory) -> None:
    directory.records(OUTPUT, b"x")
    directory.marker(OUTPUT, COMMIT)


def otherwise(directory: Directory) -> None:
    directory.records(OUTPUT, b"x")
    directory.state("PrepareAbort", OUTPUT)
    directory.marker(OUTPUT, COMMIT)
    directory.state("CompleteAbort")


def of_an_old_coordinator(directory: Directory) -> None:
    directory.records(OUTPUT, b"x")
    directory.state("PrepareCommit", OUTPUT)
    directory.marker(OUTPUT, COMMIT, coordinator_epoch=2)
    directory.marker(OUTPUT, COMMIT, coordinator_epoch=1)
    directory.state("CompleteCommit")


def of_a_zombie(directory: Directory) -> None:
    directory.transaction(1)
    directory.records(OUTPUT, b"x", epoch=0)


def not_complete(directory: Directory) -> None:
    directory.records(OUTPUT, b"x")
    directory.state("PrepareCommit", OUTPUT)
    directory.marker(OUTPUT, COMMIT)


def not_in_the_index(directory: Directory) -> None:
    directory.records(OUTPUT, b"x")
    directory.state("PrepareAbort", OUTPUT)
    directory.marker(OUTPUT, ABORT)
    directory.state("CompleteAbort")


@pytest.mark.parametrize(
    ("break_it", "reported"),
    [
        (missing, "has no marker"),
        (twice, "was decided"),
        (undecided, "of which nothing was decided"),
        (otherwise, "was decided"),
        (of_an_old_coordinator, "from the coordinator's epoch 1, after one from 2"),
        (of_a_zombie, "with epoch 0, after epoch 1"),
        (not_complete, "prepared and never completed"),
        (not_in_the_index, "its transaction index names []"),
    ],
)
def test_the_checker_detects_each_kind_of_damage(
    directory: Directory, break_it: Callable[[Directory], None], reported: str
) -> None:
    break_it(directory)
    assert any(reported in fault for fault in Checker(directory.path).faults)


@pytest.mark.parametrize(
    ("value", "offset", "reported"),
    [
        (b"0:0:0:w", None, "1 records were counted twice"),
        (b"0:1:5:w", None, "was never in the input"),
        (None, 1, "2 records, committed are 1"),
        (b"0:7:7:w", None, "1 records were never counted"),
    ],
)
def test_a_wrong_count_of_the_application_is_detected(
    directory: Directory, value: bytes | None, offset: int | None, reported: str
) -> None:
    directory.numbers(2)
    directory.transaction(0)
    directory.transaction(1, value=value, offset=offset)
    checker = Checker(directory.path)
    assert checker.faults == []
    assert any(reported in fault for fault in judge(checker, "g", "numbers", "counted"))


def test_offsets_and_records_in_different_transactions_are_detected(directory: Directory) -> None:
    directory.numbers(2)
    directory.transaction(0, offset=0)
    directory.transaction(1)
    faults = judge(Checker(directory.path), "g", "numbers", "counted")
    assert any("written by (7, 0), committed by (7, 1)" in fault for fault in faults)
