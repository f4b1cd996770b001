"""The input of episodes, and the episodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from muster.coordinator.groups.common import events
from muster.pipeline.episodes.thresholds import LOST_SESSIONS, SLOW_MAX, SLOW_SHARE

FORMATION: Final = "first_formation"
ROLLING: Final = "rolling_restart"
OVERLAPPED: Final = "overlapped_deploy"
SCALE_OUT: Final = "scale_out"
SCALE_IN: Final = "scale_in"
CRASH_LOOP: Final = events.CRASH_LOOP
FLAPPING: Final = events.FLAPPING
TROUBLE: Final = "coordinator_or_network_trouble"
SLOW: Final = events.SLOW
STOP: Final = "whole_stop"
DIED: Final = "member_died"
RESTART: Final = "restart"
SUBSCRIPTION: Final = "subscription_change"
GROWTH: Final = "partitions_change"
OTHER: Final = "other"
"""The kinds of episodes."""

KINDS: Final = (
    FORMATION, ROLLING, OVERLAPPED, SCALE_OUT, SCALE_IN, CRASH_LOOP, FLAPPING, TROUBLE, SLOW, STOP, DIED, RESTART,
    SUBSCRIPTION, GROWTH, OTHER,
)  # fmt: skip

LEFT: Final = "left"
EXPIRED: Final = "expired"
REMOVED: Final = "removed"
REPLACED: Final = "replaced"
"""How a stay ends (`memberships.end_cause`)."""
DEATHS: Final = frozenset({EXPIRED, REMOVED})

Moment = tuple[int, int]
"""From when to when (ms) members of several groups were last heard of, and then lost."""


class Who(NamedTuple):
    """A member."""

    member_id: str
    instance_id: str | None
    client_id: str | None
    host: str | None

    @property
    def slot(self) -> tuple[str, ...]:
        """What a process keeps when it returns under another member id."""
        if self.instance_id is not None:
            return ("instance", self.instance_id)
        return ("client", self.client_id or "", self.host or "")


def is_slow(silent_ms: int, patience_ms: int) -> bool:
    """Does a member with such a time since its last commit look like one that did not poll in time?"""
    return SLOW_SHARE * patience_ms <= silent_ms <= SLOW_MAX * patience_ms


class Stay(NamedTuple):
    """One member id, from its beginning to its end: a row of `memberships`."""

    who: Who
    start_ms: int
    end_ms: int | None
    how: str | None
    """How the stay ended. None: it has not ended, or its end is not known."""
    first_generation: int | None = None
    last_generation: int | None = None
    silent_ms: int | None = None
    """The time since its last commit when it went, if it had ever committed."""
    patience_ms: int | None = None
    """Its rebalance timeout."""
    session_ms: int | None = None
    """Its session timeout."""

    @property
    def lost_ms(self) -> int | None:
        """Its last sign of life, if it was removed, or silent for a session before it went; None: neither."""
        if self.end_ms is None:
            return None
        session_ms, silent_ms = self.session_ms or 0, self.silent_ms or 0
        if self.how in DEATHS:  # KIP-848 groups do not log how long a session is
            return self.end_ms - (session_ms or silent_ms)
        return self.end_ms - silent_ms if session_ms <= silent_ms <= LOST_SESSIONS * session_ms and silent_ms else None


class Rebalance(NamedTuple):
    """A row of `rebalances`."""

    generation: int
    before_generation: int | None
    start_ms: int
    end_ms: int
    cause: str | None = None
    trigger: str | None = None
    """The id of the member that caused the rebalance."""
    reason: str | None = None
    members_before: int | None = None
    members_after: int | None = None
    partitions: int = 0
    """The partitions that had an owner before or have one now."""
    cost_ms: int = 0
    """How long partitions were unread because of it, added up."""
    confidence: float = 1.0


class Episode(NamedTuple):
    """Rebalances that belong together. `cost_ms`: partitions times ms."""

    kind: str
    from_ms: int
    until_ms: int
    members: tuple[str, ...]
    """The names of the members, in their order."""
    rebalances: int
    cost_ms: int
    confidence: float
    partitions: int = 0
    """The most partitions of the group meanwhile."""
    numbers: tuple[int, ...] = ()
    """Places of its rebalances in the list that `find.episodes` got."""
    static: bool = False
    """Its members returned under their instance ids without a rebalance."""
    died: bool = False
    """The coordinator removed the members; none sent a LeaveGroup."""
    back_ms: int | None = None
    """Of a whole stop, a restart or a death: how long nobody was in the place. It is None if nobody returned."""
    times: int = 0
    """How often a member went; of several members, of the one that went most often."""
    any_died: bool = False
    """The coordinator removed at least one member."""
    by_instance: bool = False
    """The members that went were static.

    They send no LeaveGroup, so nobody knows whether they died.
    """
    size: int = 0
    """How many members; more than `members` if several have one name."""
    is_midst: bool = False
    """It is only the begin of the log, in the middle of the group's life."""


TIMEOUTS: Final[Mapping[str, str]] = {
    events.JOIN_TIMEOUT: "it did not join again within the rebalance timeout",
    events.SYNC_TIMEOUT: "it did not sync within the rebalance timeout",
}
"""Causes that mean that a member was too slow."""
