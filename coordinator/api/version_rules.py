"""What a request means that its message cannot say, because only its version does.

The one place where a handler's question about a version is answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

API_VERSIONS_NAMES_SOFTWARE: Final = 3
"""ApiVersions says what the client is, and must say it well, from this version on (KIP-511)."""
API_VERSIONS_FEATURES_FROM_ZERO: Final = 4
"""ApiVersions may list features whose least level is 0 from this version on; older Java clients fail on them
(KAFKA-17011)."""
DELETION_DISABLED: Final = 3
"""DeleteTopics knows the error TOPIC_DELETION_DISABLED from this version on (KIP-322)."""
DESCRIBE_KNOWS_GROUP_NOT_FOUND: Final = 6
"""DescribeGroups answers GROUP_ID_NOT_FOUND for an unknown group from this version on, instead of Dead (KIP-1043)."""
FETCH_BY_TOPIC_ID: Final = 13
"""Fetch names topics by id from this version on (KIP-516)."""
FETCH_TELLS_LEADER: Final = 16
"""Fetch says where the leader is, beside an error that means another one, from this version on (KIP-951)."""
FETCH_KNOWS_STORAGE_ERROR: Final = 6
"""Fetch may answer KAFKA_STORAGE_ERROR from this version on; clients of older ones do not ask again then (KIP-112)."""
JOIN_REQUIRES_MEMBER_ID: Final = 4
"""JoinGroup sends a dynamic member without an id back with one, MEMBER_ID_REQUIRED, from this version on (KIP-394)."""
JOIN_SUPPORTS_SKIP_ASSIGNMENT: Final = 9
"""JoinGroup can tell a static leader that came back not to compute the assignment, from this version on (KIP-814)."""
LIST_CONFIG_RESOURCES: Final = 1
"""ListConfigResources asks for more than client metrics from this version on (KIP-1142)."""
METADATA_BY_TOPIC_ID: Final = 12
"""Metadata may ask for a topic by its id alone, and answer without a name, from this version on (KIP-516)."""
OFFSETS_BY_TOPIC_ID: Final = 10
"""OffsetCommit and OffsetFetch name topics by id from this version on (KIP-848)."""
PRODUCE_BY_TOPIC_ID: Final = 13
"""Produce names topics by id from this version on (KIP-516)."""
PRODUCE_ZSTD: Final = 7
"""Produce may carry batches compressed with zstd from this version on (KIP-110)."""
SYNC_NAMES_PROTOCOL: Final = 5
"""SyncGroup gives protocol type and name, which must match, from this version on (KIP-559)."""

SPECIAL_TIMESTAMPS: Final[Mapping[int, int]] = {-1: 0, -2: 0, -3: 7, -4: 8, -5: 9, -6: 11}
"""Timestamps of ListOffsets that stand for something else, and the version that brought each."""


def tells_deletion_disabled(version: int) -> bool:
    """Does DeleteTopics of this version know an error of its own for that?"""
    return version >= DELETION_DISABLED


def fetch_by_topic_id(version: int) -> bool:
    """Does Fetch of this version name topics by id?"""
    return version >= FETCH_BY_TOPIC_ID


def fetch_tells_leader(version: int) -> bool:
    """Does a row of Fetch of this version say where the leader is?"""
    return version >= FETCH_TELLS_LEADER


def fetch_knows_storage_error(version: int) -> bool:
    """Do clients of this version of Fetch ask again after KAFKA_STORAGE_ERROR?"""
    return version >= FETCH_KNOWS_STORAGE_ERROR


def lists_all_config_resources(version: int) -> bool:
    """Does ListConfigResources of this version ask for all kinds (KIP-1142), not for client metrics only (KIP-714)?"""
    return version >= LIST_CONFIG_RESOURCES


def metadata_by_topic_id(version: int) -> bool:
    """May a topic in Metadata of this version have no name?"""
    return version >= METADATA_BY_TOPIC_ID


def produce_by_topic_id(version: int) -> bool:
    """Does Produce of this version name topics by id?"""
    return version >= PRODUCE_BY_TOPIC_ID


def produce_allows_zstd(version: int) -> bool:
    """May Produce of this version carry zstd?"""
    return version >= PRODUCE_ZSTD


def knows_timestamp(version: int, timestamp_ms: int) -> bool:
    """May ListOffsets of this version ask for this timestamp?"""
    return timestamp_ms >= 0 or SPECIAL_TIMESTAMPS.get(timestamp_ms, version + 1) <= version


def api_versions_names_software(version: int) -> bool:
    """Does ApiVersions of this version say what the client is?"""
    return version >= API_VERSIONS_NAMES_SOFTWARE


def api_versions_shows_features_from_zero(version: int) -> bool:
    """May ApiVersions of this version list features whose least level is 0?"""
    return version >= API_VERSIONS_FEATURES_FROM_ZERO


def describe_knows_group_not_found(version: int) -> bool:
    """Does DescribeGroups of this version know an error for an unknown group?"""
    return version >= DESCRIBE_KNOWS_GROUP_NOT_FOUND


def join_requires_known_member_id(version: int) -> bool:
    """Does JoinGroup of this version send a dynamic member without an id back with one?"""
    return version >= JOIN_REQUIRES_MEMBER_ID


def join_supports_skip_assignment(version: int) -> bool:
    """Can JoinGroup of this version tell a leader not to compute the assignment?"""
    return version >= JOIN_SUPPORTS_SKIP_ASSIGNMENT


def offsets_by_topic_id(version: int) -> bool:
    """Do OffsetCommit and OffsetFetch of this version name topics by id?"""
    return version >= OFFSETS_BY_TOPIC_ID


def sync_names_protocol(version: int) -> bool:
    """Does SyncGroup of this version give protocol type and name?"""
    return version >= SYNC_NAMES_PROTOCOL
