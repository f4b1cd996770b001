"""The times of single groups (KIP-848's dynamic group configuration), which override the broker's properties.

They are not in the records of the groups. The runtime gives them to each new core, and reports changes.
"""

from __future__ import annotations

from typing import NamedTuple

from muster.coordinator.groups.common.settings import GroupSettings


class OwnConfig(NamedTuple):
    """The values that are set for one group, within the broker's bounds. None stands for a value that is not set."""

    session_timeout_ms: int | None = None
    heartbeat_interval_ms: int | None = None
    assignment_interval_ms: int | None = None


class Times(NamedTuple):
    """The times that apply to one group."""

    session_timeout_ms: int
    """How long a member may be silent."""
    heartbeat_interval_ms: int
    """How often a member is to send a heartbeat."""
    assignment_interval_ms: int
    """The minimum time for which a target assignment stays."""


class GroupConfigured(NamedTuple):
    """The new configuration of a group. None: the group has no configuration of its own any more."""

    group_id: str
    own: OwnConfig | None


class IntervalConfigured(NamedTuple):
    """The new value of the broker's `group.consumer.assignment.interval.ms`, which may change while it runs."""

    assignment_interval_ms: int


class GroupConfigs:
    """The times of all groups of a core. `version` grows with each change."""

    __slots__ = ("_default", "_own", "version")

    def __init__(self, settings: GroupSettings) -> None:
        self._default = Times(
            settings.group_consumer_session_timeout_ms,
            settings.group_consumer_heartbeat_interval_ms,
            settings.group_consumer_assignment_interval_ms,
        )
        self._own: dict[str, OwnConfig] = {}
        self.version = 0

    def copy(self) -> GroupConfigs:
        """A copy, for a new core."""
        other = GroupConfigs.__new__(GroupConfigs)
        other._default, other._own, other.version = self._default, dict(self._own), self.version
        return other

    def of(self, group_id: str) -> Times:
        """The times that apply to a group."""
        own = self._own.get(group_id)
        if own is None:
            return self._default
        session_ms, beat_ms, interval_ms = self._default
        return Times(
            session_ms if own[0] is None else own[0],
            beat_ms if own[1] is None else own[1],
            interval_ms if own[2] is None else own[2],
        )

    def take(self, told: GroupConfigured | IntervalConfigured) -> None:
        """Apply a change."""
        self.version += 1
        if isinstance(told, IntervalConfigured):
            self._default = self._default._replace(assignment_interval_ms=told.assignment_interval_ms)
        elif told.own is None:
            self._own.pop(told.group_id, None)
        else:
            self._own[told.group_id] = told.own
