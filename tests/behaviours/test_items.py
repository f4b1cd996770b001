"""Each behaviour of the classic protocol has a story, a test, or a line in docs/conformance.md.

The data files beside this module name it (see README.md). No test checks that a story or test is about its item: people
have checked that.
"""

from __future__ import annotations

import ast
import functools
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from muster.conform import catalogue

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
STORIES = frozenset(story.name for story in catalogue.stories([*catalogue.LEVELS, catalogue.RETENTION]))
LATER = {"later:KIP-848", "later:transactions"}
MAX_UNOBSERVABLE = 10
"""At most this number of items may stand in docs/conformance.md alone."""

SECTIONS: dict[str, int | str] = {
    "1": 9,
    "2": 15,
    "3.1": 10,
    "3.2": 17,
    "3.3": 12,
    "3.4": 9,
    "3.4.row": "abcdefghij",
    "3.5": 20,
    "3.6": 7,
    "3.7": 10,
    "3.8": 8,
    "4.1": 20,
    "4.2": 8,
    "4.3": 15,
    "5": 21,
    "6.1": 18,
    "6.2": 14,
    "6.3": 11,
    "6.4": 9,
    "6.5": 5,
    "6.6": 9,
    "6.7": 7,
    "6.8": 16,
    "9": 3,
    "10": 8,
    "11": 40,
    "11.A": 7,
    "11.B": 10,
    "11.C": 6,
}
"""How many items each section has, or the letters of its rows."""


class Item(NamedTuple):
    """One line of a data file."""

    number: str
    summary: str
    references: tuple[str, ...]
    where: str


def items() -> Iterator[Item]:
    for path in sorted(FOLDER.glob("*.txt")):
        for line_number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not line or line.startswith("#"):
                continue
            where = f"{path.name}:{line_number}"
            parts = [part.strip() for part in line.split("|")]
            assert len(parts) == 3, f"{where}: not of the form NUMBER | SUMMARY | REFERENCES"
            yield Item(parts[0], parts[1], tuple(parts[2].split()), where)


ITEMS = list(items())


@functools.cache
def names_of_tests(path: Path) -> frozenset[str]:
    """The names of the tests of a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(node.name for node in found if node.name.startswith("test_"))


def problem_of(reference: str) -> str | None:
    """What is wrong with a reference; None when the reference can be found."""
    kind, _, what = reference.partition(":")
    if kind == "story":
        return None if what in STORIES else "there is no such story"
    if kind == "test":
        path, _, name = what.partition("::")
        if not (ROOT / path).is_file():
            return "there is no such file"
        return None if name in names_of_tests(ROOT / path) else "there is no such test in it"
    return None if reference == "conformance" or reference in LATER else "neither story, test, conformance nor later"


@pytest.mark.parametrize("item", [pytest.param(one, id=one.number) for one in ITEMS])
def test_the_stories_and_tests_of_an_item_exist(item: Item) -> None:
    assert item.references, f"{item.where}: nothing answers for it"
    problems = [f"{one}: {problem}" for one in item.references if (problem := problem_of(one))]
    assert not problems, f"{item.where}: {problems}"
    assert 0 < len(item.summary) <= 100, f"{item.where}: the summary has {len(item.summary)} characters"


def test_no_item_is_missing_or_given_twice() -> None:
    expected = [
        f"{section}.{row}"
        for section, rows in SECTIONS.items()
        for row in (range(1, rows + 1) if isinstance(rows, int) else rows)
    ]
    numbers = sorted(one.number for one in ITEMS)
    twice = [number for number, run in itertools.groupby(numbers) if len(list(run)) > 1]
    assert not twice
    assert set(expected) - set(numbers) == set()
    assert set(numbers) - set(expected) == set()


def test_few_items_are_not_observable() -> None:
    alone = [one.number for one in ITEMS if one.references == ("conformance",)]
    assert len(alone) <= MAX_UNOBSERVABLE, alone


def test_items_left_to_conformance_are_in_its_page() -> None:
    text = (ROOT / "docs/conformance.md").read_text(encoding="utf-8")
    missing = [one.number for one in ITEMS if "conformance" in one.references and one.number not in _numbers(text)]
    assert not missing, f"docs/conformance.md does not name these items: {missing}"


def _numbers(text: str) -> set[str]:
    return set(re.findall(r"\b\d+(?:\.[0-9a-zA-Z]+)+\b", text))
