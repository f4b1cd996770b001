"""The Arrow schemas of the tables, and of the rows of `__group_events` that some of them are made of. What a column
means is in docs/pipeline-tables.md. Unknown is null, times are ms since 1970, lists of structs as in pipeline.schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it
from pyspark.sql.pandas.types import from_arrow_schema

from muster.pipeline.schema import KEYED, LOGGED, PARTITIONS, RAW_BYTES

LOG: Final = "log"
"""Values of the columns `source`: from the offsets log alone (generations, memberships),"""
INFERRED: Final = "inferred"
"""what the offsets log lets one conclude (rebalances),"""
EVENTS_LOG: Final = "events"
"""from `__group_events`."""

_TEXTS: Final = pa.list_(pa.string())

MEMBER_FACT: Final = pa.struct(
    [
        ("member_id", pa.string()),
        ("instance_id", pa.string()),
        ("client_id", pa.string()),
        ("host", pa.string()),
        ("session_timeout_ms", pa.int32()),
        ("rebalance_timeout_ms", pa.int32()),
        ("rack", pa.string()),
        ("topics", _TEXTS),
        ("assigned", PARTITIONS),
    ]
)
"""A member as a generation has it."""

_WHO: Final = (
    ("member_id", pa.string()),
    ("instance_id", pa.string()),
    ("client_id", pa.string()),
    ("host", pa.string()),
)
_PARTITION: Final = (("group", pa.string()), ("topic", pa.string()), ("partition", pa.int32()))

_COMMITS: Final = (
    *_PARTITION,
    ("time_ms", pa.int64()),
    ("committed_offset", pa.int64()),
    ("leader_epoch", pa.int32()),
    ("metadata", pa.string()),
    ("is_deleted", pa.bool_()),
    ("generation", pa.int32()),
    ("members", pa.int32()),
    ("member_id", pa.string()),
    ("instance_id", pa.string()),
    ("client_id", pa.string()),
    ("log_partition", pa.int32()),
    ("log_offset", pa.int64()),
    ("stated_ms", pa.int64()),
)
_GENERATIONS: Final = (
    ("group", pa.string()),
    ("generation", pa.int32()),
    ("start_ms", pa.int64()),
    ("end_ms", pa.int64()),
    ("protocol_type", pa.string()),
    ("protocol", pa.string()),
    ("leader", pa.string()),
    ("member_count", pa.int32()),
    ("members", pa.list_(MEMBER_FACT)),
    ("log_offset", pa.int64()),
    ("source", pa.string()),
)
_MEMBERSHIPS: Final = (
    ("group", pa.string()),
    *_WHO,
    ("start_ms", pa.int64()),
    ("end_ms", pa.int64()),
    ("first_generation", pa.int32()),
    ("last_generation", pa.int32()),
    ("generations", pa.int32()),
    ("end_cause", pa.string()),
    ("source", pa.string()),
)
_OWNERSHIP: Final = (
    *_PARTITION,
    *_WHO,
    ("start_ms", pa.int64()),
    ("end_ms", pa.int64()),
    ("first_generation", pa.int32()),
    ("last_generation", pa.int32()),
)
_REBALANCES: Final = (
    ("group", pa.string()),
    ("generation", pa.int32()),
    ("before_generation", pa.int32()),
    ("start_ms", pa.int64()),
    ("end_ms", pa.int64()),
    ("cause", pa.string()),
    ("trigger_member_id", pa.string()),
    ("trigger_instance_id", pa.string()),
    ("trigger_client_id", pa.string()),
    ("trigger_host", pa.string()),
    ("reason", pa.string()),
    ("join_phase_ms", pa.int64()),
    ("sync_phase_ms", pa.int64()),
    ("took_ms", pa.int64()),
    ("members_before", pa.int32()),
    ("members_after", pa.int32()),
    ("members_joined", pa.int32()),
    ("members_left", pa.int32()),
    ("kept", pa.int32()),
    ("moved", pa.int32()),
    ("gained", pa.int32()),
    ("lost", pa.int32()),
    ("failed_attempts", pa.int32()),
    ("paused_partition_ms", pa.int64()),
    ("source", pa.string()),
    ("confidence", pa.float64()),
)
_MOVES: Final = (
    ("group", pa.string()),
    ("generation", pa.int32()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("kind", pa.string()),
    ("from_member_id", pa.string()),
    ("from_client_id", pa.string()),
    ("to_member_id", pa.string()),
    ("to_client_id", pa.string()),
    ("time_ms", pa.int64()),
    ("paused_ms", pa.int64()),
)
_BALANCE: Final = (
    ("group", pa.string()),
    ("generation", pa.int32()),
    ("start_ms", pa.int64()),
    ("members", pa.int32()),
    ("partitions", pa.int32()),
    ("least", pa.int32()),
    ("most", pa.int32()),
    ("skew", pa.float64()),
    ("stickiness", pa.float64()),
)
_REGRESSIONS: Final = (
    *_PARTITION,
    ("time_ms", pa.int64()),
    ("from_offset", pa.int64()),
    ("to_offset", pa.int64()),
    ("back", pa.int64()),
    ("cause", pa.string()),
    ("member_id", pa.string()),
    ("client_id", pa.string()),
    ("generation", pa.int32()),
    ("log_offset", pa.int64()),
)
_STALLS: Final = (
    *_PARTITION,
    ("start_ms", pa.int64()),
    ("end_ms", pa.int64()),
    ("status", pa.string()),
    ("complete", pa.float64()),
    ("first_offset", pa.int64()),
    ("last_offset", pa.int64()),
    ("lag", pa.int64()),
    ("lag_known", pa.bool_()),
    ("member_id", pa.string()),
    ("client_id", pa.string()),
)
_LAG: Final = (
    *_PARTITION,
    ("committed_offset", pa.int64()),
    ("committed_ms", pa.int64()),
    ("end_offset", pa.int64()),
    ("end_ms", pa.int64()),
    ("lag", pa.int64()),
    ("behind_ms", pa.int64()),
    ("client_id", pa.string()),
)
_FLAPPING: Final = (
    ("group", pa.string()),
    ("hours", pa.float64()),
    ("rebalances", pa.int64()),
    ("rebalances_per_hour", pa.float64()),
    ("distinct_triggers", pa.int64()),
    ("top_trigger_client_id", pa.string()),
    ("top_trigger_share", pa.float64()),
    ("short_generations", pa.int64()),
    ("score", pa.float64()),
)
_STATIC_CANDIDATES: Final = (
    ("group", pa.string()),
    ("client_id", pa.string()),
    ("host", pa.string()),
    ("returns", pa.int64()),
    ("rebalances_spared", pa.int64()),
    ("moves_spared", pa.int64()),
    ("median_absent_ms", pa.int64()),
    ("max_absent_ms", pa.int64()),
    ("session_timeout_ms_needed", pa.int64()),
)
_RAW_ROWS: Final = (("group", pa.string()), ("log_topic", pa.string()), *LOGGED, *KEYED[:-1], *RAW_BYTES)
_FIDELITY: Final = (
    ("group", pa.string()),
    ("source", pa.string()),
    ("generations", pa.int64()),
    ("reproduced", pa.int64()),
    ("share", pa.float64()),
    ("withheld", pa.bool_()),
    ("why", pa.string()),
)
_WHATIF: Final = (
    ("group", pa.string()),
    ("setting", pa.string()),
    ("settings_json", pa.string()),
    ("rebalances", pa.int64()),
    ("moved_partitions", pa.int64()),
    ("paused_partition_s", pa.float64()),
    ("silent_partition_s", pa.float64()),
    ("detect_ms", pa.float64()),
    ("actual_rebalances", pa.int64()),
    ("actual_moved_partitions", pa.int64()),
    ("actual_paused_partition_s", pa.float64()),
    ("actual_silent_partition_s", pa.float64()),
    ("actual_detect_ms", pa.float64()),
    ("why", pa.string()),
)

TABLES: Final[Mapping[str, pa.Schema]] = MappingProxyType(
    {
        "commits": pa.schema(_COMMITS),
        "generations": pa.schema(_GENERATIONS),
        "memberships": pa.schema(_MEMBERSHIPS),
        "ownership": pa.schema(_OWNERSHIP),
        "rebalances": pa.schema(_REBALANCES),
        "moves": pa.schema(_MOVES),
        "balance": pa.schema(_BALANCE),
        "regressions": pa.schema(_REGRESSIONS),
        "stalls": pa.schema(_STALLS),
        "lag": pa.schema(_LAG),
        "flapping": pa.schema(_FLAPPING),
        "static_candidates": pa.schema(_STATIC_CANDIDATES),
        "malformed": pa.schema(_RAW_ROWS),
        "unknown": pa.schema(_RAW_ROWS),
        "fidelity": pa.schema(_FIDELITY),
        "whatif": pa.schema(_WHATIF),
    }
)
"""Every table of the pipeline by its name."""

_TRIGGER: Final = pa.struct(
    [
        ("member", pa.string()),
        ("instance", pa.string()),
        ("client_id", pa.string()),
        ("host", pa.string()),
        ("reason", pa.string()),
    ]
)
_EVENT_MEMBER: Final = pa.struct(
    [
        ("member", pa.string()),
        ("instance", pa.string()),
        ("client_id", pa.string()),
        ("host", pa.string()),
        ("session_timeout_ms", pa.int32()),
        ("rebalance_timeout_ms", pa.int32()),
        ("joined", pa.int64()),
        ("synced", pa.int64()),
        ("heard", pa.int64()),
        ("protocols", pa.list_(pa.struct([("name", pa.string()), ("metadata", pa.string())]))),
        ("assignment", PARTITIONS),
        ("assignment_base64", pa.string()),
    ]
)
_EVENT_MOVES: Final = pa.list_(
    pa.struct(
        [
            ("topic", pa.string()),
            ("kept", pa.int32()),
            ("moved", pa.int32()),
            ("gained", pa.int32()),
            ("lost", pa.int32()),
        ]
    )
)

EVENT_FIELDS: Final = (
    ("generation", pa.int32()),
    ("cause", pa.string()),
    ("trigger", _TRIGGER),
    ("reason", pa.string()),
    ("member", _EVENT_MEMBER),
    ("members", pa.list_(_EVENT_MEMBER)),
    ("member_count", pa.int32()),
    ("before", _TEXTS),
    ("replaced", pa.string()),
    ("protocol_type", pa.string()),
    ("protocol", pa.string()),
    ("votes", pa.map_(pa.string(), pa.int32())),
    ("leader", pa.string()),
    ("state", pa.string()),
    ("join_phase_ms", pa.int64()),
    ("sync_phase_ms", pa.int64()),
    ("took_ms", pa.int64()),
    ("topic_counts", pa.map_(pa.string(), pa.int32())),
    ("topic_partitions", pa.map_(pa.string(), pa.list_(pa.int32()))),
    ("settings", pa.map_(pa.string(), pa.int64())),
    ("moves", _EVENT_MOVES),
    ("synced", pa.map_(pa.string(), pa.int64())),
    ("api", pa.string()),
    ("error", pa.string()),
    ("error_code", pa.int32()),
    ("client_id", pa.string()),
    ("host", pa.string()),
    ("instance", pa.string()),
    ("count", pa.int64()),
    ("partition", pa.int32()),
    ("groups", pa.int64()),
    ("records", pa.int64()),
)
"""The fields of docs/events.md under their own names, but for two that mean different things in different kinds:
`members` of a rebalance_started is `member_count`, `topics` is `topic_counts` (rebalance_completed) or
`topic_partitions` (offsets that went)."""

EVENTS: Final = pa.schema(
    [
        ("log_partition", pa.int32()),
        ("log_offset", pa.int64()),
        ("time_ms", pa.int64()),
        ("group", pa.string()),
        ("kind", pa.string()),
        ("v", pa.int32()),
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
