"""Draws the packages of the tree, and the imports between them, for docs/dev/architecture.md and its test.

A room is an entry of the layers contract in pyproject.toml (`tool.importlinter`), or a folder at the top level.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tools.diagrams.pages import Parts

if TYPE_CHECKING:
    import grimp

ROOT = Path(__file__).parents[2]
LAYERS = "imports only run downwards"
"""The name of the layers contract."""
NO_ROOMS = ("muster", "muster.coordinator", "muster.version")
"""Modules that are in no room: the two packages around all rooms, and the version number."""


@cache
def layers() -> tuple[tuple[str, ...], ...]:
    """The dotted names of rooms, by layer, from the highest layer down, as in the contract."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    [contract] = [one for one in contracts if one["name"] == LAYERS]
    return tuple(tuple(name.strip() for name in layer.split("|")) for layer in contract["layers"])


@cache
def imports() -> grimp.ImportGraph:
    """All imports of the tree, also those that are only for type checking."""
    import grimp  # `make docs-site` has no tools of tests

    return grimp.build_graph("muster", cache_dir=None)


def room_of(module: str) -> str | None:
    """The room that a module is in; None if it is in no room."""
    rooms = [room for layer in layers() for room in layer if module == room or module.startswith(f"{room}.")]
    return max(rooms, key=len, default=None)


def arrows() -> dict[str, set[str]]:
    """For each room, the rooms that it imports."""
    graph, found = imports(), {room: set[str]() for layer in layers() for room in layer}
    for module in graph.modules:
        room = room_of(module)
        if room is not None:
            found[room] |= {other for name in graph.find_modules_directly_imported_by(module)
                            if (other := room_of(name)) not in (None, room)}  # fmt: skip
    return found


def without_detours(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """The transitive reduction of `graph`: without arrows that a longer way implies. `graph` must have no circle."""

    def reached(start: str) -> set[str]:
        direct = graph[start]
        return direct.union(*(reached(one) for one in direct)) if direct else direct

    return {room: {one for one in direct if not any(one in reached(other) for other in direct - {one})}
            for room, direct in graph.items()}  # fmt: skip


def picture() -> str:
    """The rooms and their imports, as a mermaid diagram, without arrows that a longer way implies."""
    shown = without_detours(arrows())
    numbers = {room: f"r{number}" for number, room in enumerate(shown)}
    lines = ["```mermaid", "flowchart TD"]
    lines += [f'    {number}["{path(room)}"]' for room, number in numbers.items()]
    lines += [f"    {numbers[room]}-->{numbers[one]}" for room in shown for one in numbers if one in shown[room]]
    return "\n".join([*lines, "```"])


def path(room: str) -> str:
    """The path of a room: `coordinator/groups/`, `coordinator/system/clock.py`."""
    there = room.removeprefix("muster.").replace(".", "/")
    return f"{there}/" if (ROOT / there).is_dir() else f"{there}.py"


PARTS: Parts = {"rooms": picture}
