"""The Arrow schemas of the tables, and of rows of `__group_events`. docs/pipeline-tables.md explains the columns."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it
from pyspark.sql.pandas.types import from_arrow_schema

from muster.pipeline.schema import KEYED, LOGGED, PARTITIONS, RAW_BYTES, columns

LOG: Final = "log"
"""Values of the columns `source`: from the offsets log alone (generations, memberships),"""
INFERRED: Final = "inferred"
"""what the offsets log lets one conclude (rebalances),"""
EVENTS_LOG: Final = "events"
"""from `__group_events`."""

_TEXTS: Final = pa.list_(pa.string())

_WHO: Final = "member_id string, instance_id string, client_id string, host string"

MEMBER_FACT: Final = pa.struct(
    [
        *columns(f"{_WHO}, session_timeout_ms int, rebalance_timeout_ms int, rack string"),
        ("topics", _TEXTS),
        ("assigned", PARTITIONS),
    ]
)
"""A member as a generation has it."""

_PARTITION: Final = "group string, topic string, partition int"

_RAW_ROWS: Final = pa.schema(
    [*columns("group string, log_topic string"), *LOGGED, *KEYED[:-1], *RAW_BYTES],
)

TABLES: Final[Mapping[str, pa.Schema]] = MappingProxyType(
    {
        "commits": pa.schema(
            columns(
                f"{_PARTITION}, time_ms long, committed_offset long, leader_epoch int, metadata string, "
                "is_deleted boolean, generation int, members int, member_id string, instance_id string, "
                "client_id string, log_partition int, log_offset long, stated_ms long"
            )
        ),
        "generations": pa.schema(
            [
                *columns(
                    "group string, generation int, start_ms long, end_ms long, protocol_type string, protocol string, "
                    "leader string, member_count int"
                ),
                ("members", pa.list_(MEMBER_FACT)),
                *columns("log_offset long, source string"),
            ]
        ),
        "memberships": pa.schema(
            columns(
                f"group string, {_WHO}, start_ms long, end_ms long, first_generation int, last_generation int, "
                "generations int, end_cause string, source string"
            )
        ),
        "ownership": pa.schema(
            columns(f"{_PARTITION}, {_WHO}, start_ms long, end_ms long, first_generation int, last_generation int")
        ),
        "rebalances": pa.schema(
            columns(
                "group string, generation int, before_generation int, start_ms long, end_ms long, cause string, "
                "trigger_member_id string, trigger_instance_id string, trigger_client_id string, "
                "trigger_host string, reason string, join_phase_ms long, sync_phase_ms long, took_ms long, "
                "members_before int, members_after int, members_joined int, members_left int, kept int, moved int, "
                "gained int, lost int, failed_attempts int, paused_partition_ms long, source string, "
                "confidence double"
            )
        ),
        "moves": pa.schema(
            columns(
                "group string, generation int, topic string, partition int, kind string, from_member_id string, "
                "from_client_id string, to_member_id string, to_client_id string, time_ms long, paused_ms long"
            )
        ),
        "balance": pa.schema(
            columns(
                "group string, generation int, start_ms long, members int, partitions int, least int, most int, "
                "skew double, stickiness double"
            )
        ),
        "regressions": pa.schema(
            columns(
                f"{_PARTITION}, time_ms long, from_offset long, to_offset long, back long, cause string, "
                "member_id string, client_id string, generation int, log_offset long"
            )
        ),
        "stalls": pa.schema(
            columns(
                f"{_PARTITION}, start_ms long, end_ms long, status string, complete double, first_offset long, "
                "last_offset long, lag long, lag_known boolean, member_id string, client_id string"
            )
        ),
        "lag": pa.schema(
            columns(
                f"{_PARTITION}, committed_offset long, committed_ms long, end_offset long, end_ms long, lag long, "
                "behind_ms long, client_id string"
            )
        ),
        "flapping": pa.schema(
            columns(
                "group string, hours double, rebalances long, rebalances_per_hour double, distinct_triggers long, "
                "top_trigger_client_id string, top_trigger_share double, short_generations long, score double"
            )
        ),
        "static_candidates": pa.schema(
            columns(
                "group string, client_id string, host string, returns long, rebalances_spared long, "
                "moves_spared long, median_absent_ms long, max_absent_ms long, session_timeout_ms_needed long"
            )
        ),
        "malformed": _RAW_ROWS,
        "unknown": _RAW_ROWS,
        "fidelity": pa.schema(
            columns(
                "group string, source string, generations long, reproduced long, share double, withheld boolean, "
                "why string"
            )
        ),
        "whatif": pa.schema(
            columns(
                "group string, setting string, settings_json string, rebalances long, moved_partitions long, "
                "paused_partition_s double, silent_partition_s double, detect_ms double, actual_rebalances long, "
                "actual_moved_partitions long, actual_paused_partition_s double, actual_silent_partition_s double, "
                "actual_detect_ms double, why string"
            )
        ),
    }
)
"""Every table of the pipeline by its name."""

_EVENT_WHO: Final = "member string, instance string, client_id string, host string"
_TRIGGER: Final = pa.struct(columns(f"{_EVENT_WHO}, reason string"))
_EVENT_MEMBER: Final = pa.struct(
    [
        *columns(
            f"{_EVENT_WHO}, session_timeout_ms int, rebalance_timeout_ms int, joined long, synced long, heard long"
        ),
        ("protocols", pa.list_(pa.struct(columns("name string, metadata string")))),
        ("assignment", PARTITIONS),
        ("assignment_base64", pa.string()),
    ]
)
_EVENT_MOVES: Final = pa.list_(pa.struct(columns("topic string, kept int, moved int, gained int, lost int")))

EVENT_FIELDS: Final = (
    *columns("generation int, cause string"),
    ("trigger", _TRIGGER),
    ("reason", pa.string()),
    ("member", _EVENT_MEMBER),
    ("members", pa.list_(_EVENT_MEMBER)),
    ("member_count", pa.int32()),
    ("before", _TEXTS),
    *columns("replaced string, protocol_type string, protocol string"),
    ("votes", pa.map_(pa.string(), pa.int32())),
    *columns("leader string, state string, join_phase_ms long, sync_phase_ms long, took_ms long"),
    ("topic_counts", pa.map_(pa.string(), pa.int32())),
    ("topic_partitions", pa.map_(pa.string(), pa.list_(pa.int32()))),
    ("settings", pa.map_(pa.string(), pa.int64())),
    ("moves", _EVENT_MOVES),
    ("synced", pa.map_(pa.string(), pa.int64())),
    *columns("api string, error string, error_code int, client_id string, host string, instance string, count long"),
    *columns("partition int, groups long, records long"),
)
"""The fields of docs/events.md. Two have other names, because they differ between kinds: `members` of a
rebalance_started is `member_count`, `topics` is `topic_counts` (rebalance_completed) or `topic_partitions` (deleted
offsets)."""

EVENTS: Final = pa.schema(
    [
        *columns("log_partition int, log_offset long, time_ms long, group string, kind string, v int"),
        *EVENT_FIELDS,
        ("value", pa.string()),
    ]
)
"""A row of `__group_events`; `value` is its JSON as it stands."""


def conform(rows: DataFrame, name: str) -> DataFrame:
    """Rows that have the columns of a table, in the order and with the types of that table. KeyError for a table that
    is not there, AnalysisException (Spark's) for a missing column.
    """
    wanted = from_arrow_schema(TABLES[name])
    return rows.select(*(F.col(field.name).cast(field.dataType).alias(field.name) for field in wanted.fields))
