"""The tables of streams groups: `tasks` and `topologies`.

All records of a group go to one task of Spark, and Python follows them (`infer.stream_tasks`). Events
add how long tasks were restored, why topics are not ready, and that an application was shut down.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from muster.coordinator.groups.common.events import APPLICATION_SHUTDOWN, TASKS_RESTORED, TOPICS_NOT_READY
from muster.pipeline.episodes.stream_facts import NOT_READY, READY, SHUTDOWN
from muster.pipeline.frames import DataFrame, F
from muster.pipeline.infer.stream_tasks import TaskHold, follow
from muster.pipeline.schema import STREAMS_GROUP
from muster.pipeline.tables import by_group, keep, table
from muster.pipeline.tables.epoch_states import record_of
from muster.pipeline.tables.inputs import Inputs
from muster.pipeline.tables.schema import TABLES, conform

MADE: Final = ("tasks", "topologies")
"""The tables that one pass over the records makes."""
_RESULT: Final = pa.schema(
    [("table", pa.string()), *{field.name: field for name in MADE for field in TABLES[name]}.values()]
)
"""A row of one of the tables MADE."""
Row = dict[str, Any]


def stream_tables(inputs: Inputs) -> dict[str, DataFrame]:
    """The tables MADE."""
    records = table(inputs.decoded, STREAMS_GROUP).select(
        "group", "log_offset", "log_timestamp_ms", "key_type", "key_json", "value_json"
    )
    topics, since_ms = inputs.topics, inputs.since_ms or 0
    made = keep(
        by_group(records, "log_offset", lambda group, rows: rows_of_group(group, rows, topics, since_ms), _RESULT)
    )
    found = {name: conform(made.where(F.col("table") == name), name) for name in MADE}
    if inputs.events is not None:
        found["tasks"] = _with_restorations(found["tasks"], inputs.events)
        found["topologies"] = _with_events(found["topologies"], inputs.events)
    return found


def rows_of_group(
    group: str, records: Iterable[Mapping[str, Any]], topics: Collection[str] | None = None, since_ms: int = 0
) -> Iterator[Row]:
    """Rows of the tables MADE of one group, from its decoded records in the order of the log.

    `topics`: the present topics; None: not known. Times that ended before `since_ms` are left out.
    """
    for one in follow(map(record_of, records)):
        if isinstance(one, TaskHold):
            if one.end_ms is None or one.end_ms >= since_ms:
                yield {"table": "tasks", "group": group, **one._asdict(), **one.worker._asdict()}
        elif one.until_ms is None or one.until_ms >= since_ms:
            its = one.topology
            missing = None
            if topics is not None and one.until_ms is None and not one.is_ready:
                missing = [name for name in its.source_topics if name not in topics]
            yield {
                "table": "topologies",
                "group": group,
                "topology_epoch": its.epoch,
                "state": READY if one.is_ready else NOT_READY,
                "from_ms": one.from_ms,
                "until_ms": one.until_ms,
                "subtopologies": len(its.sources),
                "source_topics": list(its.source_topics),
                "internal_topics": list(its.internal_topics),
                "missing": missing,
            }


def _with_restorations(tasks: DataFrame, events: DataFrame) -> DataFrame:
    """The table with the times after which members reported that tasks have their state."""
    done = events.where(F.col("kind") == TASKS_RESTORED)
    done = done.withColumn("one", F.from_json("value", "tasks array<struct<task string, role string, took_ms long>>"))
    done = done.select(
        F.col("group").alias("its_group"), F.col("member.member").alias("its_member"), "time_ms",
        F.explode("one.tasks").alias("row"),
    )  # fmt: skip
    mine = ("group", "subtopology", "partition", "role", "member_id", "start_ms")
    is_its = (F.col("group") == F.col("its_group")) & (F.col("member_id") == F.col("its_member"))
    is_its &= F.col("role") == F.col("row.role")
    is_its &= F.concat_ws("_", "subtopology", F.col("partition").cast("string")) == F.col("row.task")
    is_its &= F.col("time_ms") >= F.col("start_ms")
    is_its &= F.col("end_ms").isNull() | (F.col("time_ms") <= F.col("end_ms"))
    found = tasks.select(*mine, "end_ms").join(done, is_its).select(*mine, F.col("row.took_ms").alias("took_ms"))
    found = found.groupBy(*mine).agg(F.max("took_ms").alias("restored_ms"))
    return conform(tasks.drop("restored_ms").join(found, list(mine), "left"), "tasks")


_NEAR_MS: Final = 1_000
"""The server reports that topics are not ready within this time of the record."""


def _with_events(topologies: DataFrame, events: DataFrame) -> DataFrame:
    """The table with the reasons that events have, and with the shutdowns of applications."""
    why = events.where(F.col("kind") == TOPICS_NOT_READY)
    why = why.withColumn("one", F.from_json("value", "detail string"))
    why = why.select(F.col("group").alias("its_group"), "time_ms", F.col("one.detail").alias("detail"))
    mine = ("group", "state", "from_ms")
    is_its = (F.col("group") == F.col("its_group")) & (F.col("state") == NOT_READY)
    is_its &= F.col("time_ms") >= F.col("from_ms") - _NEAR_MS
    is_its &= F.col("until_ms").isNull() | (F.col("time_ms") < F.col("until_ms"))
    reasons = topologies.select(*mine, "until_ms").join(why, is_its)
    reasons = reasons.groupBy(*mine).agg(F.max_by("detail", "time_ms").alias("why"))
    rows = conform(topologies.drop("why").join(reasons, list(mine), "left"), "topologies")
    ends = events.where(F.col("kind") == APPLICATION_SHUTDOWN)
    ends = ends.select(
        "group", F.lit(SHUTDOWN).alias("state"), F.col("time_ms").alias("from_ms"),
        F.col("member.member").alias("member_id"), F.col("member.client_id").alias("client_id"),
    )  # fmt: skip
    absent = [F.lit(None).alias(name) for name in TABLES["topologies"].names if name not in ends.columns]
    return rows.unionByName(conform(ends.select("*", *absent), "topologies"))
