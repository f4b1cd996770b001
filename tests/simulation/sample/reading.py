"""Reads a sample for tests: the truth, the history and the offsets log."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from muster.coordinator.log import batches
from muster.protocol.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from muster.protocol.records import OFFSETS
from muster.simulation.sample.writing import TRUTH_FILE

Row = dict[str, Any]


class Commit(NamedTuple):
    """One commit in the log; `offset` None: it was deleted."""

    group: str
    topic: str
    partition: int
    offset: int | None


def truth(directory: Path) -> dict[str, list[Row]]:
    """The lines of the truth, by kind."""
    found: dict[str, list[Row]] = defaultdict(list)
    for line in (directory / TRUTH_FILE).read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found[row["kind"]].append(row)
    return found


def records(directory: Path, topic: str) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Keys and values of all records of a topic except markers; those of one partition are in their order."""
    for file in sorted(directory.glob(f"{topic}-*/*.log")):
        for header, rows in batches.read(file.read_bytes()):
            if header.is_control:
                continue
            for record in rows:
                yield record.key, record.value


def history(directory: Path) -> list[Row]:
    """The events that the server wrote."""
    return [json.loads(value) for _, value in records(directory, "__group_events") if value is not None]


def commits(directory: Path) -> Iterator[Commit]:
    """All commits; those of one group are in their order."""
    for key, value in records(directory, "__consumer_offsets"):
        assert key is not None
        kind, where = OFFSETS.decode_key(key)
        if isinstance(where, OffsetCommitKey):
            reported = None if value is None else OFFSETS.decode_value(kind, value)[1]
            offset = reported.offset if isinstance(reported, OffsetCommitValue) else None
            yield Commit(where.group, where.topic, where.partition, offset)


def fingerprint(directory: Path) -> dict[str, str]:
    """The content of each file."""
    return {
        str(file.relative_to(directory)): sha256(file.read_bytes()).hexdigest()
        for file in sorted(directory.rglob("*"))
        if file.is_file()
    }
