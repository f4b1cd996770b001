"""Finds the drawn parts of a page, and writes them again."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

Parts = Mapping[str, Callable[[], str]]
"""The parts of a page: a name, and the function that returns the part's Markdown."""

_PART = re.compile(r"(<!-- drawn: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
"""A drawn part stands between `<!-- drawn: NAME -->` and `<!-- end -->`."""


def redrawn(page: str, parts: Parts) -> str:
    """The page with all parts drawn again. Raises ValueError when the page has other parts than `parts`."""
    found = [match[2] for match in _PART.finditer(page)]
    if sorted(found) != sorted(parts):
        raise ValueError(f"the page has the drawn parts {found}, expected {list(parts)}, each once")
    return _PART.sub(lambda match: f"{match[1]}{parts[match[2]]()}\n{match[3]}", page)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Make a Markdown table."""
    lines = ["| " + " | ".join(line) + " |" for line in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])
