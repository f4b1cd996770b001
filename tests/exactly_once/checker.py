"""The outside checker: `python -m tests.exactly_once.checker DATADIR [--group G --input TOPIC --output TOPIC]`.

Reads the segments of a server that has ended, with its own code, and reports violations. For every partition:

* a transaction that has begun has its marker, when its coordinator has completed it;
* each marker was decided by the coordinator (a Prepare... in `__transaction_state`) with that outcome;
* no decision is missing in a partition, and no decision ends records twice: a second marker finds nothing to end;
* no marker comes from an older epoch of the coordinator than one before it, or of the producer;
* no record comes after a newer epoch of its producer was known;
* the transaction indexes name the aborted transactions, and no others.

`application.py` checks an application that reads, processes and writes.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.exactly_once.segments import (
    ABORT,
    COMMIT,
    TRANSACTIONS,
    Aborted,
    Batch,
    Place,
    Record,
    TransactionRecord,
    aborted,
    batches,
    partitions,
    transaction_record,
)

PREPARED = {"PrepareCommit": COMMIT, "PrepareAbort": ABORT}
OUTCOMES = {COMMIT: "commit", ABORT: "abort"}


@dataclass
class Decision:
    """A Prepare... record: what the coordinator decided of one transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    outcome: int
    places: tuple[Place, ...]
    is_complete: bool = False


@dataclass
class Marker:
    """A marker in a partition. `ended`: the first of the records that it ended, None if it found none."""

    offset: int
    producer_epoch: int
    outcome: int
    ended: int | None


@dataclass
class Partition:
    """What a partition holds, split at its markers."""

    place: Place
    markers: dict[int, list[Marker]] = field(default_factory=lambda: defaultdict(list))
    """The markers, by producer id."""
    committed: list[tuple[Batch, Record]] = field(default_factory=list)
    """Committed records in the order in which they became visible, with those outside transactions."""
    aborted: list[Aborted] = field(default_factory=list)
    undecided: dict[int, int] = field(default_factory=dict)
    """Producers whose transaction is open at the end, with its first offset."""
    end: int = 0


class Checker:
    """Reads a data directory. `faults`: the violations, as sentences."""

    def __init__(self, data_dir: Path) -> None:
        self.faults: list[str] = []
        self.decisions: list[Decision] = []
        self.partitions: dict[Place, Partition] = {}
        self.markers_without_effect = 0
        folders = dict(partitions(data_dir))
        for place, folder in folders.items():
            if place.topic == TRANSACTIONS:
                self._read_decisions(folder)
        for place, folder in folders.items():
            if place.topic != TRANSACTIONS:
                self.partitions[place] = self._read_partition(place, folder)
        for place in sorted({place for decision in self.decisions for place in decision.places}):
            self._compare(place)
        for place, partition in self.partitions.items():
            for producer_id in partition.markers.keys() - {one.producer_id for one in self.decisions}:
                self.faults.append(f"{_at(place)}: markers of producer {producer_id}, of which nothing was decided")
            for producer_id, first in partition.undecided.items():
                self.faults.append(
                    f"{_at(place)}: the transaction of producer {producer_id} from {first} has no marker"
                )

    def _read_decisions(self, folder: Path) -> None:
        newest: dict[str, Decision] = {}
        for _, record in _records(folder):
            row = transaction_record(record)
            if row is None:
                continue
            before = newest.pop(row.transactional_id, None)
            if row.state in PREPARED:
                newest[row.transactional_id] = decision = _decision(row)
                if before is not None and before == decision:
                    newest[row.transactional_id] = before  # a decision is written once more, with nothing new
                    continue
                if before is not None:
                    self.faults.append(f"{row.transactional_id}: decided anew before it was complete: {row}")
                self.decisions.append(decision)
            elif before is not None:
                before.is_complete = True
                wanted = "CompleteCommit" if before.outcome == COMMIT else "CompleteAbort"
                if row.state != wanted:
                    self.faults.append(f"{row.transactional_id}: {wanted} was to come, not {row}")
        for decision in newest.values():
            self.faults.append(f"{decision.transactional_id}: prepared and never completed: {decision}")

    def _read_partition(self, place: Place, folder: Path) -> Partition:
        found = Partition(place)
        open_: dict[int, list[tuple[Batch, Record]]] = {}
        epochs: dict[int, int] = {}
        coordinators: dict[int, int] = {}
        for batch in batches(folder):
            found.end = batch.last_offset + 1
            producer = batch.producer_id
            if producer >= 0:
                if batch.producer_epoch < epochs.get(producer, -1):
                    kind = "a marker" if batch.is_control else "a record"
                    self.faults.append(
                        f"{_at(place, batch.base_offset)}: {kind} of producer {producer} with epoch "
                        f"{batch.producer_epoch}, after epoch {epochs[producer]}"
                    )
                if not batch.is_control and producer in open_ and batch.producer_epoch != epochs[producer]:
                    self.faults.append(f"{_at(place, batch.base_offset)}: two epochs of {producer} in one transaction")
                epochs[producer] = max(batch.producer_epoch, epochs.get(producer, -1))
            if not batch.is_control:
                rows = [(batch, record) for record in batch.records]
                if batch.is_transactional:
                    open_.setdefault(producer, []).extend(rows)
                else:
                    found.committed += rows
                continue
            outcome, coordinator_epoch = batch.marker
            if coordinator_epoch < coordinators.get(producer, -1):
                self.faults.append(
                    f"{_at(place, batch.base_offset)}: a marker of producer {producer} from the coordinator's epoch "
                    f"{coordinator_epoch}, after one from {coordinators[producer]}"
                )
            coordinators[producer] = max(coordinator_epoch, coordinators.get(producer, -1))
            rows = open_.pop(producer, [])
            first = rows[0][0].base_offset if rows else None
            found.markers[producer].append(Marker(batch.base_offset, batch.producer_epoch, outcome, first))
            if not rows:
                self.markers_without_effect += 1
            elif outcome == COMMIT:
                found.committed += rows
            else:
                stable = min((one[0][0].base_offset for one in open_.values()), default=batch.last_offset + 1)
                found.aborted.append(Aborted(producer, rows[0][0].base_offset, batch.base_offset, stable))
        found.undecided = {producer: rows[0][0].base_offset for producer, rows in open_.items()}
        reported = aborted(folder)
        if reported != found.aborted:
            self.faults.append(f"{_at(place)}: its transaction index names {reported}, aborted are {found.aborted}")
        return found

    def _compare(self, place: Place) -> None:
        """Compare the decisions about a partition with its markers."""
        partition = self.partitions.get(place)
        by_producer: dict[int, list[Decision]] = defaultdict(list)
        for decision in self.decisions:
            if place in decision.places:
                by_producer[decision.producer_id].append(decision)
        for producer, decisions in by_producer.items():
            markers = partition.markers.get(producer, []) if partition is not None else []
            if not _agree(decisions, markers):
                self.faults.append(f"{_at(place)}: of producer {producer} was decided {decisions}, marked {markers}")


def _agree(decisions: list[Decision], markers: list[Marker]) -> bool:
    """Whether the markers match the decisions: each decision has a marker, in order, and has an effect at most once."""
    reached = {0}
    """The numbers of decisions that the markers so far may have carried out."""
    for number, marker in enumerate(markers):
        after = set()
        for done in reached:
            if done < len(decisions) and _is_of(decisions[done], marker):
                after.add(done + 1)
            if done and number and marker.ended is None and _is_of(decisions[done - 1], marker):
                after.add(done)  # a marker once more, without effect
        reached = after
    return len(decisions) in reached


def _is_of(decision: Decision, marker: Marker) -> bool:
    return (decision.producer_epoch, decision.outcome) == (marker.producer_epoch, marker.outcome)


def _decision(row: TransactionRecord) -> Decision:
    return Decision(row.transactional_id, row.producer_id, row.producer_epoch, PREPARED[row.state], row.places)


def _records(folder: Path) -> Iterator[tuple[Batch, Record]]:
    for batch in batches(folder):
        if not batch.is_control:
            yield from ((batch, record) for record in batch.records)


def _at(place: Place, offset: int | None = None) -> str:
    return f"{place.topic}-{place.partition}" + ("" if offset is None else f" at {offset}")


def main() -> int:
    """Exit status 1 when something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.exactly_once.checker", description=__doc__)
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--group", help="of the application")
    parser.add_argument("--input", help="the topic it reads")
    parser.add_argument("--output", help="the topic it writes")
    options = parser.parse_args()
    checker = Checker(options.data_dir)
    faults = checker.faults
    if options.group:
        from tests.exactly_once.application import judge

        faults = faults + judge(checker, options.group, options.input, options.output)
    for fault in faults:
        print(fault)
    print(
        f"{len(checker.decisions)} transactions, {sum(one.outcome == ABORT for one in checker.decisions)} aborted, "
        f"{checker.markers_without_effect} markers without effect; {len(faults)} faults"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
