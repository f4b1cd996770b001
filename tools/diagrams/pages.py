"""Pages of docs/ with drawn parts: finding the parts, and writing them again. Knows nothing of what is drawn."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

Parts = Mapping[str, Callable[[], str]]
"""Name of a part -> what draws it, as Markdown."""

_PART = re.compile(r"(<!-- drawn: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
"""A drawn part stands between `<!-- drawn: NAME -->` and `<!-- end -->`."""


def redrawn(page: str, parts: Parts) -> str:
    """The page with all its parts drawn again. ValueError when the parts on the page are not those of `parts`."""
    found = [match[2] for match in _PART.finditer(page)]
    if sorted(found) != sorted(parts):
        raise ValueError(f"the page has the drawn parts {found}, expected {list(parts)}, each once")
    return _PART.sub(lambda match: f"{match[1]}{parts[match[2]]()}\n{match[3]}", page)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
