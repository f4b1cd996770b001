"""docs/dev/architecture.md equals the tree: it has the packages of the import contracts, and all their modules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.diagrams import rooms

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("dev/architecture.md", "contributing.md", "dev/connections.md", "dev/decisions.md")
BELOW = (
    "",
    "docs",
    "coordinator",
    *(f"coordinator/{name}" for name in ("api", "runtime", "runtime/group_coordinator", "log", "net", "topics")),
)
"""Where the paths of a page may begin: a path in the row of a room is inside that room."""


def rooms_of_the_page() -> list[str]:
    """The paths in the first column of the table of rooms."""
    page = (ROOT / "docs" / "dev" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("## Packages")[2].partition("\n## ")[0]
    return re.findall(r"(?m)^\| `([^`]+)` \|", table)


def test_every_module_is_in_a_layer() -> None:
    outside = {module for module in rooms.imports().modules if rooms.room_of(module) is None}
    assert outside == set(rooms.NO_ROOMS)


def test_the_architecture_page_has_each_package_once() -> None:
    there = [rooms.path(room) for layer in rooms.layers() for room in layer]
    assert sorted(rooms_of_the_page()) == sorted(there)


def test_each_import_between_packages_runs_downwards() -> None:
    heights = {room: -number for number, layer in enumerate(rooms.layers()) for room in layer}
    upwards = [(room, one) for room, ones in rooms.arrows().items() for one in ones if heights[one] >= heights[room]]
    assert upwards == []


def test_an_arrow_implied_by_a_longer_path_is_not_drawn() -> None:
    graph: dict[str, set[str]] = {"a": {"b", "c"}, "b": {"c"}, "c": set()}
    assert rooms.without_detours(graph) == {"a": {"b"}, "b": {"c"}, "c": set()}


@pytest.mark.parametrize("page", PAGES)
def test_the_paths_and_names_on_each_page_exist(page: str) -> None:
    """All paths of folders and files exist, and also the names behind a file, as in `coordinator/system/clock.py:
    Clock`.
    """
    text = re.sub(r"```.*?```", "", (ROOT / "docs" / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    named = re.findall(r"`((?:[a-z_]+/)+(?:[\w.]+)?|(?:[a-z_]+/)*\w+\.(?:py|md|txt|toml))(?:: (\w+))?`", text)
    assert len(named) > 5
    missing = [path for path, _ in named if not any((ROOT / room / path).exists() for room in BELOW)]
    assert missing == []
    assert undefined(named) == []


def undefined(named: list[tuple[str, str]]) -> list[str]:
    """The names that their modules do not define, of pairs of a path and a name. A name may be empty."""
    return [
        f"{path}: {name}"
        for path, name in named
        if name and not re.search(rf"(?m)^\s*(?:def|class|async def) {name}\b|^{name}\b", found(path).read_text())
    ]


def found(path: str) -> Path:
    return next(ROOT / room / path for room in BELOW if (ROOT / room / path).exists())


def test_the_places_of_decision_on_the_inference_page_exist() -> None:
    page = (ROOT / "docs" / "dev" / "pipeline-inference.md").read_text(encoding="utf-8")
    rows = page.partition("## Where is it decided?")[2].partition("\n## ")[0]
    named = re.findall(r"`(pipeline/[\w/]+\.py)(?:: (\w+))?`", rows)
    assert len(named) > 20
    assert [path for path, _ in named if not (ROOT / path).exists()] == []
    assert undefined(named) == []
