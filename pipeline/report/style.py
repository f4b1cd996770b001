"""The style sheet of the page (page.css), and one colour for each cause."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from muster.pipeline.report.words import CAUSES

_COLOURS: Final = {
    "member_joined": "#2e7d4f",
    "member_left": "#5f6b7a",
    "session_expired": "#c62f2f",
    "subscription_changed": "#8a4bb0",
    "metadata_changed": "#7d8fb3",
    "partitions_changed": "#0f8a94",
    "leader_rejoined": "#b97a00",
    "static_member_returned": "#3f7fd0",
    "join_timeout": "#d9541e",
    "sync_timeout": "#d9541e",
    "group_full": "#9c2755",
    "group_over_capacity": "#9c2755",
}
OTHER: Final = "other"


def cause_class(cause: str | None) -> str:
    """The class that has a cause's colour."""
    return f"c-{cause if cause in CAUSES else OTHER}"


def sheet() -> str:
    """The whole style sheet."""
    causes = "".join(f".c-{cause}{{--c:{colour}}}" for cause, colour in _COLOURS.items())
    base = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    return f"{base}{causes}.c-{OTHER}{{--c:#8a8f98}}"
