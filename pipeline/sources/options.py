"""The checked options of format("muster"). docs/pipeline-spark.md explains each option."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

import pyarrow as pa

from muster.pipeline.schema import DECODED, OFFSETS_TOPIC, RAW
from muster.pipeline.sources.segments import READ_COMMITTED, READ_UNCOMMITTED, Reading, RowFilter

RAW_ROWS: Final = "raw"
DECODED_ROWS: Final = "decoded"
BOOTSTRAP: Final = "bootstrap.servers"
KAFKA_PREFIX: Final = "kafka."
EARLIEST: Final = "earliest"
LATEST: Final = "latest"

_NAMES: Final = {
    name.lower(): name
    for name in (
        *("path", "rows", "topic", "isolationLevel", "failOnDamage", "numPartitions", "startingOffsets"),
        *("maxRowsPerTrigger", "waitForTopic", "columns", "partitions", "groups", "since", "until"),
    )
}
"""The names of the options by their lower-case forms. Spark accepts names in any case."""

_SPAN: Final = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")
_BETWEEN: Final = re.compile(r",(?![^\[]*\])")
"""Separates two patterns: a comma. A comma inside a name is written [,]."""


class BadOption(ValueError):
    """A wrong option, or a wrong combination of options. The message names it and says what was expected."""


class Options(NamedTuple):
    """The options of one read."""

    path: str | None
    kafka: dict[str, str]
    """The options of the Kafka client, with `bootstrap.servers`; empty if the source is a path."""
    rows: str
    reading: Reading
    partitions: int
    starting: str
    max_rows: int
    wait: bool = False
    """Whether a stream waits for a topic that does not exist yet."""
    columns: tuple[str, ...] = ()
    """The wanted columns; empty: all columns."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows, before `columns` is applied."""
        return DECODED if self.rows == DECODED_ROWS else RAW


def of_client(kafka: Mapping[str, str]) -> dict[str, str]:
    """The options of format("muster") for a client with these options, which include `bootstrap.servers`."""
    return {name if name == BOOTSTRAP else f"{KAFKA_PREFIX}{name}": value for name, value in kafka.items()}


def options_of(given: Mapping[str, str]) -> Options:
    """Read the options. Raises BadOption."""
    known: dict[str, str] = {}
    kafka: dict[str, str] = {}
    for name, value in given.items():
        if name.lower() == BOOTSTRAP or name.lower().startswith(KAFKA_PREFIX):
            kafka[name.lower().removeprefix(KAFKA_PREFIX)] = value
        elif name.lower() in _NAMES:
            known[_NAMES[name.lower()]] = value
        else:
            names = ", ".join(_NAMES.values())
            raise BadOption(f'format("muster") has no option {name}: it takes {BOOTSTRAP}, kafka.*, {names}')
    path = known.get("path")
    if (path is None) == (not kafka):
        raise BadOption(
            f'format("muster") reads segment files (option path) or a cluster (option {BOOTSTRAP}): give one of them'
        )
    if kafka and BOOTSTRAP not in kafka:
        raise BadOption(f"options kafka.* are given ({', '.join(sorted(kafka))}), but no {BOOTSTRAP}")
    rows = _one_of(known, "rows", (RAW_ROWS, DECODED_ROWS))
    isolation = _one_of(known, "isolationLevel", (READ_COMMITTED, READ_UNCOMMITTED))
    fail = _one_of(known, "failOnDamage", ("false", "true")) == "true"
    return Options(
        path,
        kafka,
        rows,
        Reading(known.get("topic", OFFSETS_TOPIC), isolation, fail, _row_filter(known, rows)),
        _count(known, "numPartitions", os.cpu_count() or 1),
        _one_of(known, "startingOffsets", (EARLIEST, LATEST)),
        _count(known, "maxRowsPerTrigger", 1_000_000),
        _one_of(known, "waitForTopic", ("false", "true")) == "true",
        _columns(known.get("columns"), DECODED if rows == DECODED_ROWS else RAW),
    )


def _row_filter(known: Mapping[str, str], rows: str) -> RowFilter:
    groups = tuple(_BETWEEN.split(known["groups"])) if "groups" in known else ()
    if groups and rows != DECODED_ROWS:
        raise BadOption("option groups: only decoded rows have groups: give rows=decoded too")
    return RowFilter(_numbers(known.get("partitions")), _time(known, "since"), _time(known, "until"), groups)


def _numbers(text: str | None) -> frozenset[int] | None:
    if text is None:
        return None
    found: set[int] = set()
    for part in text.split(","):
        match = _SPAN.fullmatch(part.strip())
        if match is None:
            raise BadOption(f"option partitions={text}: expected numbers such as 3,7,10-19")
        found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(found)


def _time(known: Mapping[str, str], name: str) -> int | None:
    text = known.get(name)
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise BadOption(
            f"option {name}={text}: expected a time such as 2026-01-31T08:00 (UTC) or …T08:00+01:00"
        ) from None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def _columns(text: str | None, schema: pa.Schema) -> tuple[str, ...]:
    if text is None:
        return ()
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in schema.names:
            raise BadOption(f"option columns={text}: there is no column {name!r}: {', '.join(schema.names)}")
    if len(set(names)) < len(names):
        raise BadOption(f"option columns={text}: a column is named twice")
    return names


def _one_of(given: Mapping[str, str], name: str, values: tuple[str, ...]) -> str:
    value = given.get(name, values[0]).lower()
    if value not in values:
        raise BadOption(f"option {name}={given[name]}: expected {' or '.join(values)}")
    return value


def _count(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise BadOption(f"option {name}={text}: expected a whole number of 1 or more")
    return int(text)
