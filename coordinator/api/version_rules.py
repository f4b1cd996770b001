"""What a request means that its message cannot say, because only its version does.

The one place where a handler's question about a version is answered: each function takes the request's version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SPECIAL_TIMESTAMPS: Final[Mapping[int, int]] = {-1: 0, -2: 0, -3: 7, -4: 8, -5: 9, -6: 11}
"""Timestamps of ListOffsets that stand for something else, and the version that brought each."""


def knows_timestamp(version: int, timestamp_ms: int) -> bool:
    """ListOffsets may ask for this timestamp."""
    return timestamp_ms >= 0 or SPECIAL_TIMESTAMPS.get(timestamp_ms, version + 1) <= version


def api_versions_names_software(version: int) -> bool:
    """ApiVersions says what the client is, and must say it well (KIP-511)."""
    return version >= 3


def api_versions_shows_features_from_zero(version: int) -> bool:
    """ApiVersions may list features whose least level is 0; older Java clients fail on them (KAFKA-17011)."""
    return version >= 4


def tells_deletion_disabled(version: int) -> bool:
    """DeleteTopics knows the error TOPIC_DELETION_DISABLED (KIP-322)."""
    return version >= 3


def describe_knows_group_not_found(version: int) -> bool:
    """DescribeGroups answers GROUP_ID_NOT_FOUND for an unknown group, instead of Dead (KIP-1043)."""
    return version >= 6


def fetch_by_topic_id(version: int) -> bool:
    """Fetch names topics by id (KIP-516)."""
    return version >= 13


def fetch_tells_leader(version: int) -> bool:
    """Fetch says where the leader is, beside an error that means another one (KIP-951)."""
    return version >= 16


def fetch_knows_storage_error(version: int) -> bool:
    """Fetch may answer KAFKA_STORAGE_ERROR; clients of older versions do not ask again then (KIP-112)."""
    return version >= 6


def join_requires_known_member_id(version: int) -> bool:
    """JoinGroup sends a dynamic member without an id back with one, MEMBER_ID_REQUIRED (KIP-394)."""
    return version >= 4


def join_supports_skip_assignment(version: int) -> bool:
    """JoinGroup can tell a static leader that came back not to compute the assignment (KIP-814)."""
    return version >= 9


def lists_all_config_resources(version: int) -> bool:
    """ListConfigResources asks for all kinds (KIP-1142), not for client metrics only (KIP-714)."""
    return version >= 1


def metadata_by_topic_id(version: int) -> bool:
    """Metadata may ask for a topic by its id alone, and answer without a name (KIP-516)."""
    return version >= 12


def offsets_by_topic_id(version: int) -> bool:
    """OffsetCommit and OffsetFetch name topics by id (KIP-848)."""
    return version >= 10


def produce_by_topic_id(version: int) -> bool:
    """Produce names topics by id (KIP-516)."""
    return version >= 13


def produce_allows_zstd(version: int) -> bool:
    """Produce may carry batches compressed with zstd (KIP-110)."""
    return version >= 7


def sync_names_protocol(version: int) -> bool:
    """SyncGroup gives protocol type and name, which must match (KIP-559)."""
    return version >= 5
