"""The options of `muster analyze --follow`. Needs nothing of Spark's."""

from __future__ import annotations

import argparse
import re
from typing import Final, NamedTuple

from muster.pipeline.formats import DELTA, HTML, PARQUET

ALL: Final = "all"
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_OWN: Final = {"trigger": None, "once": False, "keep": None, "page_every": None, "table_format": None}
"""What only goes with --follow, and what it is when it was not given."""


class Follow(NamedTuple):
    """How to follow, checked."""

    trigger_ms: int
    once: bool
    keep_ms: int | None
    """None: everything is kept."""
    page_every: int
    table_format: str


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options to a parser."""
    group = parser.add_argument_group("following a live cluster")
    group.add_argument("--follow", action="store_true", help="keep tables and page up to date until it is ended")
    group.add_argument("--trigger", metavar="TIME", help="so often it is read on (default: 10s)")
    group.add_argument("--once", action="store_true", help="go on from the last time up to now, and end")
    group.add_argument("--keep", metavar="TIME", help="for how long the log is kept: 36h, 7d, all (default: 7d)")
    group.add_argument(
        "--page-every", type=int, metavar="N", help="a new page with every Nth version of the tables (default: 6)"
    )
    group.add_argument("--table-format", choices=(PARQUET, DELTA), help="of the tables (default: parquet)")


def read(options: argparse.Namespace) -> Follow | None:
    """Check what was given; None: it is not to follow. Raises ValueError with a sentence."""
    if not options.follow:
        for name, default in _OWN.items():
            if getattr(options, name) != default:
                raise ValueError(f"--{name.replace('_', '-')} goes with --follow: give that, or leave it out")
        return None
    _check_source(options)
    odd = [name for name in options.format.split(",") if name.strip().lower() not in (HTML, PARQUET)]
    if odd:
        raise ValueError(
            f"--format {options.format}: --follow writes html and parquet; analyze what it left for others"
        )
    page_every = 6 if options.page_every is None else options.page_every
    if page_every < 1:
        raise ValueError(f"--page-every {page_every}: expected 1 or more")
    return Follow(
        _milliseconds("--trigger", options.trigger or "10s"),
        options.once,
        None if options.keep == ALL else _milliseconds("--keep", options.keep or "7d"),
        page_every if HTML in options.format else 0,
        options.table_format or PARQUET,
    )


def _check_source(options: argparse.Namespace) -> None:
    if options.bootstrap_server is None:
        raise ValueError(f"--follow {options.source}: a live cluster is followed: give --bootstrap-server HOST:PORT")
    if options.until is not None:
        raise ValueError(f"--follow goes on and on: leave --until {options.until} out")
    if options.what_if not in ("default", "none"):
        raise ValueError(f"--what-if {options.what_if}: --follow tells what happened; ask an analysis what would have")


def _milliseconds(option: str, text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,9})(ms|s|m|h|d)", text)
    if match is None or int(match[1]) == 0:
        raise ValueError(f"{option} {text}: a time such as 500ms, 10s, 36h or 7d was expected")
    return int(match[1]) * _UNITS_MS[match[2]]
