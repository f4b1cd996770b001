"""The arguments of `muster groups offsets reset`: partitions, times, plans in files, in the syntax of Kafka's tool."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from io import StringIO
from pathlib import Path
from typing import Final, NamedTuple

from muster.client.list_offsets import Partition
from muster.coordinator.config.error import ConfigError

_DURATION: Final = re.compile(
    r"(?P<sign>[-+])?P(?:(?P<d>[0-9]{1,6})D)?(?:T(?=.)(?:(?P<h>[0-9]{1,9})H)?(?:(?P<m>[0-9]{1,9})M)?"
    r"(?:(?P<s>[0-9]{1,9})(?:\.(?P<f>[0-9]{1,9}))?S)?)?",
    re.IGNORECASE,
)
_SHORT: Final = re.compile(r"([0-9]{1,9})(ms|s|m|h|d)")
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LARGEST_OFFSET: Final = (1 << 63) - 1


class Chosen(NamedTuple):
    """One `--topic`: a topic, and some of its partitions. `partitions` None: all of them."""

    topic: str
    partitions: tuple[int, ...] | None


class Planned(NamedTuple):
    """One line of a file. `group` None: the line names no group."""

    group: str | None
    topic: str
    partition: int
    offset: int


def topics(words: Sequence[str]) -> list[Chosen]:
    """TOPIC or TOPIC:0,1,4-6, as in Kafka's tool. Raises ConfigError."""
    return [_chosen(word) for word in words]


def _chosen(word: str) -> Chosen:
    topic, colon, numbers = word.rpartition(":")
    if not colon:
        topic = word
    expected = f"--topic '{word}': TOPIC was expected, or TOPIC:0,1,2 for some of its partitions"
    if not topic:
        raise ConfigError(expected)
    if not colon:
        return Chosen(topic, None)
    found: list[int] = []
    for part in numbers.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?", part, re.ASCII)
        if match is None:
            raise ConfigError(expected)
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first > 100_000:
            raise ConfigError(expected)
        found += range(first, last + 1)
    return Chosen(topic, tuple(dict.fromkeys(found)))


def whole_number(option: str, text: str, least: int = 0) -> int:
    """An offset, or the distance of a shift. Raises ConfigError."""
    if re.fullmatch(r"[-+]?[0-9]{1,19}", text, re.ASCII) is None or not least <= int(text) <= _LARGEST_OFFSET:
        what = "an offset, 0 or more," if least == 0 else "a whole number, such as 10 or -10,"
        raise ConfigError(f"{option} {text}: {what} was expected")
    return int(text)


def duration_ms(option: str, text: str) -> int:
    """A duration in ISO 8601 as in Kafka's tool, or 500ms, 10s, 5m, 2h, 1d. Raises ConfigError."""
    short = _SHORT.fullmatch(text)
    if short is not None:
        return int(short[1]) * _UNITS_MS[short[2]]
    match = _DURATION.fullmatch(text)
    if match is None or not any(match[unit] for unit in "dhms"):
        raise ConfigError(f"{option} {text}: a duration such as PT1H30M, P7D, 30m or 2h was expected")
    ms = sum(int(match[unit] or 0) * _UNITS_MS[unit] for unit in "dhms") + int((match["f"] or "")[:3].ljust(3, "0"))
    return -ms if match["sign"] == "-" else ms


def time_ms(option: str, text: str) -> int:
    """A date with a time, in UTC without a zone: wall ms. Raises ConfigError."""
    try:
        if "T" not in text:
            raise ValueError
        from muster.coordinator.system.clock import read_wall  # late: the clock loads asyncio

        return read_wall(text)
    except ValueError:
        raise ConfigError(
            f"{option} {text}: a time such as 2026-01-31T08:00:00.000, or with a zone 2026-01-31T08:00:00+02:00, was "
            "expected"
        ) from None


def read_plan(file: Path) -> list[Planned]:
    """The lines of a file: topic,partition,offset or group,topic,partition,offset. Raises ConfigError."""
    where = f"--from-file {file}"
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{where} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{where} is no text in UTF-8") from error
    found: dict[tuple[str | None, str, int], Planned] = {}
    try:
        rows = list(csv.reader(StringIO(text), strict=True))
    except csv.Error as error:
        raise ConfigError(f"{where} is no CSV: {error}") from error
    for number, row in enumerate(rows, 1):
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        one = _planned(cells, f"{where}, line {number}")
        if one[:3] in found:
            raise ConfigError(f"{where}, line {number}: {one.topic}-{one.partition} is there twice")
        found[one[:3]] = one
    if not found:
        raise ConfigError(f"{where} is empty: lines of topic,partition,offset were expected")
    return [*found.values()]


def _planned(cells: Sequence[str], where: str) -> Planned:
    numbers = cells[-2:]
    if len(cells) not in (3, 4) or not all(re.fullmatch("[0-9]{1,19}", one, re.ASCII) for one in numbers):
        expected = "topic,partition,offset or group,topic,partition,offset was expected"
        raise ConfigError(f"{where}: '{','.join(cells)}': {expected}")
    group = cells[0] if len(cells) == 4 else None
    return Planned(group, cells[-3], int(numbers[0]), int(numbers[1]))


def as_csv(rows: Iterable[tuple[str, Partition, int]], *, with_group: bool) -> str:
    """Groups, partitions and offsets as lines that `read_plan` and Kafka's tool read."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for group, (topic, partition), offset in rows:
        writer.writerow([group, topic, partition, offset] if with_group else [topic, partition, offset])
    return text.getvalue()
