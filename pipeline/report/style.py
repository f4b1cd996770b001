"""The style sheet of the page (page.css), with the colours of each cause, and its script (page.js)."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from muster.pipeline.report.formatting import CAUSES, UNKNOWN_CAUSE

OTHER: Final = "other"


def cause_class(cause: str | None) -> str:
    """The class that has a cause's colour."""
    return f"c-{cause if cause in CAUSES else OTHER}"


def sheet() -> str:
    """The whole style sheet. On paper it is the light one."""
    words = {**CAUSES, OTHER: UNKNOWN_CAUSE}
    light = "".join(f".c-{cause}{{--c:{one.colour}}}" for cause, one in words.items())
    dark = "".join(f".c-{cause}{{--c:{one.on_dark}}}" for cause, one in words.items())
    return f"{_file('page.css')}{light}@media screen and (prefers-color-scheme:dark){{{dark}}}"


def script() -> str:
    """What helps to search and to sort. Without it nothing is missing."""
    return _file("page.js")


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
