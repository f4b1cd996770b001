"""What episodes are found in, and what they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from muster.coordinator.groups.common import events, unstable_members
from muster.pipeline.episodes.thresholds import LOST_SESSIONS, SLOW_MOST, SLOW_SHARE

FORMATION: Final = "first_formation"
ROLLING: Final = "rolling_restart"
OVERLAPPED: Final = "overlapped_deploy"
SCALE_OUT: Final = "scale_out"
SCALE_IN: Final = "scale_in"
CRASH_LOOP: Final = unstable_members.CRASH_LOOP
FLAPPING: Final = unstable_members.FLAPPING
TROUBLE: Final = "coordinator_or_network_trouble"
SLOW: Final = unstable_members.SLOW
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
"""How a spell ends (`memberships.end_cause`)."""
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
        """What a process keeps when it comes back under another member id."""
        if self.instance_id is not None:
            return ("instance", self.instance_id)
        return ("client", self.client_id or "", self.host or "")


def is_slow(silent_ms: int, patience_ms: int) -> bool:
    """Does a member that had not committed for so long look like one that did not poll in time?"""
    return SLOW_SHARE * patience_ms <= silent_ms <= SLOW_MOST * patience_ms


class Spell(NamedTuple):
    """One member id, from its beginning to its end: a row of `memberships`."""

    who: Who
    start_ms: int
    end_ms: int | None
    how: str | None
    """How it ended; None: not known, or it has not."""
    first_generation: int | None = None
    last_generation: int | None = None
    silent_ms: int | None = None
    """How long it had not committed when it went, if it had ever committed."""
    patience_ms: int | None = None
    """Its rebalance timeout."""
    session_ms: int | None = None
    """Its session timeout."""

    @property
    def lost_ms(self) -> int | None:
        """When it was last heard of, if it was given up or said nothing for a session before it went; None: neither."""
        if self.end_ms is None:
            return None
        session_ms, silent_ms = self.session_ms or 0, self.silent_ms or 0
        if self.how in DEATHS:  # KIP-848 groups do not say how long a session is
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
    """A member id."""
    reason: str | None = None
    members_before: int | None = None
    members_after: int | None = None
    partitions: int = 0
    """That had an owner before or have one now."""
    cost_ms: int = 0
    """For how long partitions were not read because of it, added up."""
    confidence: float = 1.0


class Episode(NamedTuple):
    """Rebalances that belong together. `cost_ms`: partitions times ms."""

    kind: str
    from_ms: int
    until_ms: int
    members: tuple[str, ...]
    """The names of those concerned, in the order in which they were."""
    rebalances: int
    cost_ms: int
    confidence: float
    partitions: int = 0
    """Most partitions of the group meanwhile."""
    numbers: tuple[int, ...] = ()
    """Places of its rebalances in the list that `find.episodes` was given."""
    static: bool = False
    """Its members came back under their instance ids without a rebalance."""
    died: bool = False
    """Members were given up by the coordinator; none said goodbye."""
    back_ms: int | None = None
    """Of a whole stop, a restart or a death: how long nobody was in the place; None: nobody came."""
    times: int = 0
    """How often a member went: of several, the one that did most often."""
    any_died: bool = False
    """One at least was given up by the coordinator."""
    by_instance: bool = False
    """Those who went were static members: they do not say goodbye, so nobody knows whether they died."""
    size: int = 0
    """How many members; more than `members` if several have one name."""
    is_midst: bool = False
    """It is only where the log begins, in the midst of the group's life."""


TIMEOUTS: Final[Mapping[str, str]] = {
    events.JOIN_TIMEOUT: "it did not join again within the rebalance timeout",
    events.SYNC_TIMEOUT: "it did not sync within the rebalance timeout",
}
"""Causes that say that a member was too slow."""
