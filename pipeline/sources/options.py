"""The options of format("muster"), checked; see docs/pipeline-spark.md for what each means."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, NamedTuple

from muster.pipeline.schema import OFFSETS_TOPIC
from muster.pipeline.sources.segments import READ_COMMITTED, READ_UNCOMMITTED, Reading

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
        *("maxRowsPerTrigger", "waitForTopic"),
    )
}
"""Spark takes names of options in any case."""


class BadOption(ValueError):
    """An option, or a combination of them, that means nothing; the message names it and says what was expected."""


class Options(NamedTuple):
    """What was asked for."""

    path: str | None
    kafka: dict[str, str]
    """Options of the client, `bootstrap.servers` among them; empty for a path."""
    rows: str
    reading: Reading
    partitions: int
    starting: str
    max_rows: int
    wait: bool = False
    """A stream of a topic that is not there yet waits for it."""


def of_client(kafka: Mapping[str, str]) -> dict[str, str]:
    """The options of format("muster") for a client with these, `bootstrap.servers` among them."""
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
    isolation = _one_of(known, "isolationLevel", (READ_COMMITTED, READ_UNCOMMITTED))
    fail = _one_of(known, "failOnDamage", ("false", "true")) == "true"
    return Options(
        path,
        kafka,
        _one_of(known, "rows", (RAW_ROWS, DECODED_ROWS)),
        Reading(known.get("topic", OFFSETS_TOPIC), isolation, fail),
        _count(known, "numPartitions", os.cpu_count() or 1),
        _one_of(known, "startingOffsets", (EARLIEST, LATEST)),
        _count(known, "maxRowsPerTrigger", 1_000_000),
        _one_of(known, "waitForTopic", ("false", "true")) == "true",
    )


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
