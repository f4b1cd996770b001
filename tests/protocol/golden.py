"""Reads the golden data: frames of real clients against Kafka 4.3.0, and real segments of __consumer_offsets."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from aiokafka.record import MemoryRecords

GOLDEN = Path(__file__).parents[1] / "golden"
RECORDINGS = sorted((GOLDEN / "wire").glob("*.jsonl.gz"))
SEGMENTS = sorted((GOLDEN / "offsets-log").glob("*/*.log"))


class Recorded(NamedTuple):
    """One frame without its size."""

    request: bool
    key: int
    version: int
    data: bytes


class LoggedRecord(NamedTuple):
    """One record of a segment."""

    partition: int
    offset: int
    key: bytes
    value: bytes | None


def frames(recording: Path) -> Iterator[Recorded]:
    """The frames of one recording, in order."""
    with gzip.open(recording, "rt") as lines:
        for line in lines:
            row = json.loads(line)
            yield Recorded(row["dir"] == "request", row["key"], row["version"], bytes.fromhex(row["hex"]))


def logged_records() -> Iterator[LoggedRecord]:
    """Every data record of the golden segments."""
    for segment in SEGMENTS:
        partition = int(segment.parent.name.rpartition("-")[2])
        records = MemoryRecords(segment.read_bytes())
        while (batch := records.next_batch()) is not None:
            if batch.is_control_batch:
                continue
            for record in batch:
                assert record.key is not None
                yield LoggedRecord(partition, record.offset, bytes(record.key), record.value and bytes(record.value))


def expected_records() -> dict[tuple[int, int], dict[str, Any]]:
    """Kafka's own tool's output for each record: (partition, offset) -> key and value."""
    with (GOLDEN / "offsets-log" / "expected.jsonl").open() as lines:
        rows = [json.loads(line) for line in lines]
    return {(row["partition"], row["offset"]): row for row in rows if "marker" not in row}
