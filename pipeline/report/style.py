"""The style sheet of the page (page.css), and one colour for each cause."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from muster.coordinator.groups.common import events
from muster.pipeline.facts.epoch_causes import REVOCATION_TIMEOUT
from muster.pipeline.report.formatting import CAUSES

_COLOURS: Final = {
    events.NEW_MEMBER: "#2e7d4f",
    events.LEFT: "#5f6b7a",
    events.SESSION_EXPIRED: "#c62f2f",
    events.SUBSCRIPTION_CHANGED: "#8a4bb0",
    events.METADATA_CHANGED: "#7d8fb3",
    events.PARTITIONS_CHANGED: "#0f8a94",
    events.LEADER_REJOINED: "#b97a00",
    events.STATIC_MEMBER_BACK: "#3f7fd0",
    events.JOIN_TIMEOUT: "#d9541e",
    REVOCATION_TIMEOUT: "#c2410c",
    events.SYNC_TIMEOUT: "#d9541e",
    events.ASSIGNMENT_TOO_LARGE: "#9c2755",
    events.GROUP_FULL: "#9c2755",
    events.OVER_CAPACITY: "#9c2755",
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
