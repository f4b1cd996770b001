"""The Arrow schemas of the tables, and of rows of `__group_events`. `comments` explains the columns."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from muster.pipeline.frames import DataFrame
from muster.pipeline.frames.types import name_of
from muster.pipeline.schema import KEYED, LOGGED, MALFORMED, RAW_BYTES, UNKNOWN, columns, structs

WHO: Final = "member_id string, instance_id string, client_id string, host string"

MEMBER_FACT: Final = pa.struct(
    columns(
        f"{WHO}, session_timeout_ms int, rebalance_timeout_ms int, rack string, topics strings, assigned partitions"
    )
)
"""A member as a generation has it."""

DEAD: Final = pa.list_(pa.struct(columns(f"{WHO}, last_ms long, end_ms long, partitions int")))
"""The members whose session expired: the last sign of life, the end of the session, and the number of partitions."""

BACKS: Final = structs(
    "topic string, partition int, commits long, from_offset long, to_offset long, back long, first_ms long"
)
"""Partitions whose commits went back: the number of these commits, the farthest one, and the time of the first one."""

RANGES: Final = structs("first_offset long, last_offset long")
"""Ranges of offsets."""
IN_FLIGHT: Final = structs("first_offset long, last_offset long, state string, deliveries int")
"""Records of a share group that are not accepted: their state, and how often they were delivered."""

SILENCE: Final = "from_ms long, until_ms long, groups int, lost int"
"""A time without a sign of life of any group, or of some groups."""
EVIDENCE: Final = structs("table string, at_ms long, text string")
"""The rows that prove a claim (episodes.claims.Evidence)."""
CLAIMS: Final = structs(
    "rule string, text string, who strings, from_ms long, until_ms long, confidence string, is_on boolean, "
    "advice string, rows int, evidence evidence",
    evidence=EVIDENCE,
)
"""The claims about a group (episodes.claims.Claim)."""

_PARTITION: Final = "group string, topic string, partition int"

_RAW_ROWS: Final = pa.schema([*columns("group string, log_topic string"), *LOGGED, *KEYED[:-1], *RAW_BYTES])

_COLUMNS: Final = {
    "commits": (
        f"{_PARTITION}, time_ms long, committed_offset long, leader_epoch int, metadata string, is_deleted boolean, "
        "generation int, members int, member_id string, instance_id string, client_id string, log_partition int, "
        "log_offset long, stated_ms long"
    ),
    "generations": (
        "group string, generation int, start_ms long, end_ms long, protocol_type string, protocol string, "
        "leader string, member_count int, members members, log_offset long, source string"
    ),
    "memberships": (
        f"group string, {WHO}, start_ms long, end_ms long, first_generation int, last_generation int, generations int, "
        "end_cause string, source string"
    ),
    "ownership": f"{_PARTITION}, {WHO}, start_ms long, end_ms long, first_generation int, last_generation int",
    "rebalances": (
        "group string, generation int, before_generation int, start_ms long, end_ms long, cause string, "
        "trigger_member_id string, trigger_instance_id string, trigger_client_id string, trigger_host string, "
        "reason string, join_phase_ms long, sync_phase_ms long, took_ms long, members_before int, members_after int, "
        "members_joined int, members_left int, kept int, moved int, gained int, lost int, failed_attempts int, "
        "paused_partition_ms long, source string, confidence double, start_earliest_ms long, start_latest_ms long, "
        "took_least_ms long, took_most_ms long, came strings, went strings, died dead, silent_from_ms long, "
        "silent_partition_ms long"
    ),
    "moves": (
        "group string, generation int, topic string, partition int, kind string, from_member_id string, "
        "from_client_id string, to_member_id string, to_client_id string, time_ms long, paused_ms long"
    ),
    "balance": (
        "group string, generation int, start_ms long, members int, partitions int, least int, most int, skew double, "
        "stickiness double"
    ),
    "regressions": (
        f"{_PARTITION}, time_ms long, from_offset long, to_offset long, back long, cause string, member_id string, "
        "client_id string, generation int, log_offset long, until_ms long, commits long, partitions backs"
    ),
    "skips": f"{_PARTITION}, time_ms long, from_offset long, to_offset long, client_id string",
    "stalls": (
        f"{_PARTITION}, start_ms long, end_ms long, status string, complete double, first_offset long, "
        "last_offset long, lag long, lag_known boolean, member_id string, client_id string, group_status string"
    ),
    "silences": f"{SILENCE}, only strings",
    "lag": (
        f"{_PARTITION}, committed_offset long, committed_ms long, end_offset long, end_ms long, lag long, "
        "behind_ms long, client_id string"
    ),
    "progress": ("group string, start_ms long, until_ms long, commits long, records long, written long, lag long"),
    "flapping": (
        "group string, hours double, rebalances long, rebalances_per_hour double, distinct_triggers long, "
        "top_trigger_client_id string, top_trigger_share double, short_generations long, score double"
    ),
    "static_candidates": (
        "group string, client_id string, host string, returns long, "
        "median_absent_ms long, max_absent_ms long, session_timeout_ms_needed long"
    ),
    "episodes": (
        "group string, kind string, from_ms long, until_ms long, members strings, rebalances int, cost_ms long, "
        "confidence double, member_count int, partitions int, is_static boolean, has_died boolean, back_ms long, "
        "sentence string, evidence evidence"
    ),
    "verdicts": (
        "group string, level string, verdict string, kind string, episodes int, rebalances int, trouble_ms long, "
        "cost_ms long, first_ms long, last_ms long, claims claims"
    ),
    "comparison": (
        "group string, hours_before double, hours_after double, rebalances_before int, rebalances_after int, "
        "happenings_before int, happenings_after int, cost_ms_before long, cost_ms_after long, "
        "episodes_before strings, episodes_after strings, p double, is_significant boolean, judgement string"
    ),
    "transactions": (
        "transactional_id string, producer_id long, producer_epoch int, client_id string, host string, start_ms long, "
        "ending_ms long, end_ms long, open_ms long, took_ms long, timeout_ms long, outcome string, cause string, "
        "partitions int, topics partitions, offsets long, groups strings, fenced_ms long, fenced_requests long, "
        "transaction_version int, source string, confidence double"
    ),
    "share_partitions": (
        f"{_PARTITION}, start_offset long, done_count long, end_offset long, lag long, accepted long, archived long, "
        "redelivered long, ended long, waiting long, most_deliveries int, oldest_ms long, in_flight in_flight, "
        "first_ms long, changed_ms long, done_ms long, idle_from_ms long, idle_until_ms long, deleted_ms long, "
        "state_epoch int, leader_epoch int"
    ),
    "deliveries": (
        f"{_PARTITION}, outcome string, deliveries int, records long, first_offset long, last_offset long, "
        "ranges ranges, from_ms long, until_ms long, least_ms long, most_ms long, moments int, held_ms long, "
        "ends longs, locks_over int, lock_members strings"
    ),
    "share_progress": (
        "group string, start_ms long, until_ms long, accepted long, archived long, ended long, moved long"
    ),
    "tasks": (
        "group string, subtopology string, partition int, role string, member_id string, instance_id string, "
        "client_id string, host string, process_id string, start_ms long, end_ms long, ended string, unowned_ms long, "
        "restored_ms long, first_epoch int, last_epoch int"
    ),
    "topologies": (
        "group string, topology_epoch int, state string, from_ms long, until_ms long, subtopologies int, "
        "source_topics strings, internal_topics strings, missing strings, why string, member_id string, "
        "client_id string"
    ),
    "fidelity": (
        "group string, source string, generations long, reproduced long, share double, withheld boolean, why string, "
        "unadvised string"
    ),
    "advice": (
        "group string, setting string, settings_json string, source string, spared long, rebalances long, "
        "gain_s double, unread_s double, uncertainty_s double, sentence string"
    ),
    "whatif": (
        "group string, setting string, settings_json string, rebalances long, moved_partitions long, "
        "paused_partition_s double, silent_partition_s double, detect_ms double, actual_rebalances long, "
        "actual_moved_partitions long, actual_paused_partition_s double, actual_silent_partition_s double, "
        "actual_detect_ms double, why string"
    ),
}

TABLES: Final[Mapping[str, pa.Schema]] = MappingProxyType(
    {
        name: pa.schema(
            columns(
                text,
                members=pa.list_(MEMBER_FACT),
                dead=DEAD,
                backs=BACKS,
                evidence=EVIDENCE,
                claims=CLAIMS,
                ranges=RANGES,
                in_flight=IN_FLIGHT,
                longs=pa.list_(pa.int64()),
            )
        )
        for name, text in _COLUMNS.items()
    }
    | {MALFORMED: _RAW_ROWS, UNKNOWN: _RAW_ROWS}
)
"""Every table of the pipeline by its name."""

LARGE: Final = ("commits",)
"""Tables that have about as many rows as the log. In a text format, every other table is one file."""

NEVER_NULL: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        name: frozenset(text.split())
        for name, text in {
            "commits": "group topic partition time_ms is_deleted log_partition log_offset",
            "generations": "group generation member_count source",
            "memberships": "group member_id generations source",
            "ownership": "group topic partition member_id",
            "rebalances": "group source",
            "moves": "group topic partition kind",
            "balance": "group generation members partitions",
            "regressions": "group topic partition from_offset to_offset back cause commits partitions",
            "skips": "group topic partition time_ms from_offset to_offset",
            "stalls": "group topic partition status lag_known",
            "silences": "from_ms until_ms groups lost",
            "lag": "group topic partition committed_offset",
            "progress": "group start_ms until_ms",
            "flapping": "group rebalances score",
            "static_candidates": "group returns",
            "episodes": "group kind from_ms until_ms rebalances sentence",
            "verdicts": "group level verdict episodes rebalances",
            "comparison": "group",
            "transactions": "source",
            "share_partitions": "group topic partition accepted archived redelivered ended first_ms",
            "deliveries": "group topic partition outcome deliveries records first_offset last_offset from_ms until_ms",
            "share_progress": "group start_ms until_ms accepted archived ended moved",
            "tasks": "group subtopology partition role member_id start_ms first_epoch last_epoch",
            "topologies": "group state from_ms",
            "fidelity": "group source generations reproduced withheld",
            "advice": "group setting sentence",
            "whatif": "group setting",
            MALFORMED: "log_topic",
            UNKNOWN: "log_topic",
        }.items()
    }
)
"""The columns of each table that always have a value; all others may be null. Written tables also say so."""

_EVENT_WHO: Final = "member string, instance string, client_id string, host string"
_TRIGGER: Final = pa.struct(columns(f"{_EVENT_WHO}, reason string"))
_EVENT_MEMBER: Final = pa.struct(
    columns(
        f"{_EVENT_WHO}, session_timeout_ms int, rebalance_timeout_ms int, joined long, synced long, heard long, "
        "protocols protocols, assignment partitions, assignment_base64 string",
        protocols=structs("name string, metadata string"),
    )
)

EVENT_FIELDS: Final = columns(
    "generation int, cause string, trigger trigger, reason string, member member, members members, member_count int, "
    "before strings, replaced string, protocol_type string, protocol string, votes ints, leader string, state string, "
    "join_phase_ms long, sync_phase_ms long, took_ms long, topic_counts ints, topic_partitions lists, settings longs, "
    "moves moves, synced longs, api string, error string, error_code int, client_id string, host string, "
    "instance string, count long, partition int, groups long, records long, epoch int, moved int, gained int, lost int",
    trigger=_TRIGGER,
    member=_EVENT_MEMBER,
    members=pa.list_(_EVENT_MEMBER),
    ints=pa.map_(pa.string(), pa.int32()),
    lists=pa.map_(pa.string(), pa.list_(pa.int32())),
    longs=pa.map_(pa.string(), pa.int64()),
    moves=structs("topic string, kept int, moved int, gained int, lost int"),
)
"""The fields of docs/events.md that at least one table uses.

Some have another name here, because a field differs between kinds. `members` of a rebalance_started and of an epoch is
`member_count`. `topics` is `topic_counts` (rebalance_completed) or `topic_partitions` (deleted offsets).
"""

EVENTS: Final = pa.schema(
    [
        *columns("log_partition int, log_offset long, time_ms long, group string, kind string, v int"),
        *EVENT_FIELDS,
        ("value", pa.string()),
    ]
)
"""A row of `__group_events`. `value` is the unchanged JSON of the event."""


def conform(rows: DataFrame, name: str) -> DataFrame:
    """The rows with the columns of a table, in the order and with the types of that table.

    Raises KeyError for an unknown table, AnalysisException (Spark's) for a missing column.
    """
    # the expression is a text, because a column object costs eight calls into Java
    return rows.selectExpr(*(f"cast(`{one.name}` as {name_of(one.type)}) as `{one.name}`" for one in TABLES[name]))
