"""The style sheet of the page (page.css), and one colour for each cause."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from muster.pipeline.report.formatting import CAUSES, UNKNOWN_CAUSE

OTHER: Final = "other"


def cause_class(cause: str | None) -> str:
    """The class that has a cause's colour."""
    return f"c-{cause if cause in CAUSES else OTHER}"


def sheet() -> str:
    """The whole style sheet."""
    causes = "".join(f".c-{cause}{{--c:{words.colour}}}" for cause, words in CAUSES.items())
    base = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    return f"{base}{causes}.c-{OTHER}{{--c:{UNKNOWN_CAUSE.colour}}}"
