"""A rebalance that is in progress, as the history will describe it: why it began, when its phases ended, what the
members had before. Decides nothing, and is not persisted.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from muster.coordinator.groups.common.events import Trigger

NO_VOTES: Final[Mapping[str, int]] = MappingProxyType({})


class RebalanceFacts:
    """Kept by a group from REBALANCE_STARTED until its end is in the history. Times are monotonic ms."""

    __slots__ = ("before", "began_ms", "cause", "joined_ms", "stopped_ms", "trigger", "votes")

    def __init__(
        self, cause: str, trigger: Trigger | None, now_ms: int, before: dict[str, bytes], stopped_ms: int | None
    ) -> None:
        """`before`: the assignments that it replaces, by member id, those of departed members too. `stopped_ms`: since
        when the members do no work, if another rebalance failed before.
        """
        self.cause = cause
        self.trigger = trigger
        self.began_ms = now_ms
        self.stopped_ms: int = now_ms if stopped_ms is None else stopped_ms
        self.joined_ms = now_ms
        """When the join phase ended."""
        self.before: dict[str, bytes] = before
        self.votes: Mapping[str, int] = NO_VOTES
        """None as long as the join phase lasts."""
