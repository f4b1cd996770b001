"""The docs are short: no page is too long, nor are all pages together, and no sentence stands twice."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from tools.prose import texts

ROOT = Path(__file__).resolve().parents[1]
DOCS = [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "dev").glob("*.md"))]
OF_A_PAGE = 2_500
OF_ALL = 45_000
SHORT = 6
"""Sentences of fewer words may stand twice: "The default is Kafka's."."""


def words(path: Path) -> int:
    """The words of a page, as `wc -w` counts them."""
    return len(path.read_text(encoding="utf-8").split())


def test_no_page_is_too_long() -> None:
    assert {path.name: words(path) for path in DOCS if words(path) > OF_A_PAGE} == {}


def test_all_pages_together_are_not_too_long() -> None:
    assert sum(map(words, DOCS)) <= OF_ALL, "cut as many words as you add"


def test_no_page_is_outside_of_the_two_folders() -> None:
    assert sorted((ROOT / "docs").rglob("*.md")) == sorted(DOCS)


def test_no_sentence_stands_twice() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in (ROOT / "README.md", *DOCS):
        text = path.read_text(encoding="utf-8")
        # a span of code counts as itself here, not as CODE
        spoken = re.sub(r"`([^`\n]+)`", r"\1", text)
        for one in texts.of_markdown(spoken):
            if one.words >= SHORT:
                places[one.text.strip(" .:*").lower()].append(f"{path.name}:{one.line}")
    assert {text: there for text, there in places.items() if len(there) > 1} == {}
