"""Decodes single records with `protocol`: all but offset commits of usual forms. An unreadable row gets a reason."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any, Final, TypeVar

from muster.pipeline.schema import (
    CLASSIC_GROUP,
    CONSUMER_GROUP,
    MALFORMED,
    OFFSET_COMMIT,
    SHARE_GROUP,
    STREAMS_GROUP,
    UNKNOWN,
)
from muster.protocol.as_json import as_json, group_metadata_as_json
from muster.protocol.consumer import PROTOCOL_TYPE, decode_assignment, decode_subscription, subscribed_topics
from muster.protocol.message import ZERO_UUID, MalformedMessage
from muster.protocol.records import OFFSETS, UnknownRecord

Row = dict[str, Any]
_T = TypeVar("_T")

GROUP_METADATA: Final = 2
_PREFIXES: Final = (
    ("OffsetCommit", OFFSET_COMMIT),
    ("LegacyOffsetCommit", OFFSET_COMMIT),
    ("GroupMetadata", CLASSIC_GROUP),
    ("ConsumerGroup", CONSUMER_GROUP),
    ("ShareGroup", SHARE_GROUP),
    ("StreamsGroup", STREAMS_GROUP),
)
NO_KEY: Final = "the record has no key, of which its type is part"


def decode_record(key: bytes | None, value: bytes | None) -> Row:
    """The columns that a record fills, and its `kind`; see docs/pipeline-spark.md. It raises no exception."""
    if key is None:
        return {"kind": MALFORMED, **_raw(NO_KEY, None, value)}
    row: Row = {"is_tombstone": value is None}
    if len(key) >= 2:
        row["key_type"] = int.from_bytes(key[:2], "big", signed=True)
    if value is not None and len(value) >= 2:
        row["value_version"] = int.from_bytes(value[:2], "big", signed=True)
    try:
        kind, message = OFFSETS.decode_key(key)
        # the group is filled in even if the value is unreadable, so that the row shows its group
        row["group"] = getattr(message, "group", None) or getattr(message, "group_id", "")
        version, content = (0, None) if value is None else OFFSETS.decode_value(kind, value)
        return row | _columns(kind, message, version, content)
    except UnknownRecord as error:
        return row | {"kind": UNKNOWN, **_raw(str(error), key, value)}
    except MalformedMessage as error:
        return row | {"kind": MALFORMED, **_raw(str(error), key, value)}


def _raw(reason: str, key: bytes | None, value: bytes | None) -> Row:
    return {"reason": reason, "raw_key": key, "raw_value": value}


def kind_of(record_name: str) -> str:
    """The kind (of schema.KINDS) of a record with this name."""
    return next(kind for prefix, kind in _PREFIXES if record_name.startswith(prefix))


def _columns(key_type: int, key: Any, version: int, value: Any) -> Row:
    name = OFFSETS.type_name(key_type) or ""
    kind = kind_of(name)
    if kind == OFFSET_COMMIT:
        return {"kind": kind, **_commit(key, value)}
    row: Row = {"kind": kind, "record_name": name, "key_json": _text(as_json(key, 0))}
    if value is None:
        return row
    if key_type != GROUP_METADATA:
        return row | {"value_json": _text(as_json(value, version))}
    return row | _classic(value) | {"value_json": _text(group_metadata_as_json(value, version))}


def _text(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _commit(key: Any, value: Any) -> Row:
    row: Row = {"topic": key.topic, "partition": key.partition}
    if value is None:
        return row
    epoch, expiry = getattr(value, "leader_epoch", -1), getattr(value, "expire_timestamp", -1)
    topic_id = getattr(value, "topic_id", ZERO_UUID)
    return row | {
        "committed_offset": value.offset,
        "leader_epoch": None if epoch == -1 else epoch,
        "metadata": value.metadata,
        "commit_timestamp_ms": value.commit_timestamp,
        "expire_timestamp_ms": None if expiry == -1 else expiry,
        "topic_id": None if topic_id == ZERO_UUID else base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode(),
    }


def _classic(value: Any) -> Row:
    is_consumers = value.protocol_type == PROTOCOL_TYPE
    stated = value.current_state_timestamp
    return {
        "protocol_type": value.protocol_type,
        "generation": value.generation,
        "protocol": value.protocol,
        "leader": value.leader,
        "state_timestamp_ms": None if stated == -1 else stated,
        "members": [_member(member, is_consumers) for member in value.members],
    }


def _member(member: Any, is_consumer: bool) -> Row:
    row: Row = {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rebalance_timeout_ms": member.rebalance_timeout,
        "session_timeout_ms": member.session_timeout,
        "subscription": member.subscription,
        "assignment": member.assignment,
    }
    if not is_consumer:
        return row
    topics = _readable(subscribed_topics, member.subscription)
    if topics is not None:
        row["topics"] = list(topics)
    subscription = _embedded(decode_subscription, member.subscription)
    if subscription is not None:
        row |= {"owned": _partitions(subscription.owned_partitions), "rack": subscription.rack_id}
    assignment = _embedded(decode_assignment, member.assignment)
    if assignment is not None:
        row["assigned"] = _partitions(assignment.assigned_partitions)
    return row


def _embedded(decode: Callable[[bytes], tuple[int, Any]], data: bytes) -> Any:
    found = _readable(decode, data)
    return None if found is None else found[1]


def _readable(decode: Callable[[bytes], _T], data: bytes) -> _T | None:
    try:
        return decode(data)
    except MalformedMessage:
        return None


def _partitions(topics: Any) -> list[Row]:
    return [{"topic": one.topic, "partitions": list(one.partitions)} for one in topics]
