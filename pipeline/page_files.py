"""The files of pages: in which order they are written, and which older ones go."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping


def superfluous(names: Collection[str], pages: Mapping[str, str]) -> list[str]:
    """The names of old pages with higher numbers than the new ones: an earlier analysis had more groups."""
    stem = next(iter(pages)).removesuffix(".html")
    return [name for name in names if re.fullmatch(re.escape(stem) + r"-\d+\.html", name) and name not in pages]


def first_last(pages: Mapping[str, str]) -> list[str]:
    """The names of pages in the order of writing. The first page has links to the others, so it comes last."""
    first, *others = pages
    return [*others, first]
