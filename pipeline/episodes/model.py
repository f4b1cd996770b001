"""The input of the episodes, and the episodes themselves."""

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
"""The ways in which a stay ends (`memberships.end_cause`)."""
DEATHS: Final = frozenset({EXPIRED, REMOVED})

Moment = tuple[int, int]
"""The time (from, to; ms) in which members of several groups were last heard of before they were lost."""


class Who(NamedTuple):
    """The ids of a member."""

    member_id: str
    instance_id: str | None
    client_id: str | None
    host: str | None

    @property
    def slot(self) -> tuple[str, ...]:
        """What stays the same when a process returns under another member id."""
        if self.instance_id is not None:
            return ("instance", self.instance_id)
        return ("client", self.client_id or "", self.host or "")


def is_slow(silent_ms: int, patience_ms: int) -> bool:
    """Was the member silent so long that it perhaps did not poll in time?

    `silent_ms`: the time since its last commit.
    """
    return SLOW_SHARE * patience_ms <= silent_ms <= SLOW_MAX * patience_ms


class Stay(NamedTuple):
    """The time of one member id in the group, from its join to its end: a row of `memberships`."""

    who: Who
    start_ms: int
    end_ms: int | None
    how: str | None
    """How the stay ended. None means that it has not ended, or that its end is not known."""
    first_generation: int | None = None
    last_generation: int | None = None
    silent_ms: int | None = None
    """The time from the member's last commit to its end; None if it never committed."""
    patience_ms: int | None = None
    """The member's rebalance timeout."""
    session_ms: int | None = None
    """The member's session timeout."""

    @property
    def lost_ms(self) -> int | None:
        """The time of the last sign of life of a lost member; None for other members.

        A member is lost if it was removed, or was silent for a session before its end.
        """
        if self.end_ms is None:
            return None
        session_ms, silent_ms = self.session_ms or 0, self.silent_ms or 0
        if self.how in DEATHS:  # the log of a KIP-848 group does not have the session timeout
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
    """The number of partitions that had an owner before, or have an owner after the rebalance."""
    cost_ms: int = 0
    """The time for which partitions were unread because of the rebalance, summed over the partitions."""
    confidence: float = 1.0


class Episode(NamedTuple):
    """Rebalances that belong together. `cost_ms`: the unread time, summed over the partitions."""

    kind: str
    from_ms: int
    until_ms: int
    members: tuple[str, ...]
    """The names of the members, in the order of their changes."""
    rebalances: int
    cost_ms: int
    confidence: float
    partitions: int = 0
    """The largest number of partitions that the group had during the episode."""
    numbers: tuple[int, ...] = ()
    """The indexes of the episode's rebalances in the list that `find.episodes` got."""
    static: bool = False
    """Whether the members returned under their instance ids without a rebalance."""
    died: bool = False
    """Whether the coordinator removed all of the members, so that no member sent a LeaveGroup."""
    back_ms: int | None = None
    """How long nobody was in the place, after a whole stop, a restart or a death. It is None if nobody returned."""
    times: int = 0
    """How often a member left. Of several members, this counts the one that left most often."""
    any_died: bool = False
    """Whether the coordinator removed at least one member."""
    by_instance: bool = False
    """Whether the members that left were static. These send no LeaveGroup, so nobody knows whether they died."""
    size: int = 0
    """The number of members. It is larger than the length of `members` if several members have one name."""
    is_midst: bool = False
    """Whether this is only the start of the log, while the group was already running."""
    may_be_slow: bool = False
    """Whether each of the lost members was silent for about its rebalance timeout: it perhaps did not poll in time."""
    is_unsure: bool = False
    """Whether nobody knows if members left, or were lost."""
    perhaps_lost: bool = False
    """Whether a member that seems to have left was perhaps lost, and no silence explains that."""
    same: bool = False
    """Whether each member that returned has the instance id, or the client id and host, of the member that left."""


TIMEOUTS: Final[Mapping[str, str]] = {
    events.JOIN_TIMEOUT: "it did not join again within the rebalance timeout",
    events.SYNC_TIMEOUT: "it did not sync within the rebalance timeout",
}
"""The causes which mean that a member was too slow, and their words."""
