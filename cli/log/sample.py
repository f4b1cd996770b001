"""`muster log sample`: makes a sample of a group log, to try the other commands and the pipeline on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from muster.cli.progress import Steps
from muster.coordinator.log.errors import LogError
from muster.coordinator.system.clock import UTC, read_wall, show_wall
from muster.simulation.sample.writing import END_MS, TRUTH_FILE, NotEmpty, Wanted, write

MOST_GROUPS: Final = 100_000
HOUR_MS: Final = 3_600_000
LEAST_HOURS: Final = 1.0
MOST_HOURS: Final = 24.0 * 31
_UNITS: Final = {"K": 1e3, "M": 1e6}


class BadWish(ValueError):
    """A value that cannot be understood; the message is for the user."""


def sample(
    directory: Path, *, groups: int, hours: float, seed: int, records: str | None = None, end: str | None = None
) -> int:
    """Make a sample in `directory`; the exit status."""
    try:
        wanted = wanted_of(groups, hours, seed, records, end)
    except BadWish as error:
        print(f"muster log sample: {error}", file=sys.stderr)
        return 2
    try:
        with Steps(f"playing {groups} groups") as progress:
            written = write(directory, wanted, progress.reach)
    except NotEmpty:
        what = f"{directory} is not empty: give a directory that is, or that is not there yet"
        print(f"muster log sample: {what}", file=sys.stderr)
        return 2
    except (OSError, LogError) as error:
        print(f"muster log sample: {directory} cannot be written: {error}", file=sys.stderr)
        return 1
    span = f"{_shown(written.start_ms)} to {_shown(written.end_ms)}"
    print(f"{directory}: {written.groups} groups, {written.commits:,} commits, {span} UTC")
    print(f"{directory / TRUTH_FILE}: what really happened")
    return 0


def wanted_of(groups: int, hours: float, seed: int, records: str | None, end: str | None) -> Wanted:
    """The parameters from the options. Raises BadWish."""
    if not 1 <= groups <= MOST_GROUPS:
        raise BadWish(f"--groups {groups}: a number from 1 to {MOST_GROUPS:,} was expected")
    if not LEAST_HOURS <= hours <= MOST_HOURS:
        raise BadWish(f"--hours {hours:g}: a number from {LEAST_HOURS:g} to {MOST_HOURS:g} was expected")
    try:
        end_ms = END_MS if end is None else read_wall(end)
    except (ValueError, OverflowError):
        raise BadWish(f"--end {end}: a time such as 2026-01-31T12:00 (UTC) was expected, or now") from None
    if end_ms < hours * HOUR_MS:
        raise BadWish(f"--end {end}: a time such as 2026-01-31T12:00 (UTC) was expected, and no beginning before 1970")
    return Wanted(groups, hours, seed, None if records is None else _count(records), end_ms)


def _count(text: str) -> int:
    number, unit = (text[:-1], _UNITS[text[-1].upper()]) if text[-1:].upper() in _UNITS else (text, 1)
    try:
        count = round(float(number) * unit)
    except (ValueError, OverflowError):
        count = 0
    if not 1_000 <= count <= 1_000_000_000:
        raise BadWish(f"--records {text}: a number of commits such as 100000, 0.1M or 10M was expected, 1000 or more")
    return count


def _shown(wall_ms: int) -> str:
    return show_wall(wall_ms, "%Y-%m-%d %H:%M", UTC)
