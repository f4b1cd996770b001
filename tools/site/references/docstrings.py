"""Reads constants with their docstrings from modules, without importing or parsing them: that takes seconds for all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[3]
"""The root of the repository."""
_ASSIGNED: Final = re.compile(r"^(_?[A-Z][A-Z0-9_]*)(?:: [^=]+)? = (.+)$")
_QUOTES: Final = '"""'


class Constant(NamedTuple):
    """A constant of a module. `value`: its source. `text`: its docstring, or that of the constants below it."""

    name: str
    value: str
    text: str


def constants(source: str) -> Iterator[Constant]:
    """The constants of a module, with values of one line. One docstring may be that of several constants in a row."""
    waiting: list[tuple[str, str]] = []
    lines = iter(source.splitlines())
    for line in lines:
        found = _ASSIGNED.match(line)
        if found is not None:
            waiting.append((found[1], found[2]))
            continue
        text = _docstring(line, lines) if waiting and line.startswith(_QUOTES) else ""
        yield from (Constant(*one, text) for one in waiting)
        waiting = []
    yield from (Constant(*one, "") for one in waiting)


def _docstring(line: str, more: Iterator[str]) -> str:
    """The docstring that begins in a line, as one line."""
    parts = [line.removeprefix(_QUOTES)]
    while not parts[-1].rstrip().endswith(_QUOTES):
        parts.append(next(more))
    return " ".join(" ".join(parts).removesuffix(_QUOTES).split())


def modules(*folders: str) -> Iterator[Path]:
    """All modules below these folders of the repository."""
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))
