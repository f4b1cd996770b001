"""The meanings of a request that depend on its version and not on its message.

Only this module answers a handler's questions about a version. Each function takes the request's version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from muster.protocol.api import ApiKey

SPECIAL_TIMESTAMPS: Final[Mapping[int, int]] = {-1: 0, -2: 0, -3: 7, -4: 8, -5: 9, -6: 11}
"""The special timestamps of ListOffsets, and the first version that has each."""


def knows_timestamp(version: int, timestamp_ms: int) -> bool:
    """Whether ListOffsets may ask for this timestamp."""
    return timestamp_ms >= 0 or SPECIAL_TIMESTAMPS.get(timestamp_ms, version + 1) <= version


def _since(first: int) -> Callable[[int], bool]:
    return lambda version: version >= first


add_partitions_comes_from_broker = _since(4)
"""AddPartitionsToTxn is sent by brokers that verify what producers write, for many transactions at once (KIP-890)."""
end_txn_raises_epoch = _since(5)
"""EndTxn gives the producer the epoch of its next transaction (KIP-890)."""
api_versions_names_software = _since(3)
"""ApiVersions names the client's software, and the name must be valid (KIP-511)."""
api_versions_shows_features_from_zero = _since(4)
"""ApiVersions may list features whose lowest level is 0; older Java clients fail on them (KAFKA-17011)."""
knows_deletion_disabled = _since(3)
"""DeleteTopics knows the error TOPIC_DELETION_DISABLED (KIP-322)."""
describe_knows_group_not_found = _since(6)
"""DescribeGroups answers GROUP_ID_NOT_FOUND for an unknown group, instead of Dead (KIP-1043)."""
fetch_by_topic_id = _since(13)
"""Fetch names topics by id (KIP-516)."""
elections_have_one_error = _since(1)
"""ElectLeaders can be refused as a whole. Before, each partition has the error (KIP-460)."""
produce_names_leader = _since(10)
"""With NOT_LEADER_OR_FOLLOWER, Produce says where the leader is (KIP-951)."""
fetch_names_leader = _since(16)
"""With an error that means another leader, Fetch says where the leader is (KIP-951)."""
fetch_knows_storage_error = _since(6)
"""Fetch may answer KAFKA_STORAGE_ERROR; clients of older versions do not ask again then (KIP-112)."""
join_requires_known_member_id = _since(4)
"""JoinGroup gives a dynamic member without an id a new id with MEMBER_ID_REQUIRED (KIP-394)."""
join_supports_skip_assignment = _since(9)
"""JoinGroup can let a static leader that returned skip the assignment (KIP-814)."""
lists_all_config_resources = _since(1)
"""ListConfigResources asks for all kinds (KIP-1142), not for client metrics only (KIP-714)."""
metadata_by_topic_id = _since(12)
"""Metadata may ask for a topic by its id alone, and answer without a name (KIP-516)."""
offsets_by_topic_id = _since(10)
"""OffsetCommit and OffsetFetch name topics by id (KIP-848)."""
produce_by_topic_id = _since(13)
"""Produce names topics by id (KIP-516)."""
produce_allows_zstd = _since(7)
"""Produce may carry batches compressed with zstd (KIP-110)."""
sync_names_protocol = _since(5)
"""SyncGroup gives protocol type and name, which must match (KIP-559)."""
produce_adds_partitions = _since(12)
"""Produce adds its partitions to the transaction of its producer (KIP-890)."""
produce_knows_abortable = _since(11)
"""Produce may answer TRANSACTION_ABORTABLE (KIP-890)."""
txn_commit_adds_partitions = _since(5)
"""TxnOffsetCommit adds the partition of the group's offsets to the transaction (KIP-890)."""
txn_commit_knows_abortable = _since(4)
"""TxnOffsetCommit may answer TRANSACTION_ABORTABLE (KIP-890)."""


NO_TRANSACTION_VERSION: Final = 0
NEW_TRANSACTIONS: Final = 2
"""Kafka's TransactionVersion TV_0 and TV_2, as the requests of a producer show it."""


def transaction_version(is_new: bool) -> int:
    """The version of a client that sends transaction requests in the old form, or in the new one."""
    return NEW_TRANSACTIONS if is_new else NO_TRANSACTION_VERSION


_REFUSES_CHANGES: Final[Mapping[int, int]] = {
    ApiKey.CREATE_TOPICS: 6,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.CREATE_PARTITIONS: 3,
}


def refuses_changes(api_key: int, version: int) -> bool:
    """Whether changes above the quota are refused with THROTTLING_QUOTA_EXCEEDED (KIP-599). Else clients wait."""
    return version >= _REFUSES_CHANGES[api_key]
