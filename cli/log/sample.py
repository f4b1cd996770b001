"""`muster log sample` makes a sample of a group log. Users can try the other commands and the pipeline on it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from muster.cli.output import Steps, fail, printing, reason
from muster.coordinator.log.errors import LogError
from muster.coordinator.system.wall_time import UTC, format_wall, parse_wall_ms
from muster.simulation.sample.writing import END_MS, TRUTH_FILE, NotEmpty, Wanted, write

COMMAND: Final = "muster log sample"
MAX_GROUPS: Final = 100_000
HOUR_MS: Final = 3_600_000
MIN_HOURS: Final = 1.0
MAX_HOURS: Final = 24.0 * 31
_UNITS: Final = {"K": 1e3, "M": 1e6}


class InvalidOption(ValueError):
    """The value of an option is wrong. The message is for the user."""


def run_sample(options: argparse.Namespace) -> int:
    """Run `muster log sample`, and return the exit status."""

    def work() -> int:
        return sample(
            options.directory, groups=options.groups, hours=options.hours, seed=options.seed, records=options.records,
            end=options.end,
        )  # fmt: skip

    return printing(COMMAND, work)


def sample(
    directory: Path, *, groups: int, hours: float, seed: int, records: str | None = None, end: str | None = None
) -> int:
    """Make a sample in `directory`, and return the exit status."""
    try:
        wanted = wanted_of(groups, hours, seed, records, end)
    except InvalidOption as error:
        return fail(COMMAND, error, 2)
    try:
        with Steps(f"playing {groups} groups") as progress:
            written = write(directory, wanted, progress.reach)
    except NotEmpty:
        return fail(COMMAND, f"{directory} is not empty: give an empty directory, or a new one", 2)
    except (OSError, LogError) as error:
        return fail(COMMAND, f"{directory} cannot be written: {reason(error)}")
    span = f"{_shown(written.start_ms)} to {_shown(written.end_ms)}"
    print(f"{directory}: {written.groups} groups, one more with transactions, {written.commits:,} commits, {span} UTC")
    print(f"{directory / TRUTH_FILE}: what really happened")
    return 0


def wanted_of(groups: int, hours: float, seed: int, records: str | None, end: str | None) -> Wanted:
    """The parameters of the sample that the options describe. Raises InvalidOption."""
    if not 1 <= groups <= MAX_GROUPS:
        raise InvalidOption(f"--groups {groups}: a number from 1 to {MAX_GROUPS:,} was expected")
    if not MIN_HOURS <= hours <= MAX_HOURS:
        raise InvalidOption(f"--hours {hours:g}: a number from {MIN_HOURS:g} to {MAX_HOURS:g} was expected")
    try:
        end_ms = END_MS if end is None else parse_wall_ms(end)
    except (ValueError, OverflowError):
        raise InvalidOption(f"--end {end}: a time such as 2026-01-31T12:00 (UTC) was expected, or now") from None
    if end_ms < hours * HOUR_MS:
        raise InvalidOption(
            f"--end {end}: a time such as 2026-01-31T12:00 (UTC) was expected, and no beginning before 1970"
        )
    return Wanted(groups, hours, seed, None if records is None else _count(records), end_ms)


def _count(text: str) -> int:
    number, unit = (text[:-1], _UNITS[text[-1].upper()]) if text[-1:].upper() in _UNITS else (text, 1)
    try:
        count = round(float(number) * unit)
    except (ValueError, OverflowError):
        count = 0
    if not 1_000 <= count <= 1_000_000_000:
        raise InvalidOption(
            f"--records {text}: a number of commits such as 100000, 0.1M or 10M was expected, 1000 or more"
        )
    return count


def _shown(wall_ms: int) -> str:
    return format_wall(wall_ms, "%Y-%m-%d %H:%M", UTC)
