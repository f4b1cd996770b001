"""What each change of `changes` is a fault of: the API, the field, and the words of conform/hurts.toml."""

from __future__ import annotations

from typing import NamedTuple

from muster.conform.hurts import UNKNOWN_ERROR


class Fault(NamedTuple):
    kind: str
    """As conform/hurts.py has them: value, trailing, cut, correlation, header-tags, versions."""
    api: str
    field: str
    value: str
    """What the field had in the run."""


FAULTS: dict[str, Fault] = {
    "trailing-byte": Fault("trailing", "", "", "one byte too many"),
    "cut-metadata": Fault("cut", "Metadata", "", "one byte less"),
    "cut-join": Fault("cut", "JoinGroup", "", "one byte less"),
    "cut-fetch": Fault("cut", "Fetch", "", "one byte less"),
    "correlation-of-heartbeats": Fault("correlation", "Heartbeat", "", ""),
    "correlation-of-all": Fault("correlation", "", "", "it in every answer"),
    "header-tags": Fault("header-tags", "", "", "one unknown tagged field"),
    "versions-refused-in-own-form": Fault("versions", "ApiVersions", "", "the refusal in the version of the request"),
    "versions-without-heartbeat": Fault("value", "ApiVersions", "ApiKeys", "no Heartbeat in it"),
    "versions-without-offset-fetch": Fault("value", "ApiVersions", "ApiKeys", "no OffsetFetch in it"),
    "versions-without-init-producer-id": Fault("value", "ApiVersions", "ApiKeys", "no InitProducerId in it"),
    "metadata-without-host": Fault("value", "Metadata", "Brokers.Host", "an empty host"),
    "metadata-without-controller": Fault("value", "Metadata", "ControllerId", "-1"),
    "metadata-without-partitions": Fault("value", "Metadata", "Topics.Partitions", "no partitions"),
    "metadata-zero-topic-id": Fault("value", "Metadata", "Topics.TopicId", "the zero id"),
    "metadata-leader-unknown": Fault("value", "Metadata", "Topics.Partitions.LeaderId", "a broker that is not listed"),
    "coordinator-without-port": Fault("value", "FindCoordinator", "Coordinators.Port", "0"),
    "coordinator-unknown-error": Fault("value", "FindCoordinator", "Coordinators.ErrorCode", UNKNOWN_ERROR),
    "join-generation": Fault("value", "JoinGroup", "GenerationId", "-1"),
    "join-leader": Fault("value", "JoinGroup", "Leader", "nobody of the group"),
    "join-members": Fault("value", "JoinGroup", "Members", "no members for the leader"),
    "join-protocol": Fault("value", "JoinGroup", "ProtocolName", "an empty name"),
    "join-member-id": Fault("value", "JoinGroup", "MemberId", "an empty id in a successful answer"),
    "join-required-without-id": Fault("value", "JoinGroup", "MemberId", "an empty id beside MEMBER_ID_REQUIRED"),
    "join-unknown-error": Fault("value", "JoinGroup", "ErrorCode", UNKNOWN_ERROR),
    "sync-assignment-empty": Fault("value", "SyncGroup", "Assignment", "no bytes"),
    "sync-protocol": Fault("value", "SyncGroup", "ProtocolName", "another name than JoinGroup's"),
    "sync-unknown-error": Fault("value", "SyncGroup", "ErrorCode", UNKNOWN_ERROR),
    "heartbeat-unknown-error": Fault("value", "Heartbeat", "ErrorCode", UNKNOWN_ERROR),
    "heartbeat-always-rebalance": Fault("value", "Heartbeat", "ErrorCode", "REBALANCE_IN_PROGRESS in every answer"),
    "leave-unknown-error": Fault("value", "LeaveGroup", "ErrorCode", UNKNOWN_ERROR),
    "commit-unknown-error": Fault("value", "OffsetCommit", "Topics.Partitions.ErrorCode", UNKNOWN_ERROR),
    "commit-without-rows": Fault("value", "OffsetCommit", "Topics", "no rows"),
    "offset-fetch-nothing": Fault("value", "OffsetFetch", "Groups.Topics.Partitions.CommittedOffset", "-1"),
    "offset-fetch-without-rows": Fault("value", "OffsetFetch", "Groups.Topics", "no rows"),
    "offset-fetch-metadata": Fault("value", "OffsetFetch", "Groups.Topics.Partitions.Metadata", "null"),
    "offset-fetch-epoch": Fault(
        "value", "OffsetFetch", "Groups.Topics.Partitions.CommittedLeaderEpoch", "an epoch of the future"
    ),
    "offset-fetch-unknown-error": Fault("value", "OffsetFetch", "Groups.ErrorCode", UNKNOWN_ERROR),
    "list-offsets-none": Fault("value", "ListOffsets", "Topics.Partitions.Offset", "-1"),
    "list-offsets-without-rows": Fault("value", "ListOffsets", "Topics", "no rows"),
    "fetch-records-null": Fault("value", "Fetch", "Responses.Partitions.Records", "null though there are records"),
    "fetch-records-damaged": Fault("value", "Fetch", "Responses.Partitions.Records", "one wrong bit"),
    "fetch-high-watermark": Fault("value", "Fetch", "Responses.Partitions.HighWatermark", "-1"),
    "fetch-last-stable": Fault("value", "Fetch", "Responses.Partitions.LastStableOffset", "-1"),
    "fetch-unknown-error": Fault("value", "Fetch", "Responses.Partitions.ErrorCode", UNKNOWN_ERROR),
    "fetch-session": Fault("value", "Fetch", "SessionId", "a session that the broker does not have"),
    "fetch-throttled": Fault("value", "Fetch", "ThrottleTimeMs", "one minute"),
    "produce-base-offset": Fault("value", "Produce", "Responses.PartitionResponses.BaseOffset", "-1"),
    "produce-unknown-error": Fault("value", "Produce", "Responses.PartitionResponses.ErrorCode", UNKNOWN_ERROR),
    "produce-without-rows": Fault("value", "Produce", "Responses", "no rows"),
    "consumer-interval": Fault("value", "ConsumerGroupHeartbeat", "HeartbeatIntervalMs", "0"),
    "consumer-epoch": Fault("value", "ConsumerGroupHeartbeat", "MemberEpoch", "0 in every answer"),
    "consumer-member-id": Fault("value", "ConsumerGroupHeartbeat", "MemberId", "the id of another member"),
    "consumer-assignment": Fault("value", "ConsumerGroupHeartbeat", "Assignment", "null in every answer"),
    "consumer-unknown-error": Fault("value", "ConsumerGroupHeartbeat", "ErrorCode", UNKNOWN_ERROR),
    "consumer-unreleased": Fault("value", "ConsumerGroupHeartbeat", "ErrorCode", "UNRELEASED_INSTANCE_ID"),
    "consumer-stale-commits": Fault("value", "OffsetCommit", "Topics.Partitions.ErrorCode", "STALE_MEMBER_EPOCH"),
    "consumer-stale-fetches": Fault("value", "OffsetFetch", "Groups.ErrorCode", "STALE_MEMBER_EPOCH"),
    "init-producer-id": Fault("value", "InitProducerId", "ProducerId", "-1"),
    "init-producer-unknown-error": Fault("value", "InitProducerId", "ErrorCode", UNKNOWN_ERROR),
}
