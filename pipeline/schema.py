"""The Arrow schemas of raw and of decoded rows, and the kinds of decoded rows: names, types and units are documented in
docs/pipeline-spark.md. Decides nothing.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

OFFSETS_TOPIC: Final = "__consumer_offsets"

RAW: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int16()),
        ("is_transactional", pa.bool_()),
        ("damage", pa.string()),
    ]
)
"""A row of a source. The three facts about the producer come from segment files only; `damage` says what could not be
read there and is null in every other row."""

PARTITIONS: Final = pa.list_(pa.struct([("topic", pa.string()), ("partitions", pa.list_(pa.int32()))]))

MEMBER: Final = pa.struct(
    [
        ("member_id", pa.string()),
        ("group_instance_id", pa.string()),
        ("client_id", pa.string()),
        ("client_host", pa.string()),
        ("rebalance_timeout_ms", pa.int32()),
        ("session_timeout_ms", pa.int32()),
        ("subscription", pa.binary()),
        ("assignment", pa.binary()),
        ("topics", pa.list_(pa.string())),
        ("owned", PARTITIONS),
        ("rack", pa.string()),
        ("assigned", PARTITIONS),
    ]
)
"""A member of a classic group; the last four are what consumers embed and null where it cannot be read as that."""

LOGGED: Final = (
    ("log_partition", pa.int32()),
    ("log_offset", pa.int64()),
    ("log_timestamp_ms", pa.int64()),
    ("producer_id", pa.int64()),
    ("producer_epoch", pa.int16()),
    ("is_transactional", pa.bool_()),
)
"""Where and when a row was logged: in every table."""

KEYED: Final = (
    ("key_type", pa.int16()),
    ("value_version", pa.int16()),
    ("is_tombstone", pa.bool_()),
    ("group", pa.string()),
)

COMMIT: Final = (
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("committed_offset", pa.int64()),
    ("leader_epoch", pa.int32()),
    ("metadata", pa.string()),
    ("commit_timestamp_ms", pa.int64()),
    ("expire_timestamp_ms", pa.int64()),
    ("topic_id", pa.string()),
)

CLASSIC: Final = (
    ("protocol_type", pa.string()),
    ("generation", pa.int32()),
    ("protocol", pa.string()),
    ("leader", pa.string()),
    ("state_timestamp_ms", pa.int64()),
    ("members", pa.list_(MEMBER)),
)

RECORD: Final = (("record_name", pa.string()), ("key_json", pa.string()), ("value_json", pa.string()))
"""Every record that is no offset commit, in Kafka's JSON form."""

RAW_BYTES: Final = (("reason", pa.string()), ("raw_key", pa.binary()), ("raw_value", pa.binary()))
"""What could not be decoded, and why."""

DECODED: Final = pa.schema([("kind", pa.string()), *LOGGED, *KEYED, *COMMIT, *CLASSIC, *RECORD, *RAW_BYTES])

OFFSET_COMMIT: Final = "commit"
CLASSIC_GROUP: Final = "classic"
CONSUMER_GROUP: Final = "consumer"
SHARE_GROUP: Final = "share"
STREAMS_GROUP: Final = "streams"
UNKNOWN: Final = "unknown"
MALFORMED: Final = "malformed"
KINDS: Final = (OFFSET_COMMIT, CLASSIC_GROUP, CONSUMER_GROUP, SHARE_GROUP, STREAMS_GROUP, UNKNOWN, MALFORMED)


def table_columns(kind: str) -> list[str]:
    """The columns of DECODED that rows of a kind fill, in the order of the schema, without `kind` itself."""
    own: tuple[tuple[str, pa.DataType], ...] = RECORD
    if kind == OFFSET_COMMIT:
        own = COMMIT
    elif kind == CLASSIC_GROUP:
        own = (*CLASSIC, *RECORD)
    elif kind in (UNKNOWN, MALFORMED):
        own = RAW_BYTES
    return [name for name, _ in (*LOGGED, *KEYED, *own)]
