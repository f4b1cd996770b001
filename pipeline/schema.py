"""The Arrow schemas of raw and decoded rows, and the kinds of decoded rows. docs/pipeline-spark.md explains them."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

OFFSETS_TOPIC: Final = "__consumer_offsets"
SOURCE_LOG: Final = "log"
SOURCE_INFERRED: Final = "inferred"
SOURCE_EVENTS: Final = "events"
"""The values of the columns `source`:

* log: a row is known from the log alone (generations, memberships, transactions)
* inferred: a row is inferred from the offsets log (rebalances)
* events: a row is known from `__group_events` or `__transaction_events`
"""

PARTITIONS: Final = pa.list_(pa.struct([("topic", pa.string()), ("partitions", pa.list_(pa.int32()))]))

_TYPES: Final = {
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "short": pa.int16(),
    "int": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "strings": pa.list_(pa.string()),
    "partitions": PARTITIONS,
}

Columns = tuple[tuple[str, pa.DataType], ...]


def columns(text: str, **types: pa.DataType) -> Columns:
    """The names and types of columns, from a text `name type, name type …`.

    A type is one of Spark's names, or a name that the caller defines.
    """
    known = _TYPES | types
    return tuple((name, known[kind]) for name, kind in (one.split() for one in text.split(",")))


def structs(text: str, **types: pa.DataType) -> pa.DataType:
    """The type of a list of structs that have these columns."""
    return pa.list_(pa.struct(columns(text, **types)))


RAW: Final = pa.schema(
    columns(
        "topic string, partition int, offset long, timestamp_ms long, key binary, value binary, "
        "producer_id long, producer_epoch short, is_transactional boolean, damage string"
    )
)
"""A row of a source. Only rows of segment files have the producer. `damage` says what could not be read, or is null."""

MEMBER: Final = pa.struct(
    columns(
        "member_id string, group_instance_id string, client_id string, client_host string, rebalance_timeout_ms int, "
        "session_timeout_ms int, subscription binary, assignment binary, topics strings, owned partitions, "
        "rack string, assigned partitions"
    )
)
"""A member of a classic group. The last four fields come from a consumer's embedded metadata; null: unreadable."""

LOGGED: Final = columns(
    "log_partition int, log_offset long, log_timestamp_ms long, producer_id long, producer_epoch short, "
    "is_transactional boolean"
)
"""The place and the time at which a row was logged: columns of every table."""

KEYED: Final = columns("key_type short, value_version short, is_tombstone boolean, group string")

COMMIT: Final = columns(
    "topic string, partition int, committed_offset long, leader_epoch int, metadata string, commit_timestamp_ms long, "
    "expire_timestamp_ms long, topic_id string"
)

CLASSIC: Final = columns(
    "protocol_type string, generation int, protocol string, leader string, state_timestamp_ms long, members members",
    members=pa.list_(MEMBER),
)

RECORD: Final = columns("record_name string, key_json string, value_json string")
"""A record that is not an offset commit, in Kafka's JSON form."""

RAW_BYTES: Final = columns("reason string, raw_key binary, raw_value binary")
"""A row that could not be decoded, with the reason."""

DECODED: Final = pa.schema([("kind", pa.string()), *LOGGED, *KEYED, *COMMIT, *CLASSIC, *RECORD, *RAW_BYTES])

OFFSET_COMMIT: Final = "commit"
CLASSIC_GROUP: Final = "classic"
CONSUMER_GROUP: Final = "consumer"
SHARE_GROUP: Final = "share"
STREAMS_GROUP: Final = "streams"
UNKNOWN: Final = "unknown"
MALFORMED: Final = "malformed"
OTHER_COMMIT: Final = "other"
"""A commit of a group, or of a time, that is not wanted. Only its group and its time are kept, as a sign of life."""
KINDS: Final = (OFFSET_COMMIT, CLASSIC_GROUP, CONSUMER_GROUP, SHARE_GROUP, STREAMS_GROUP, UNKNOWN, MALFORMED)


def table_columns(kind: str) -> list[str]:
    """The columns of DECODED that rows of a kind fill, in the order of the schema, without the column `kind`."""
    own: Columns = RECORD
    if kind == OFFSET_COMMIT:
        own = COMMIT
    elif kind == CLASSIC_GROUP:
        own = (*CLASSIC, *RECORD)
    elif kind in (UNKNOWN, MALFORMED):
        own = RAW_BYTES
    elif kind == OTHER_COMMIT:
        own = ()
    return [name for name, _ in (*LOGGED, *KEYED, *own)]
