"""Printing of commands. Clients choose names of groups and members, reasons, and metadata. Such a text may not move the
cursor, begin a line or change the direction of writing. So all output passes `shown` or `as_json`.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from io import TextIOWrapper
from textwrap import wrap
from typing import TextIO
from unicodedata import category, east_asian_width

from muster.protocol.printable import shown

_MAYBE = re.compile("[^ -~]+")
"""Matches printable ASCII; any other text may have characters that are not printable."""
_LEAST = 40
_NOT_WRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def say(text: str, to: TextIO | None = None) -> None:
    """Print one line, `shown`, to stdout or to `to`, and flush it."""
    print(shown(text), file=to or sys.stdout, flush=True)


def say_sentence(text: str) -> None:
    """Print a sentence to stdout, `shown`; on a terminal in lines that fit."""
    wide = terminal_width()
    for line in [shown(text)] if wide is None else wrap(shown(text), wide, subsequent_indent="    "):
        print(line, flush=True)


def terminal_width() -> int | None:
    """The columns of the terminal at stdout; None: stdout is not a terminal, or is too narrow."""
    wide = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    return wide if wide >= _LEAST else None


def width(text: str) -> int:
    """How many columns a text takes after `shown`."""
    if text.isascii():
        return len(text)
    return sum((1 + (east_asian_width(one) in "WF")) * (category(one) not in ("Mn", "Me")) for one in text)


def as_json(value: object) -> str:
    """JSON on one line. Letters of any script stay, and characters that are not printable are escaped."""
    return _MAYBE.sub(_escaped, json.dumps(value, ensure_ascii=False))


def _escaped(found: re.Match[str]) -> str:
    text = found[0]
    return text if text.isprintable() else "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in text)


def printing(command: str, work: Callable[[], int]) -> int:
    """Run a command that prints to stdout; its exit status. If the reader closes the pipe, the status is 0. If stdout
    cannot be written, one sentence says so, and the status is 1. Letters that stdout cannot encode are escaped.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status = work()
        if sys.stdout is not None:  # None if it was closed from the start, as by `>&-`
            sys.stdout.flush()
        return status
    except BrokenPipeError:
        _write_no_more()
        return 0
    except OSError as error:
        if error.filename is not None or error.errno not in _NOT_WRITABLE:
            raise
        _write_no_more()
        print(f"{command}: its output cannot be written: {error.strerror}", file=sys.stderr)
        return 1


def _write_no_more() -> None:
    # the interpreter writes the rest at its exit
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
