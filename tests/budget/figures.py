"""`bench/budget.toml`: the cost that each kind of request may have, by the version of Python."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from tests.budget.counting import Cost

FILE: Final = Path(__file__).resolve().parents[2] / "bench" / "budget.toml"
PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
MARGIN: Final = 0.01
"""A figure may be larger or smaller by this part of its budget."""
MEMORY_MARGIN: Final = 0.10
"""The margin for the memory at its highest, which depends on what the allocator keeps."""
MEMORY_MARGIN_KB: Final = 16
HEAD: Final = """\
# What each kind of request costs: counted, not timed (tests/budget). A test fails when a figure differs by over 1 %.
# `python -m tests.budget` writes the figures of this Python that became smaller.
# A figure that became larger needs a reason: `python -m tests.budget --why "the answer has one more field (KIP-1242)"`.
# Columns: {columns}.
# TLS adds nothing here: encryption is a part of the event loop, below what is counted.
"""


class Raised(NamedTuple):
    """A figure that became larger, and why."""

    python: str
    kind: str
    figure: str
    before: float
    after: float
    why: str


class Budget(NamedTuple):
    """`costs`: by Python and kind of request."""

    costs: dict[str, dict[str, Cost]]
    raised: list[Raised]


def read() -> Budget:
    """Read the file; a file that is absent has no figures."""
    if not FILE.exists():
        return Budget({}, [])
    tables = tomllib.loads(FILE.read_text(encoding="utf-8"))
    costs = {
        python: {kind: Cost(*row) for kind, row in rows.items()} for python, rows in tables.get("python", {}).items()
    }
    return Budget(costs, [Raised(**row) for row in tables.get("raised", ())])


def write(budget: Budget) -> None:
    """Write the file."""
    parts = [HEAD.format(columns=", ".join(Cost._fields))]
    for python, costs in sorted(budget.costs.items()):
        parts.append(f'\n[python."{python}"]\n')
        parts += [f'"{kind}" = [{", ".join(f"{figure:g}" for figure in cost)}]\n' for kind, cost in costs.items()]
    for row in budget.raised:
        fields = (f"{name} = {_toml(value)}\n" for name, value in row._asdict().items())
        parts.append("\n[[raised]]\n" + "".join(fields))
    FILE.write_text("".join(parts), encoding="utf-8")


def _toml(value: float | str) -> str:
    if not isinstance(value, str):
        return f"{value:g}"
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def larger(measured: Cost, allowed: Cost) -> dict[str, tuple[float, float]]:
    """Return the figures above their budget: what is allowed and what was measured."""
    return _those(measured, allowed, lambda limit, now, margin: now > limit + margin)


def smaller(measured: Cost, allowed: Cost) -> dict[str, tuple[float, float]]:
    """Return the figures below their budget. The budget must follow them, or they could grow again unseen."""
    return _those(measured, allowed, lambda limit, now, margin: now < limit - margin)


def _those(
    measured: Cost, allowed: Cost, differs: Callable[[float, float, float], bool]
) -> dict[str, tuple[float, float]]:
    rows = zip(Cost._fields, allowed, measured, strict=True)
    return {name: (limit, now) for name, limit, now in rows if differs(limit, now, _margin(name, limit))}


def _margin(name: str, limit: float) -> float:
    return max(limit * MEMORY_MARGIN, MEMORY_MARGIN_KB) if name == "kilobytes" else limit * MARGIN
