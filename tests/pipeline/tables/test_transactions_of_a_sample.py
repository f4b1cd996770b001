"""Transactions with a known truth: what events, states alone, and the offsets log say of them. Without Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from muster.pipeline.infer.transaction_offsets import with_offsets
from muster.pipeline.infer.transaction_records import (
    Logged,
    Row,
    read_event,
    transactions_of_events,
    transactions_of_states,
)
from muster.pipeline.sources.segments import Reading, read_segments
from muster.pipeline.sources.transactions import partitions_of, parts_of
from muster.protocol.records import TRANSACTION_STATE
from muster.simulation.sample.writing import Wanted, write
from tests.simulation.sample.reading import truth

Truth = dict[tuple[str, int], tuple[str, str]]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("sample")
    write(directory, Wanted(groups=1, hours=2))
    return directory


def meant(sample: Path) -> Truth:
    """Outcome and cause by transactional id and begin, in the order of each id."""
    return {
        (row["transactional_id"], row["began"]): (row["outcome"], row["cause"]) for row in truth(sample)["transaction"]
    }


def rows(sample: Path, topic: str) -> list[dict[str, Any]]:
    found = [row for batch in read_segments(str(sample), Reading(topic)) for row in batch.to_pylist()]
    return sorted(found, key=lambda row: (row["partition"], row["offset"]))


def of_events(sample: Path) -> list[Row]:
    values: dict[str, list[dict[str, Any]]] = {}
    for row in rows(sample, "__transaction_events"):
        event = read_event(row["value"])
        assert event is not None
        if row["key"] is not None:
            values.setdefault(row["key"].decode(), []).append(event)
    return [row for name, some in values.items() for row in transactions_of_events(name, some)]


def of_states(sample: Path) -> list[Row]:
    records: dict[str, list[Logged]] = {}
    for row in rows(sample, "__transaction_state"):
        kind, key = TRANSACTION_STATE.decode_key(row["key"])
        value = TRANSACTION_STATE.decode_value(kind, row["value"])[1]
        records.setdefault(key.transactional_id, []).append(Logged(row["timestamp_ms"], value))
    return [row for name, some in records.items() for row in transactions_of_states(name, some)]


def reported(found: list[Row]) -> Truth:
    # the producer's begin is that of the answer, a few ms later: it is reported by the second
    return {
        (row["transactional_id"], row["start_ms"]): (row["outcome"], row["cause"]) for row in found if row.get("end_ms")
    }


def by_id(rows: Truth) -> dict[str, list[tuple[str, str]]]:
    ids = sorted({name for name, _ in rows})
    return {name: [rows[key] for key in sorted(rows) if key[0] == name] for name in ids}


def test_transactions_from_events_are_exact(sample: Path) -> None:
    wanted, found = meant(sample), reported(of_events(sample))
    assert by_id(found) == by_id(wanted)
    assert Counter(wanted.values()) == Counter(found.values())
    assert {cause for _, cause in wanted.values()} == {"client", "timeout", "new_producer"}
    assert len(wanted) > 100
    began = sorted(wanted)
    assert all(0 <= at - start <= 1_000 for (_, at), (_, start) in zip(began, sorted(found), strict=True))


def test_transactions_from_states_alone_are_the_same(sample: Path) -> None:
    assert by_id(reported(of_states(sample))) == by_id(meant(sample))


def test_fenced_producers_are_found(sample: Path) -> None:
    fenced = Counter(row["transactional_id"] for row in truth(sample)["fenced"])
    counted: Counter[str] = Counter()
    for row in of_events(sample):
        if row.get("fenced_ms") is not None and row["cause"] == "new_producer":
            counted[row["transactional_id"]] += 1
            assert row["fenced_requests"] >= 1
    assert counted == fenced


def test_the_offsets_log_alone_gives_number_and_outcome_of_transactions(sample: Path) -> None:
    parts = [part for segments in partitions_of(str(sample)) for part in parts_of(str(sample), segments)]
    by_producer: dict[int, list[dict[str, Any]]] = {}
    for part in parts:
        by_producer.setdefault(part["producer_id"], []).append(part)
    alone = [row for producer_id, some in by_producer.items() for row in with_offsets(producer_id, [], some, [])]
    wanted = Counter(outcome for outcome, _ in meant(sample).values())
    assert Counter(row["outcome"] for row in alone if row["end_ms"]) == wanted
    assert {(row["offsets"], *row["groups"]) for row in alone} == {(1, "exactly-once")}
