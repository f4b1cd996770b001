"""What an analysis was made of, for whoever shows its tables. Holds no behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class About(NamedTuple):
    """One analysis."""

    source: str
    """What was read, as the user named it."""
    rows: Mapping[str, int]
    """How many rows of the offsets log there were of each kind (pipeline.schema.KINDS)."""
    has_events: bool
    """Whether `__group_events` was there: rebalances are told by the server, not inferred."""
    has_ends: bool
    """Whether the ends of the topics are known: lag can be told."""
    since_ms: int | None = None
    until_ms: int | None = None
    """Only what was logged in between, ms since 1970; None: without limit."""
    groups: tuple[str, ...] = ()
    """Only groups that match one of these patterns; none: all."""
    what_if: tuple[str, ...] = ()
    """The settings that were tried, by name."""
