"""The packages of the tree and the imports between them, for docs/dev/architecture.md and its test.

A room is one entry of the layers contract in pyproject.toml (`tool.importlinter`), or a folder at the top level.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

import grimp

from tools.diagrams.pages import Parts

ROOT = Path(__file__).parents[2]
LAYERS = "imports only run downwards"
"""Name of the contract."""
NO_ROOMS = ("muster", "muster.coordinator", "muster.version")
"""Modules that are in no room: the two packages around them all, and the number of the version."""


@cache
def layers() -> tuple[tuple[str, ...], ...]:
    """The rooms as the contract lists them, from the highest layer down: dotted names; rooms of one layer together."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    [contract] = [one for one in contracts if one["name"] == LAYERS]
    return tuple(tuple(name.strip() for name in layer.split("|")) for layer in contract["layers"])


@cache
def imports() -> grimp.ImportGraph:
    """Every import of the tree, those for type checking included."""
    return grimp.build_graph("muster", cache_dir=None)


def room_of(module: str) -> str | None:
    """The room that a module is in, by its dotted name; None: it is in none."""
    rooms = [room for layer in layers() for room in layer if module == room or module.startswith(f"{room}.")]
    return max(rooms, key=len, default=None)


def arrows() -> dict[str, set[str]]:
    """Room -> the rooms that it imports."""
    graph, found = imports(), {room: set[str]() for layer in layers() for room in layer}
    for module in graph.modules:
        room = room_of(module)
        if room is not None:
            found[room] |= {other for name in graph.find_modules_directly_imported_by(module)
                            if (other := room_of(name)) not in (None, room)}  # fmt: skip
    return found


def without_detours(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """`graph` without the arrows that a longer way implies (its transitive reduction). It has no circle."""

    def reached(start: str) -> set[str]:
        direct = graph[start]
        return direct.union(*(reached(one) for one in direct)) if direct else direct

    return {room: {one for one in direct if not any(one in reached(other) for other in direct - {one})}
            for room, direct in graph.items()}  # fmt: skip


def picture() -> str:
    """The packages and their imports, as a mermaid diagram, without the arrows that a longer way implies."""
    shown = without_detours(arrows())
    numbers = {room: f"r{number}" for number, room in enumerate(shown)}
    lines = ["```mermaid", "flowchart TD"]
    lines += [f'    {number}["{path(room)}"]' for room, number in numbers.items()]
    lines += [f"    {numbers[room]} --> {numbers[one]}" for room in shown for one in numbers if one in shown[room]]
    return "\n".join([*lines, "```"])


def path(room: str) -> str:
    """A room as it stands in the tree: `coordinator/groups/`, `coordinator/system/clock.py`."""
    there = room.removeprefix("muster.").replace(".", "/")
    return f"{there}/" if (ROOT / there).is_dir() else f"{there}.py"


PARTS: Parts = {"rooms": picture}
