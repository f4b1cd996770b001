"""The settings of the core: Kafka's names and defaults. Reads nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Kafka's broker properties that the core follows; a field's name is the property's with "." as "_"."""

    group_min_session_timeout_ms: int = 6_000
    """Least session timeout a JoinGroup may ask for (inclusive)."""
    group_max_session_timeout_ms: int = 1_800_000
    """Greatest session timeout a JoinGroup may ask for (inclusive)."""
    group_initial_rebalance_delay_ms: int = 3_000
    """How long the first rebalance of an Empty group waits for more members (KIP-134)."""
    group_max_size: int = 2_147_483_647
    """Most members of one group (KIP-389)."""
    offset_metadata_max_bytes: int = 4_096
    """Longest metadata of one commit. Kafka counts UTF-16 units, although the name says bytes."""
    offsets_retention_minutes: int = 10_080
    """How long unused offsets are kept (KIP-211)."""
    offsets_retention_check_interval_ms: int = 600_000
    """How often expired offsets and unused groups are searched."""
    group_consumer_session_timeout_ms: int = 45_000
    """How long a member of a consumer group (KIP-848) may be silent."""
    group_consumer_heartbeat_interval_ms: int = 5_000
    """How often such a member is to send a heartbeat."""
    group_consumer_max_size: int = 2_147_483_647
    """Most members of one consumer group."""
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """The strategies of the server. The first is used when no member asks for another."""
    group_consumer_assignment_interval_ms: int = 1_000
    """The minimum time for which a target assignment of a consumer group stays."""
    group_consumer_regex_refresh_interval_ms: int = 600_000
    """How long the topics of a regular expression stay valid, if topics do not change."""
    group_consumer_migration_policy: str = "bidirectional"
    """Which groups may change their protocol while they have members: disabled, upgrade, downgrade, bidirectional."""
    broker_rack: str | None = None
    """The rack of this node: it is in the hash that consumer groups keep of their topics (KIP-1101)."""
