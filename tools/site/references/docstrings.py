"""Reads constants with their docstrings from modules, without importing them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[3]
"""The root of the repository."""


class Constant(NamedTuple):
    """A constant of a module. `value`: its source. `text`: its docstring, or that of the constants below it."""

    name: str
    value: str
    text: str


@cache
def parsed(path: Path) -> ast.Module:
    """The module as a tree."""
    return ast.parse(path.read_text(encoding="utf-8"))


def constants(path: Path) -> list[Constant]:
    """The constants of a module. One docstring may be that of several constants in a row, and stands below the last."""
    found: list[Constant] = []
    waiting: list[tuple[str, str]] = []
    for node in parsed(path).body:
        assigned = _assigned(node)
        if assigned is not None:
            waiting.append(assigned)
            continue
        text = _text(node)
        found += (Constant(name, value, text) for name, value in waiting)
        waiting = []
    return [*found, *(Constant(name, value, "") for name, value in waiting)]


def _assigned(node: ast.stmt) -> tuple[str, str] | None:
    targets: list[ast.expr] = node.targets if isinstance(node, ast.Assign) else []
    if isinstance(node, ast.AnnAssign):
        targets = [node.target]
    value = getattr(node, "value", None)
    match targets:
        case [ast.Name(id=name)] if name.isupper() and value is not None:
            return name, ast.unparse(value)
    return None


def _text(node: ast.stmt) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return node.value.value.strip()
    return ""


def modules(*folders: str) -> Iterator[Path]:
    """All modules below these folders of the repository."""
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))
