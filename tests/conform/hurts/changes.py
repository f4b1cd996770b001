"""The faults of brokers that clients are run against: what is changed in the answers, by the id of hurts.toml."""

from __future__ import annotations

import copy
import struct
import uuid
from collections.abc import Callable
from typing import Any

from tests.conform.changing_proxy import Change, body_of

Body = dict[str, Any]


def every(body: Body, path: str, value: Any) -> Body:
    """The body with a value in the field of this path, in every row: `Topics.Partitions.Offset`."""
    out = copy.deepcopy(body)

    def put(at: Body, names: list[str]) -> None:
        name, *rest = names
        if not rest:
            if name in at:
                at[name] = value(at[name]) if callable(value) else value
            return
        for one in at[name] if isinstance(at.get(name), list) else [at.get(name)]:
            if isinstance(one, dict):
                put(one, rest)

    put(out, path.split("."))
    return out


def setting(api: str, paths: str, value: Any, *, unless_error: bool = True) -> Change:
    """Answers of an API get this value in fields of these paths. Refusals stay as they are."""

    def change(asked: str, version: int, _: Body, frame: bytes) -> Body | None:
        if asked != api:
            return None
        body = body_of(asked, version, frame)
        if unless_error and body.get("ErrorCode"):
            return None
        for path in paths.split():
            body = every(body, path, value)
        return body

    return change


def on_bytes(edit: Callable[[bytes], bytes], *apis: str) -> Change:
    """The frames of some APIs, or of all but ApiVersions, are edited."""

    def change(asked: str, _: int, __: Body, frame: bytes) -> bytes | None:
        return edit(frame) if asked in apis or (not apis and asked != "ApiVersions") else None

    return change


def without_id(api: str, version: int, _: Body, frame: bytes) -> Body | None:
    """MEMBER_ID_REQUIRED without the member id."""
    body = body_of(api, version, frame) if api == "JoinGroup" else {}
    return {**body, "MemberId": ""} if body.get("ErrorCode") == 79 else None


def old_form(api: str, version: int, _: Body, frame: bytes) -> Body | None:
    """A broker that knows ApiVersions up to 2 and refuses others, but not in version 0."""
    return {"ErrorCode": 35, "ApiKeys": []} if api == "ApiVersions" and version >= 3 else None


def forgets(missing: str) -> Change:
    """ApiVersions does not name an API that is served."""

    def change(api: str, version: int, _: Body, frame: bytes) -> Body | None:
        if api != "ApiVersions":
            return None
        body = body_of(api, version, frame)
        keys = {"Heartbeat": 12, "LeaveGroup": 13, "OffsetFetch": 9, "InitProducerId": 22}
        return {**body, "ApiKeys": [row for row in body["ApiKeys"] if row["ApiKey"] != keys[missing]]}

    return change


def damaged(raw: bytes | None) -> bytes | None:
    """Records with one bit that is wrong."""
    return raw[:-1] + bytes([raw[-1] ^ 1]) if raw else raw


def plus_one(frame: bytes) -> bytes:
    """Another correlation id."""
    return struct.pack(">i", struct.unpack_from(">i", frame)[0] + 1) + frame[4:]


def tagged_header(api: str, version: int, _: Body, frame: bytes) -> bytes | None:
    """A tagged field in the header of an answer: legal by KIP-482, though Kafka sends none."""
    from muster.conform.player import kafka_codec as codec

    if codec.answer_begins_at(api, version) == 4:
        return None
    return frame[:4] + b"\x01\xd9\x36\x00" + frame[5:]


CHANGES: dict[str, Change] = {
    "as-it-is": lambda *_: None,
    "trailing-byte": on_bytes(lambda frame: frame + b"\0"),
    "cut-metadata": on_bytes(lambda frame: frame[:-1], "Metadata"),
    "cut-join": on_bytes(lambda frame: frame[:-1], "JoinGroup"),
    "cut-fetch": on_bytes(lambda frame: frame[:-1], "Fetch"),
    "correlation-of-heartbeats": on_bytes(plus_one, "Heartbeat"),
    "correlation-of-all": on_bytes(plus_one),
    "header-tags": tagged_header,
    "versions-refused-in-own-form": old_form,
    "versions-without-heartbeat": forgets("Heartbeat"),
    "versions-without-offset-fetch": forgets("OffsetFetch"),
    "versions-without-init-producer-id": forgets("InitProducerId"),
    "metadata-without-host": setting("Metadata", "Brokers.Host", ""),
    "metadata-without-controller": setting("Metadata", "ControllerId", -1),
    "metadata-without-partitions": setting("Metadata", "Topics.Partitions", []),
    "metadata-zero-topic-id": setting("Metadata", "Topics.TopicId", uuid.UUID(int=0)),
    "metadata-leader-unknown": setting("Metadata", "Topics.Partitions.LeaderId", 77),
    "coordinator-without-port": setting("FindCoordinator", "Port Coordinators.Port", 0),
    "coordinator-unknown-error": setting("FindCoordinator", "ErrorCode Coordinators.ErrorCode", 7777),
    "join-generation": setting("JoinGroup", "GenerationId", -1),
    "join-leader": setting("JoinGroup", "Leader", "nobody"),
    "join-members": setting("JoinGroup", "Members", []),
    "join-protocol": setting("JoinGroup", "ProtocolName", ""),
    "join-member-id": setting("JoinGroup", "MemberId", ""),
    "join-required-without-id": without_id,
    "join-unknown-error": setting("JoinGroup", "ErrorCode", 7777),
    "sync-assignment-empty": setting("SyncGroup", "Assignment", b""),
    "sync-protocol": setting("SyncGroup", "ProtocolName", "other"),
    "sync-unknown-error": setting("SyncGroup", "ErrorCode", 7777),
    "heartbeat-unknown-error": setting("Heartbeat", "ErrorCode", 7777),
    "heartbeat-always-rebalance": setting("Heartbeat", "ErrorCode", 27),
    "leave-unknown-error": setting("LeaveGroup", "ErrorCode", 7777),
    "commit-unknown-error": setting("OffsetCommit", "Topics.Partitions.ErrorCode", 7777),
    "commit-without-rows": setting("OffsetCommit", "Topics", []),
    "offset-fetch-nothing": setting(
        "OffsetFetch", "Topics.Partitions.CommittedOffset Groups.Topics.Partitions.CommittedOffset", -1
    ),
    "offset-fetch-without-rows": setting("OffsetFetch", "Topics Groups.Topics", []),
    "offset-fetch-metadata": setting(
        "OffsetFetch", "Topics.Partitions.Metadata Groups.Topics.Partitions.Metadata", None
    ),
    "offset-fetch-epoch": setting(
        "OffsetFetch", "Topics.Partitions.CommittedLeaderEpoch Groups.Topics.Partitions.CommittedLeaderEpoch", 9
    ),
    "offset-fetch-unknown-error": setting("OffsetFetch", "ErrorCode Groups.ErrorCode", 7777),
    "list-offsets-none": setting("ListOffsets", "Topics.Partitions.Offset", -1),
    "list-offsets-without-rows": setting("ListOffsets", "Topics", []),
    "fetch-records-null": setting("Fetch", "Responses.Partitions.Records", None),
    "fetch-records-damaged": setting("Fetch", "Responses.Partitions.Records", damaged),
    "fetch-high-watermark": setting("Fetch", "Responses.Partitions.HighWatermark", -1),
    "fetch-last-stable": setting("Fetch", "Responses.Partitions.LastStableOffset", -1),
    "fetch-unknown-error": setting("Fetch", "Responses.Partitions.ErrorCode", 7777),
    "fetch-session": setting("Fetch", "SessionId", 4242),
    "fetch-throttled": setting("Fetch", "ThrottleTimeMs", 60_000),
    "produce-base-offset": setting("Produce", "Responses.PartitionResponses.BaseOffset", -1),
    "produce-unknown-error": setting("Produce", "Responses.PartitionResponses.ErrorCode", 7777),
    "produce-without-rows": setting("Produce", "Responses", []),
    "consumer-interval": setting("ConsumerGroupHeartbeat", "HeartbeatIntervalMs", 0),
    "consumer-epoch": setting("ConsumerGroupHeartbeat", "MemberEpoch", 0),
    "consumer-member-id": setting("ConsumerGroupHeartbeat", "MemberId", "somebody-else"),
    "consumer-assignment": setting("ConsumerGroupHeartbeat", "Assignment", None),
    "consumer-unknown-error": setting("ConsumerGroupHeartbeat", "ErrorCode", 7777),
    "consumer-unreleased": setting("ConsumerGroupHeartbeat", "ErrorCode", 111),
    "consumer-stale-commits": setting("OffsetCommit", "Topics.Partitions.ErrorCode", 113),
    "consumer-stale-fetches": setting("OffsetFetch", "Groups.ErrorCode", 113),
    "init-producer-id": setting("InitProducerId", "ProducerId", -1),
    "init-producer-unknown-error": setting("InitProducerId", "ErrorCode", 7777, unless_error=False),
}
"""What is changed."""
