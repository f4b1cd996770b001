"""The states of a classic group and every legal transition, as data. The diagrams in docs/ are drawn from this table.

The states: Empty; PreparingRebalance, which collects JoinGroup requests; CompletingRebalance, which waits for the
leader's assignment; Stable; Dead. Only an Empty group is deleted, or a group that becomes a consumer group. Source:
Kafka's ClassicGroupState.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

EMPTY: Final = "Empty"
PREPARING: Final = "PreparingRebalance"
COMPLETING: Final = "CompletingRebalance"
STABLE: Final = "Stable"
DEAD: Final = "Dead"
STATES: Final = (EMPTY, PREPARING, COMPLETING, STABLE, DEAD)

REBALANCE: Final = "a rebalance begins"
JOINED: Final = "the join phase ends with members"
DESERTED: Final = "the join phase ends without members"
ASSIGNED: Final = "the leader's assignment is there"
REMOVED: Final = "the group is deleted"
CONVERTED: Final = "the group becomes a consumer group"
EVENTS: Final = (REBALANCE, JOINED, DESERTED, ASSIGNED, REMOVED, CONVERTED)

TRANSITIONS: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        (EMPTY, REBALANCE): PREPARING,
        (STABLE, REBALANCE): PREPARING,
        (COMPLETING, REBALANCE): PREPARING,
        (PREPARING, JOINED): COMPLETING,
        (PREPARING, DESERTED): EMPTY,
        (COMPLETING, ASSIGNED): STABLE,
        (EMPTY, REMOVED): DEAD,
        (PREPARING, CONVERTED): DEAD,
        (COMPLETING, CONVERTED): DEAD,
        (STABLE, CONVERTED): DEAD,
    }
)


class IllegalTransition(RuntimeError):
    """A program error: `event` cannot happen to a group in `state`. Nothing has changed."""

    def __init__(self, group_id: str, state: str, event: str) -> None:
        super().__init__(f"group {group_id!r} is {state}: {event!r} cannot happen")
        self.state = state
        self.event = event
