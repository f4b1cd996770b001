"""What a client can do, by the version of its request: named, so that no handler compares versions.

Each function takes the request's version.
"""

from __future__ import annotations


def join_requires_known_member_id(version: int) -> bool:
    """JoinGroup: a dynamic member without an id is sent back with one, MEMBER_ID_REQUIRED (KIP-394)."""
    return version >= 4


def join_supports_skip_assignment(version: int) -> bool:
    """JoinGroup: a returning static leader can be told not to compute the assignment (KIP-814)."""
    return version >= 9


def sync_names_protocol(version: int) -> bool:
    """SyncGroup: protocol type and name must be given and match (KIP-559); older requests have neither."""
    return version >= 5


def commit_knows_member_epochs(version: int) -> bool:
    """OffsetCommit: the client may be a member with an epoch and knows STALE_MEMBER_EPOCH (KIP-848)."""
    return version >= 9


def consumer_brings_member_id(version: int) -> bool:
    """ConsumerGroupHeartbeat: the client makes its own member id (KIP-1082)."""
    return version >= 1


def describe_knows_group_not_found(version: int) -> bool:
    """DescribeGroups: an unknown group is GROUP_ID_NOT_FOUND (KIP-1043) instead of Dead."""
    return version >= 6


def produce_may_use_zstd(version: int) -> bool:
    """Produce: batches may be compressed with zstd (KIP-110); below it is UNSUPPORTED_COMPRESSION_TYPE."""
    return version >= 7


def fetch_may_return_zstd(version: int) -> bool:
    """Fetch: the client can read zstd (KIP-110)."""
    return version >= 10


# ListOffsets: special timestamps and the first version that knows them (KIP-734, KIP-405, KIP-1005, KIP-1023).
_TIMESTAMPS = {-1: 0, -2: 0, -3: 7, -4: 8, -5: 9, -6: 11}


def list_offsets_knows_timestamp(version: int, timestamp: int) -> bool:
    """ListOffsets: whether a timestamp, if a special (negative) one, may be asked in this version.

    Kafka answers UNSUPPORTED_VERSION for one that is too new for the version.
    """
    return timestamp >= 0 or version >= _TIMESTAMPS.get(timestamp, 0)


def api_versions_names_software(version: int) -> bool:
    """ApiVersions: the client says what it is, and must say it well (KIP-511)."""
    return version >= 3


def api_versions_shows_features_from_zero(version: int) -> bool:
    """ApiVersions: features whose least level is 0 may be listed; older Java clients fail on them (KAFKA-17011)."""
    return version >= 4
