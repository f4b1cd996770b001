"""What a request means that its message cannot say, because only its version does.

The one place that compares versions for the data plane.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

DELETION_DISABLED: Final = 3
"""DeleteTopics knows the error TOPIC_DELETION_DISABLED from this version on (KIP-322)."""
FETCH_BY_TOPIC_ID: Final = 13
"""Fetch names topics by id from this version on (KIP-516)."""
FETCH_TELLS_LEADER: Final = 16
"""Fetch says where the leader is, beside an error that means another one, from this version on (KIP-951)."""
FETCH_KNOWS_STORAGE_ERROR: Final = 6
"""Fetch may answer KAFKA_STORAGE_ERROR from this version on; clients of older ones do not ask again then (KIP-112)."""
LIST_CONFIG_RESOURCES: Final = 1
"""ListConfigResources asks for more than client metrics from this version on (KIP-1142)."""
METADATA_BY_TOPIC_ID: Final = 12
"""Metadata may ask for a topic by its id alone, and answer without a name, from this version on (KIP-516)."""
PRODUCE_BY_TOPIC_ID: Final = 13
"""Produce names topics by id from this version on (KIP-516)."""
PRODUCE_ZSTD: Final = 7
"""Produce may carry batches compressed with zstd from this version on (KIP-110)."""

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
