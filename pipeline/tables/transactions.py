"""The table `transactions`: each transaction of each transactional id, with its offsets and groups.

The transactions come from `__transaction_events`, or else from `__transaction_state`. From an offsets log alone,
transactions are known by producer. Spark sends all records of an id, and then all of a producer, to one task. Python
joins them into rows (`transaction_records`, `transaction_offsets`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

import pyarrow as pa

from muster.pipeline.frames import Column, DataFrame, F, empty, from_arrow_schema
from muster.pipeline.infer import transaction_offsets
from muster.pipeline.infer.transaction_offsets import with_offsets
from muster.pipeline.infer.transaction_records import (
    Logged,
    Row,
    merged,
    read_event,
    transactions_of_events,
    transactions_of_states,
)
from muster.pipeline.schema import RAW, columns
from muster.pipeline.tables import batches_of, rows_of, shaped
from muster.pipeline.tables.schema import TABLES, conform
from muster.protocol.message import ProtocolError
from muster.protocol.records import TRANSACTION_STATE

STATE_TOPIC: Final = "__transaction_state"
EVENTS_TOPIC: Final = "__transaction_events"

COUNTS: Final = pa.schema(
    columns(
        "group string, producer_id long, time_ms long, outcome string, first_epoch int, last_epoch int, "
        "transactions int, offsets long"
    )
)
"""An event of a group that counts ends of transactions."""

_MALFORMED: Final = TABLES["malformed"]


class TransactionInputs(NamedTuple):
    """The inputs about transactions. An input is None if the source does not have it.

    * `states`, `events`: raw rows (schema.RAW) of the two topics
    * `parts`: rows of sources.transactions.PARTS
    * `counts`: rows of COUNTS
    * `of_groups`: whether only transactions with a known group are wanted
    """

    states: DataFrame | None = None
    events: DataFrame | None = None
    parts: DataFrame | None = None
    counts: DataFrame | None = None
    of_groups: bool = False

    @property
    def has_any(self) -> bool:
        """Whether any input about transactions exists."""
        return any(one is not None for one in (self.states, self.events, self.parts))


NOTHING: Final = TransactionInputs()


def transactions(inputs: TransactionInputs, none: DataFrame) -> DataFrame:
    """Rows of the table. `none`: any DataFrame. Without inputs, its session makes a table without rows."""
    pieces = [one for one in (_of_ids(inputs), _tagged(inputs.parts, _PART), _tagged(inputs.counts, _COUNT))
              if one is not None]  # fmt: skip
    if not inputs.has_any:
        return empty(TABLES["transactions"], none)
    rows = pieces[0]
    for more in pieces[1:]:
        rows = rows.unionByName(more)
    rows = rows.repartition("producer_id").sortWithinPartitions("producer_id", "start_ms")
    found = rows.mapInArrow(_by_producer, from_arrow_schema(TABLES["transactions"]))
    if inputs.of_groups:
        found = found.where(F.size("groups") > 0)
    return conform(found, "transactions")


def counts_of(events: DataFrame) -> DataFrame:
    """Rows of COUNTS, made from rows of `__group_events` (tables.schema.EVENTS)."""
    kinds = transaction_offsets.KINDS
    schema = "producer_id bigint, first_epoch int, last_epoch int, transactions int, offsets bigint"
    counted = events.where(F.col("kind").isin(*kinds)).withColumn("reported", F.from_json("value", schema))
    outcome = F.create_map(*(F.lit(one) for pair in kinds.items() for one in pair))[F.col("kind")]
    names = ("producer_id", "first_epoch", "last_epoch", "transactions", "offsets")
    return shaped(counted, COUNTS, {"outcome": outcome, **{name: F.col(f"reported.{name}") for name in names}})


def malformed_transactions(inputs: TransactionInputs) -> DataFrame | None:
    """The unreadable rows of `__transaction_state` and `__transaction_events`, as rows of the table `malformed`.

    It is None without these topics.
    """
    found: DataFrame | None = None
    for raw in (inputs.states, inputs.events):
        if raw is not None:
            some = raw.select(*RAW.names).mapInArrow(_malformed, from_arrow_schema(_MALFORMED))
            found = some if found is None else found.unionByName(some)
    return found


# ---- all records of one transactional id

_ROW: Final = "row"
_PART: Final = "part"
_COUNT: Final = "count"
_MADE: Final = pa.schema(
    [
        ("what", pa.string()),
        *((one.name, one.type) for one in TABLES["transactions"]),
        *columns("partition int, group string, first_epoch int, last_epoch int, counted int, time_ms long"),
    ]
)
"""Rows of the table, as far as the id's records show them (`what` is _ROW). Also rows about offsets (_PART, _COUNT)."""


def _of_ids(inputs: TransactionInputs) -> DataFrame | None:
    rows: DataFrame | None = None
    for raw, name in ((inputs.states, _id_of_state()), (inputs.events, F.col("key").cast("string"))):
        if raw is not None:
            some = raw.select(*RAW.names).withColumn("transactional_id", name)
            rows = some if rows is None else rows.unionByName(some)
    if rows is None:
        return None
    rows = rows.where(F.col("transactional_id").isNotNull())
    # rows of the state topic come first, because its name is the greater one
    rows = rows.repartition("transactional_id").sortWithinPartitions("transactional_id", F.desc("topic"), "offset")
    return rows.mapInArrow(_by_id, from_arrow_schema(_MADE))


def _id_of_state() -> Column:
    """The transactional id in a key of `__transaction_state`.

    It stands after the type and the id's length, both of two bytes.
    """
    return F.expr("try_cast(substring(key, 5) as string)")


def _by_id(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches_of(_rows_by_id(rows_of(batches)), _MADE)


def _rows_by_id(raw: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    for transactional_id, some in groupby(raw, itemgetter("transactional_id")):
        states: list[Logged] = []
        events: list[dict[str, Any]] = []
        for row in some:
            if row["damage"] is not None:
                continue
            if row["topic"] == STATE_TOPIC:
                state = _state(row)
                if state is not None:
                    states.append(state)
            else:
                event = read_event(row["value"])
                if event is not None:
                    events.append(event)
        of_states = transactions_of_states(transactional_id, states)
        for one in merged(of_states, transactions_of_events(transactional_id, events)):
            yield {"what": _ROW, **_shown(one)}


def _state(row: Mapping[str, Any]) -> Logged | None:
    try:
        record_type, _ = TRANSACTION_STATE.decode_key(row["key"] or b"")
        value = row["value"]
        return Logged(
            row["timestamp_ms"], None if value is None else TRANSACTION_STATE.decode_value(record_type, value)[1]
        )
    except ProtocolError:
        return None


def _shown(row: Row) -> Row:
    """A row in the form of the table's columns."""
    topics = row.get("topics")
    start_ms, ending_ms, end_ms = row["start_ms"], row.get("ending_ms"), row.get("end_ms")
    listed = None if topics is None else [
        {"topic": topic, "partitions": sorted(topics[topic])} for topic in sorted(topics)
    ]  # fmt: skip
    return row | {
        "topics": listed,
        "partitions": None if topics is None else sum(map(len, topics.values())),
        "open_ms": None if ending_ms is None else max(ending_ms - start_ms, 0),
        "took_ms": None if end_ms is None else max(end_ms - start_ms, 0),
    }


# ---- all rows of one producer


def _tagged(rows: DataFrame | None, what: str) -> DataFrame | None:
    if rows is None:
        return None
    known = {"what": F.lit(what)}
    if what == _COUNT:
        known |= {"start_ms": F.col("time_ms"), "counted": F.col("transactions")}
    else:
        known |= {"partitions": F.lit(None)}
    return shaped(rows, _MADE, known)


def _by_producer(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches_of(_rows_by_producer(rows_of(batches)), TABLES["transactions"])


def _rows_by_producer(rows: Iterable[dict[str, Any]]) -> Iterator[Row]:
    wanted = TABLES["transactions"].names
    for producer_id, some in groupby(rows, itemgetter("producer_id")):
        by_kind: dict[str, list[dict[str, Any]]] = {_ROW: [], _PART: [], _COUNT: []}
        for one in some:
            by_kind[one["what"]].append(one)
        mine = [one | {"topics": _as_sets(one["topics"])} for one in by_kind[_ROW]]
        counts = [one | {"transactions": one["counted"]} for one in by_kind[_COUNT]]
        for row in with_offsets(producer_id, mine, by_kind[_PART], counts):
            shown = _shown(row)
            yield {name: shown.get(name) for name in wanted}


def _as_sets(topics: Any) -> dict[str, set[int]] | None:
    return None if topics is None else {one["topic"]: set(one["partitions"]) for one in topics}


# ---- rows that cannot be read


def _malformed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches_of(_malformed_rows(rows_of(batches)), _MALFORMED)


def _malformed_rows(rows: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    for row in rows:
        reason = row["damage"] or _reason(row)
        if reason is not None:
            yield {
                "log_topic": row["topic"], "log_partition": row["partition"], "log_offset": row["offset"],
                "log_timestamp_ms": row["timestamp_ms"], "reason": reason, "raw_key": row["key"],
                "raw_value": row["value"], "is_tombstone": row["value"] is None,
            }  # fmt: skip


def _reason(row: Mapping[str, Any]) -> str | None:
    if row["topic"] == EVENTS_TOPIC:
        return "the value is no JSON object with a kind" if read_event(row["value"]) is None else None
    try:
        record_type, _ = TRANSACTION_STATE.decode_key(row["key"] or b"")
        if row["value"] is not None:
            TRANSACTION_STATE.decode_value(record_type, row["value"])
    except ProtocolError as error:
        return str(error)
    return None
