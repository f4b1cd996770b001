"""One pass along the commits of each partition, for all tables that are made that way: Spark brings the commits of a
partition of a topic together, in the order of the log, and Python (numpy) goes through them once.

As windows of Spark each of these tables sorted the commits anew and had a plan of a hundred steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it
from pyspark.sql.pandas.types import from_arrow_schema

from muster.pipeline.facts.backward import BACK, backward
from muster.pipeline.facts.commit_activity import ACTIVE, active
from muster.pipeline.facts.commit_rows import ROWS, CommitRows, rows_by_topic
from muster.pipeline.facts.commit_windows import reach_of, thinned, windowed
from muster.pipeline.facts.commits import PRODUCER
from muster.pipeline.facts.lag import LAST, lasts
from muster.pipeline.facts.log_times import DAY_MS
from muster.pipeline.facts.progress import STEP, step_ms, steps
from muster.pipeline.facts.stall_looks import CAME_ON, INTERVAL, STANDING, looks
from muster.pipeline.facts.topic_ends import marks_of

WALKED: Final = pa.schema(
    [
        pa.field("group", pa.string()),
        *(
            pa.field(name, pa.struct(list(fields)))
            for name, fields in {
                "interval": INTERVAL,
                "standing": STANDING,
                "came_on": CAME_ON,
                "last": LAST,
                "step": STEP,
                "active": ACTIVE,
                "back": BACK,
            }.items()
        ),
    ]
)
"""What was found; each row has one of these, and its group."""

_ORDER: Final = ("topic", "partition", "group", "log_partition", "log_offset")


def walked(commits: DataFrame, ends: DataFrame | None, replaced: DataFrame | None = None) -> DataFrame:
    """Rows of WALKED, of rows of the table `commits` or of `commits.placed`; of the latter `activity` is told too.
    `ends`: how far the logs of the topics reach (`sources.ends`); None: that is not known. `replaced`: rows of
    `regressions.fenced`.
    """
    if replaced is not None:
        commits = commits.join(replaced, list(PRODUCER), "left")
    own = {"owner": F.coalesce("instance_id", "member_id")}
    there = set(commits.columns) | set(own)
    every = _told_of_all(commits, ends)
    names = [name for name in ROWS.names if name not in every.columns]
    kinds = {field.name: field.dataType for field in from_arrow_schema(ROWS)}
    rows = commits.select(
        *(own.get(name, F.col(name) if name in there else F.lit(None)).cast(kinds[name]).alias(name) for name in names)
    )
    if ends is not None:
        seen = ends.where("end_offset is not null and time_ms is not null")
        seen = seen.select("topic", "partition", "end_offset", "time_ms")
        rows = rows.unionByName(seen, allowMissingColumns=True)
    rows = rows.crossJoin(F.broadcast(every)).select(*ROWS.names)
    in_order = rows.repartition("topic", "partition").sortWithinPartitions(*_ORDER)
    return in_order.mapInArrow(_walk, from_arrow_schema(WALKED))


def _told_of_all(commits: DataFrame, ends: DataFrame | None) -> DataFrame:
    """One row: known_until_ms, first_ms and step_ms (see ROWS)."""
    # by the last row of each group: the clock of a broker may have been ahead for a while
    each = commits.groupBy("group", "log_partition").agg(
        F.max_by("time_ms", "log_offset").alias("last_ms"),
        F.min(F.when(~F.col("is_deleted"), F.col("time_ms"))).alias("first_ms"),
    )
    every = each.agg(F.max("last_ms").alias("known_until_ms"), F.min("first_ms").alias("first_ms"))
    if ends is not None:
        # of a topic without records the time is only that of its file
        seen = ends.where(F.col("end_offset") > 0).agg(F.max("time_ms").alias("seen_ms"))
        # the times of records come from producers, whose clocks may be far out
        until_ms = F.greatest("known_until_ms", F.least("seen_ms", F.col("known_until_ms") + DAY_MS))
        every = every.crossJoin(F.broadcast(seen)).select(until_ms.alias("known_until_ms"), "first_ms")
    size = step_ms(F.col("first_ms"), F.col("known_until_ms"))
    begin = (F.floor(F.col("first_ms") / size) * size).cast("long")
    return every.select("known_until_ms", begin.alias("first_ms"), size.alias("step_ms"))


def _walk(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for commits in rows_by_topic(batches):
        for name, found in _found(commits):
            if len(found):
                columns = [pa.nulls(len(found), field.type) for field in WALKED]
                columns[0], columns[WALKED.get_field_index(name)] = found.field("group"), found
                yield pa.RecordBatch.from_arrays(columns, schema=WALKED)


def _found(commits: CommitRows) -> Iterator[tuple[str, pa.StructArray]]:
    """All that is found along these commits."""
    if not len(commits.time_ms):
        return
    marks = marks_of(commits.ends)
    few = thinned(commits)
    reach = reach_of(commits, few, marks)
    yield from looks(commits, few, reach, windowed(commits, few, reach.end_then)).items()
    yield "last", lasts(commits, marks)
    yield "active", active(commits)
    yield "back", backward(commits)
    told = steps(commits)
    if told is not None:
        yield "step", told
