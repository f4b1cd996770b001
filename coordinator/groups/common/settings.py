"""The settings of the core, and the times of single groups, which override them (KIP-848's group configuration).

The runtime gives `GroupConfigs` to each new core, and sends commands for changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeVar

_Own = TypeVar("_Own")


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Kafka's broker properties that the core follows; a field's name is the property's with "." as "_"."""

    group_min_session_timeout_ms: int = 6_000
    """The least session timeout that a JoinGroup may ask for (inclusive)."""
    group_max_session_timeout_ms: int = 1_800_000
    """The greatest session timeout that a JoinGroup may ask for (inclusive)."""
    group_initial_rebalance_delay_ms: int = 3_000
    """How long the first rebalance of an Empty group waits for more members (KIP-134)."""
    group_max_size: int = 2_147_483_647
    """The largest number of members of a classic group (KIP-389)."""
    offset_metadata_max_bytes: int = 4_096
    """The longest metadata of one committed offset. Kafka counts UTF-16 units, although the name says bytes."""
    offsets_retention_minutes: int = 10_080
    """How long unused offsets are kept (KIP-211)."""
    offsets_retention_check_interval_ms: int = 600_000
    """The interval between two searches for expired offsets and unused groups."""
    group_consumer_session_timeout_ms: int = 45_000
    """How long a member of a consumer group (KIP-848) may be silent."""
    group_consumer_heartbeat_interval_ms: int = 5_000
    """The interval at which a member of a consumer group is to send heartbeats."""
    group_consumer_max_size: int = 2_147_483_647
    """The largest number of members of one consumer group."""
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """The assignors of the server. The first assignor is used when no member asks for another assignor."""
    group_consumer_assignment_interval_ms: int = 1_000
    """The minimum time for which a target assignment of a consumer group stays in force."""
    group_consumer_regex_refresh_interval_ms: int = 600_000
    """How long the result of a regular expression stays valid, if no topic changes."""
    group_consumer_migration_policy: str = "bidirectional"
    """Which groups may change their protocol while they have members: disabled, upgrade, downgrade, bidirectional."""
    group_share_session_timeout_ms: int = 45_000
    """How long a member of a share group (KIP-932) may be silent."""
    group_share_heartbeat_interval_ms: int = 5_000
    """The interval at which a member of a share group is to send heartbeats."""
    group_share_max_size: int = 200
    """The largest number of members of one share group."""
    group_share_assignment_interval_ms: int = 1_000
    """The minimum time for which a target assignment of a share group stays in force."""
    group_share_initialize_retry_interval_ms: int = 30_000
    """After this time the state of a share partition is created again, if nobody has answered."""
    group_streams_session_timeout_ms: int = 45_000
    """How long a member of a streams group (KIP-1071) may be silent."""
    group_streams_heartbeat_interval_ms: int = 5_000
    """The interval at which a member of a streams group is to send heartbeats."""
    group_streams_max_size: int = 2_147_483_647
    """The largest number of members of one streams group."""
    group_streams_assignment_interval_ms: int = 1_000
    """The minimum time for which a target assignment of a streams group stays in force."""
    group_streams_initial_rebalance_delay_ms: int = 3_000
    """How long a new streams group waits for members before its first target assignment."""
    group_streams_num_standby_replicas: int = 0
    """The number of standby copies of each task with state."""
    group_streams_rack_aware_assignment_tags: tuple[str, ...] = ()
    """The client tags that members have to send for the placement of standby copies."""
    group_streams_task_offset_interval_ms: int = 60_000
    """The interval at which a member of a streams group is to report the offsets of its tasks."""
    group_streams_acceptable_recovery_lag: int = 10_000
    """A copy of a task whose changelog lags behind by at most this many records counts as restored."""
    offsets_commit_timeout_ms: int = 5_000
    """The least value of `group_share_initialize_retry_interval_ms` that counts."""
    broker_rack: str | None = None
    """The rack of this node, which is part of the hash that consumer groups have of their topics (KIP-1101)."""


class OwnConfig(NamedTuple):
    """The values that are set for one group, within the broker's bounds. None: the value is not set for this group."""

    session_timeout_ms: int | None = None
    heartbeat_interval_ms: int | None = None
    assignment_interval_ms: int | None = None


class Times(NamedTuple):
    """The times that apply to one group."""

    session_timeout_ms: int
    """How long a member may be silent."""
    heartbeat_interval_ms: int
    """The interval at which a member is to send heartbeats."""
    assignment_interval_ms: int
    """The minimum time for which a target assignment stays in force."""


class OwnStreams(NamedTuple):
    """The values that are set for one streams group, as in `StreamsConfig`. None: the value is not set."""

    session_timeout_ms: int | None = None
    heartbeat_interval_ms: int | None = None
    assignment_interval_ms: int | None = None
    initial_delay_ms: int | None = None
    standby_replicas: int | None = None
    rack_tags: tuple[str, ...] | None = None
    task_offset_interval_ms: int | None = None
    acceptable_recovery_lag: int | None = None


class StreamsConfig(NamedTuple):
    """The values that apply to one streams group. See the fields of `GroupSettings` with these names."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    initial_delay_ms: int
    standby_replicas: int
    rack_tags: tuple[str, ...]
    task_offset_interval_ms: int
    acceptable_recovery_lag: int


class GroupConfigured(NamedTuple):
    """The command that changes a group's configuration. None removes the group's configuration."""

    group_id: str
    own: OwnConfig | None
    """The values that count if the group is a consumer group."""
    share: OwnConfig | None = None
    """The values that count if the group is a share group."""
    streams: OwnStreams | None = None
    """The values that count if the group is a streams group."""


class IntervalConfigured(NamedTuple):
    """The command that changes the broker's intervals between assignments while the server runs."""

    assignment_interval_ms: int
    """`group.consumer.assignment.interval.ms`."""
    share_assignment_interval_ms: int
    """`group.share.assignment.interval.ms`."""
    streams_assignment_interval_ms: int = 1_000
    """`group.streams.assignment.interval.ms`."""


class GroupConfigs:
    """The times of all groups of a core. `version` grows with each change of a time."""

    __slots__ = (
        "_default", "_own", "_settings", "_share", "_share_default", "_streams", "_streams_default", "version",
    )  # fmt: skip

    def __init__(self, settings: GroupSettings) -> None:
        self._settings = settings
        self._default = Times(
            settings.group_consumer_session_timeout_ms,
            settings.group_consumer_heartbeat_interval_ms,
            settings.group_consumer_assignment_interval_ms,
        )
        self._share_default = Times(
            settings.group_share_session_timeout_ms,
            settings.group_share_heartbeat_interval_ms,
            settings.group_share_assignment_interval_ms,
        )
        self._streams_default = StreamsConfig(
            settings.group_streams_session_timeout_ms,
            settings.group_streams_heartbeat_interval_ms,
            settings.group_streams_assignment_interval_ms,
            settings.group_streams_initial_rebalance_delay_ms,
            settings.group_streams_num_standby_replicas,
            settings.group_streams_rack_aware_assignment_tags,
            settings.group_streams_task_offset_interval_ms,
            settings.group_streams_acceptable_recovery_lag,
        )
        self._streams: dict[str, OwnStreams] = {}
        self._own: dict[str, OwnConfig] = {}
        self._share: dict[str, OwnConfig] = {}
        self.version = 0

    def copy(self) -> GroupConfigs:
        """A copy, for a new core."""
        other = GroupConfigs(self._settings)
        other._default, other._own, other.version = self._default, dict(self._own), self.version
        other._share_default, other._share = self._share_default, dict(self._share)
        other._streams_default, other._streams = self._streams_default, dict(self._streams)
        return other

    def of(self, group_id: str) -> Times:
        """The times that apply to a consumer group."""
        own = self._own.get(group_id)
        return self._default if own is None else _times(own, self._default)

    def of_share(self, group_id: str) -> Times:
        """The times that apply to a share group."""
        own = self._share.get(group_id)
        return self._share_default if own is None else _times(own, self._share_default)

    def of_streams(self, group_id: str) -> StreamsConfig:
        """The values that apply to a streams group."""
        own, default = self._streams.get(group_id), self._streams_default
        if own is None:
            return default
        return default._replace(**{name: value for name, value in own._asdict().items() if value is not None})

    def apply(self, change: GroupConfigured | IntervalConfigured) -> None:
        """Set what this command changes."""
        self.version += 1
        if isinstance(change, IntervalConfigured):
            self._default = self._default._replace(assignment_interval_ms=change.assignment_interval_ms)
            share_ms = change.share_assignment_interval_ms
            self._share_default = self._share_default._replace(assignment_interval_ms=share_ms)
            streams_ms = change.streams_assignment_interval_ms
            self._streams_default = self._streams_default._replace(assignment_interval_ms=streams_ms)
            return
        _set(self._own, change.group_id, change.own)
        _set(self._share, change.group_id, change.share)
        _set(self._streams, change.group_id, change.streams)


def _set(configs: dict[str, _Own], group_id: str, own: _Own | None) -> None:
    if own is None:
        configs.pop(group_id, None)
    else:
        configs[group_id] = own


def _times(own: OwnConfig, default: Times) -> Times:
    return Times(*[usual if value is None else value for value, usual in zip(own, default, strict=True)])
