"""The values of the options of `muster groups`: groups, partitions, times, and plans, as in Kafka's tool."""

from __future__ import annotations

import argparse
import csv
import re
from collections.abc import Iterable, Sequence
from io import StringIO
from pathlib import Path
from typing import Final, NamedTuple

from muster.client.kafka_client import Partition
from muster.coordinator.config.checks import ConfigError
from muster.coordinator.system.wall_time import parse_wall_ms, wall_now_ms

_DURATION: Final = re.compile(
    r"(?P<sign>[-+])?P(?:(?P<d>[0-9]{1,6})D)?(?:T(?=.)(?:(?P<h>[0-9]{1,9})H)?(?:(?P<m>[0-9]{1,9})M)?"
    r"(?:(?P<s>[0-9]{1,9})(?:\.(?P<f>[0-9]{1,9}))?S)?)?",
    re.IGNORECASE,
)
_SHORT: Final = re.compile(r"([0-9]{1,9})(ms|s|m|h|d)")
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LARGEST_OFFSET: Final = (1 << 63) - 1


class Chosen(NamedTuple):
    """The value of one `--topic`: a topic and some of its partitions. `partitions` None: all its partitions."""

    topic: str
    partitions: tuple[int, ...] | None


class Planned(NamedTuple):
    """A line of the file of --from-file. `group` None: the line names no group."""

    group: str | None
    topic: str
    partition: int
    offset: int


def chosen_topic(word: str) -> Chosen:
    """Read TOPIC or TOPIC:0,1,4-6, as in Kafka's tool. Raises ConfigError."""
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
    """Read an offset, or the number of records of a shift. Raises ConfigError."""
    if re.fullmatch(r"[-+]?[0-9]{1,19}", text, re.ASCII) is None or not least <= int(text) <= _LARGEST_OFFSET:
        what = "an offset, 0 or more," if least == 0 else "a whole number, such as 10 or -10,"
        raise ConfigError(f"{option} {text}: {what} was expected")
    return int(text)


def duration_ms(option: str, text: str) -> int:
    """Read a duration in ISO 8601, as in Kafka's tool, or a short one such as 10s. Raises ConfigError."""
    if _SHORT.fullmatch(text) is not None:
        return short_duration_ms(option, text)
    match = _DURATION.fullmatch(text)
    if match is None or not any(match[unit] for unit in "dhms"):
        raise ConfigError(f"{option} {text}: a duration such as PT1H30M, P7D, 30m or 2h was expected")
    ms = sum(int(match[unit] or 0) * _UNITS_MS[unit] for unit in "dhms") + int((match["f"] or "")[:3].ljust(3, "0"))
    return -ms if match["sign"] == "-" else ms


def short_duration_ms(option: str, text: str) -> int:
    """Read a duration with its unit: 500ms, 10s, 5m, 2h, 1d. Raises ConfigError."""
    match = _SHORT.fullmatch(text)
    if match is None:
        raise ConfigError(f"{option} {text}: a time such as 500ms, 10s, 5m or 2h was expected")
    return int(match[1]) * _UNITS_MS[match[2]]


def time_ms(option: str, text: str) -> int:
    """Read a date with a time as wall ms. A text without a zone is in UTC. Raises ConfigError."""
    try:
        if "T" not in text:
            raise ValueError
        return parse_wall_ms(text)
    except ValueError:
        raise ConfigError(
            f"{option} {text}: a time such as 2026-01-31T08:00:00.000, or with a zone 2026-01-31T08:00:00+02:00, was "
            "expected"
        ) from None


def read_plan(file: Path) -> list[Planned]:
    """Read a file with lines topic,partition,offset or group,topic,partition,offset. Raises ConfigError."""
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
            raise ConfigError(f"{where}, line {number}: {one.topic}-{one.partition} stands there twice")
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
    """Write groups, partitions and offsets as CSV lines, which `read_plan` and Kafka's tool can read."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for group, (topic, partition), offset in rows:
        writer.writerow([group, topic, partition, offset] if with_group else [topic, partition, offset])
    return text.getvalue()


class Scenario(NamedTuple):
    """How new offsets are found. `name`: the option of Kafka's tool without `--`; `value`: offset, shift or wall ms."""

    name: str
    value: int = 0


class ResetPlan(NamedTuple):
    """The options of `offsets reset`."""

    groups: tuple[str, ...] | None
    topics: tuple[Chosen, ...] | None
    """None: all partitions with a committed offset. The scenario from-file ignores this field."""
    scenario: Scenario
    lines: tuple[Planned, ...]
    """The lines of the file, for the scenario from-file."""
    execute: bool
    form: str


SCENARIOS: Final = (
    *("to_earliest", "to_latest", "to_current", "to_offset", "shift_by", "to_datetime", "by_duration", "from_file"),
)


def check_groups(options: argparse.Namespace) -> None:
    """Check that either groups are named or --all-groups is given. Raises ConfigError."""
    for name in options.groups:
        check_name(name)
    if bool(options.groups) == options.all_groups:
        both = "both were given" if options.groups else "none was given"
        raise ConfigError(f"a GROUP or --all-groups was expected, one of them; {both}")


def check_name(group: str | None) -> None:
    """Check that the name of a group is not empty. None is allowed. Raises ConfigError."""
    if group == "":
        raise ConfigError("GROUP '': the name of a group was expected")


def check_group(options: argparse.Namespace) -> None:
    """Check the argument GROUP. Raises ConfigError."""
    check_name(options.group)


def check_form(options: argparse.Namespace) -> None:
    """Check that not both --json and --export are given. Raises ConfigError."""
    if options.json and options.export:
        raise ConfigError("--json and --export are two forms of the same; give one")


def group_names(options: argparse.Namespace) -> Sequence[str] | None:
    """The named groups; None: all groups."""
    return None if options.all_groups else options.groups


def output_form(options: argparse.Namespace) -> str:
    """The form of the output: text, json or csv."""
    return "json" if options.json else "csv" if options.export else "text"


def wanted_topics(options: argparse.Namespace) -> tuple[Chosen, ...] | None:
    """The values of --topic; None when --all-topics is given. Raises ConfigError."""
    if bool(options.topic) == options.all_topics:
        both = "both were given" if options.topic else "none was given"
        raise ConfigError(f"--topic TOPIC or --all-topics was expected, one of them; {both}")
    return tuple(map(chosen_topic, options.topic)) if options.topic else None


def reset_plan(options: argparse.Namespace) -> ResetPlan:
    """Read and check the options of `offsets reset`. Raises ConfigError."""
    check_groups(options)
    given = [one for one in SCENARIOS if getattr(options, one) not in (None, False)]
    words = [f"--{one.replace('_', '-')}" for one in SCENARIOS]
    if len(given) != 1:
        both = "none was given" if not given else f"{len(given)} were given"
        raise ConfigError(f"one of {', '.join(words)} was expected; {both}")
    (scenario,) = given
    option, value = f"--{scenario.replace('_', '-')}", getattr(options, scenario)
    plan: tuple[Planned, ...] = ()
    topics, number = None, 0
    if scenario == "from_file":
        if options.topic or options.all_topics:
            raise ConfigError("--from-file names the partitions: leave --topic and --all-topics out")
        plan = tuple(read_plan(value))
        if any(one.group is None for one in plan) and (options.all_groups or len(options.groups) > 1):
            raise ConfigError(
                f"--from-file {value}: lines of group,topic,partition,offset were expected for several groups"
            )
    else:
        topics = wanted_topics(options)
    if scenario == "to_offset":
        number = whole_number(option, value)
    elif scenario == "shift_by":
        number = whole_number(option, value, -(1 << 63))
    elif scenario == "to_datetime":
        number = time_ms(option, value)
    elif scenario == "by_duration":
        number = wall_now_ms() - duration_ms(option, value)
    named = None if options.all_groups else tuple(options.groups)
    return ResetPlan(named, topics, Scenario(option[2:], number), plan, options.execute, output_form(options))
