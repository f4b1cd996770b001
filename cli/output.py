"""Prints the output of commands: lines, tables, JSON and progress bars.

Clients choose group names, reasons and metadata. Such texts must not control the terminal, begin a new line or change
the direction of writing. So all output passes `shown` or `as_json`.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from io import TextIOWrapper
from textwrap import wrap
from types import TracebackType
from typing import Self, TextIO
from unicodedata import category, east_asian_width

from muster.protocol.printable import shown

_MAYBE = re.compile("[^ -~]+")
_MIN_WIDTH = 40
_NOT_WRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
BAR_WIDTH = 30
LONG_BYTES = 64 * 1024 * 1024
"""Files with fewer bytes are read without a progress bar."""


def say(text: str, to: TextIO | None = None) -> None:
    """Print one line, made safe by `shown`, to `to` (default: stdout), and flush."""
    print(shown(text), file=to or sys.stdout, flush=True)


def fail(command: str, why: object, status: int = 1) -> int:
    """Print to stderr why a command fails, and return its exit status."""
    say(f"{command}: {reason(why)}", sys.stderr)
    return status


def reason(why: object) -> str:
    """Why something failed, in words: an OSError names its file, but not the number of the error."""
    if isinstance(why, OSError) and why.strerror is not None:
        return why.strerror if why.filename is None else f"{why.filename} cannot be used: {why.strerror}"
    return str(why)


def say_sentence(text: str) -> None:
    """Print a sentence to stdout, made safe by `shown`. On a terminal, the sentence is wrapped."""
    wide = terminal_width()
    for line in [shown(text)] if wide is None else wrap(shown(text), wide, subsequent_indent="    "):
        print(line, flush=True)


def terminal_width() -> int | None:
    """How many columns the terminal at stdout has; None: stdout is not a terminal, or is too narrow."""
    wide = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    return wide if wide >= _MIN_WIDTH else None


def width(text: str) -> int:
    """How many columns a text needs on a terminal. The text has passed `shown`."""
    if text.isascii():
        return len(text)
    return sum((1 + (east_asian_width(one) in "WF")) * (category(one) not in ("Mn", "Me")) for one in text)


def as_json(value: object) -> str:
    """Encode as JSON on one line. Letters of any script stay, and characters that cannot be printed are escaped."""
    return _MAYBE.sub(_escaped, json.dumps(value, ensure_ascii=False))


def _escaped(found: re.Match[str]) -> str:
    text = found[0]
    return text if text.isprintable() else "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in text)


def printing(command: str, work: Callable[[], int]) -> int:
    """Run a command that prints. Returns its status: 0 if a pipe is closed, 1 if stdout or a file cannot be used."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status = work()
        if sys.stdout is not None:  # stdout is None if the shell closed it with `>&-`
            sys.stdout.flush()
        return status
    except BrokenPipeError:
        _write_no_more()
        return 0
    except OSError as error:
        if error.filename is not None:
            return fail(command, error)
        if error.errno not in _NOT_WRITABLE:
            raise
        _write_no_more()
        print(f"{command}: its output cannot be written: {error.strerror}", file=sys.stderr)
        return 1


def _write_no_more() -> None:
    # the interpreter writes buffered output when it exits; so stdout becomes /dev/null
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def print_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table. Numbers are aligned to the right, and "-" stands for a missing value."""
    cells = [[_cell(one) for one in row] for row in rows]
    widths = _widths(head, cells)
    right = [any(isinstance(row[column], int) for row in rows) for column in range(len(head))]
    for row in (head, *cells):
        line = "  ".join(
            " " * (wide - width(cell)) + cell if is_right else cell + " " * (wide - width(cell))
            for cell, wide, is_right in zip(row, widths, right, strict=True)
        )
        say(line.rstrip())


def table_width(head: Sequence[str], rows: Sequence[Sequence[object]]) -> int:
    """How many columns of a terminal the table of `print_table` needs."""
    return sum(_widths(head, [[_cell(one) for one in row] for row in rows])) + 2 * (len(head) - 1)


def _widths(head: Sequence[str], cells: Sequence[Sequence[str]]) -> list[int]:
    return [max(width(row[column]) for row in (head, *cells)) for column in range(len(head))]


def print_json(value: Mapping[str, object]) -> None:
    """Print one JSON line."""
    print(as_json(value), flush=True)


def print_rows(head: Sequence[str], rows: Sequence[Sequence[object]], *, as_json: bool) -> None:
    """Print a table, or a JSON line for each row. The names in JSON are the heads in lower case."""
    if not as_json:
        if rows:
            print_table(head, rows)
        return
    names = [one.lower().replace(" ", "_") for one in head]
    for row in rows:
        print_json(dict(zip(names, row, strict=True)))


def _cell(value: object) -> str:
    return "-" if value is None or value == "" else shown(str(value))


class _Bar:
    """A bar that is visible while its block runs."""

    def __init__(self, what: str, *, is_long: bool = True) -> None:
        self._what = what
        self._shown = -1
        self._on = is_long and sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._on:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _show(self, percent: int, detail: str = "") -> None:
        if self._on and percent != self._shown:
            self._shown = percent
            filled = BAR_WIDTH * percent // 100
            bar = "#" * filled + "-" * (BAR_WIDTH - filled)
            print(f"\r\x1b[K{self._what} [{bar}] {percent:3} %{detail}", end="", file=sys.stderr, flush=True)


class Progress(_Bar):
    """A progress bar that counts bytes."""

    def __init__(self, what: str, total_bytes: int) -> None:
        super().__init__(what, is_long=total_bytes >= LONG_BYTES)
        self._total = max(total_bytes, 1)
        self._done = 0

    def add(self, count: int) -> None:
        """Add bytes to those that are done."""
        self._done += count
        percent = min(100 * self._done // self._total, 100)
        self._show(percent, f"  {self._done / 1e6:.0f} of {self._total / 1e6:.0f} MB")


class Steps(_Bar):
    """A progress bar from 0 to 1."""

    def reach(self, share: float) -> None:
        """Set how much is done, from 0 to 1."""
        self._show(int(100 * share))
