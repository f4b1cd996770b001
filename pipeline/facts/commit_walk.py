"""One pass along the commits of each partition, for all tables that are made that way: Spark brings the commits of a
partition of a topic together, in the order of the log, and Python (numpy) goes through them once.

As windows of Spark each of these tables sorted the commits anew and had a plan of a hundred steps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it
from pyspark.sql.pandas.types import from_arrow_schema

from muster.pipeline.facts.backward import backward
from muster.pipeline.facts.commit_activity import active
from muster.pipeline.facts.commit_rows import COMMIT, END, ROWS, CommitRows, packed_rows, rows_by_topic
from muster.pipeline.facts.commit_times import heard, seen
from muster.pipeline.facts.commit_windows import reach_of, thinned, windowed
from muster.pipeline.facts.commits import PRODUCER, logged, unplaced
from muster.pipeline.facts.findings import FINDING, packed
from muster.pipeline.facts.inputs import Inputs
from muster.pipeline.facts.lag import lasts
from muster.pipeline.facts.log_times import DAY_MS
from muster.pipeline.facts.progress import step_ms, steps
from muster.pipeline.facts.stall_looks import looks
from muster.pipeline.facts.topic_ends import marks_of
from muster.pipeline.tables import shaped

OF_ENDS: Final = "ends"
"""What is looked for: for the tables `stalls`, `lag` and `progress`;"""
OF_LOG: Final = "log"
"""for `regressions`, and what is concluded of rebalances;"""
OF_TIMES: Final = "times"
"""for `flapping`, `episodes` and `verdicts`."""
ALL: Final = (OF_ENDS, OF_LOG, OF_TIMES)

WALKED: Final = pa.schema([*FINDING, ("commits", pa.binary())])
"""What was found; or some thousand commits, which only the table `commits` asks for, as `commit_rows.packed_rows`."""

_ORDER: Final = ("topic", "partition", "group", "log_partition", "log_offset", "member_id", "instance_id", "client_id")


def walk_of(inputs: Inputs, replaced: DataFrame | None = None) -> DataFrame:
    """Rows of WALKED of a log. `replaced`: rows of `regressions.fenced`."""
    return _walked(unplaced(inputs), logged(inputs), inputs.ends, replaced, ALL, are_placed=False)


def walked(
    commits: DataFrame, ends: DataFrame | None, replaced: DataFrame | None = None, wanted: Collection[str] = ALL
) -> DataFrame:
    """Rows of WALKED, but no commits, of the table `commits`, or of rows of PLACED, of which `activity` is told too.
    `ends`: how far the logs of the topics reach (`sources.ends`); None: that is not known.
    `wanted`: of which tables.
    """
    rows = commits.withColumn("what", F.lit(COMMIT))
    return _walked(rows, commits, ends, replaced, wanted, are_placed=True)


def _walked(
    rows: DataFrame,
    commits: DataFrame,
    ends: DataFrame | None,
    replaced: DataFrame | None,
    wanted: Collection[str],
    *,
    are_placed: bool,
) -> DataFrame:
    if replaced is not None:
        rows = rows.join(replaced, list(PRODUCER), "left")
    if ends is not None:
        seen = ends.where("end_offset is not null and time_ms is not null")
        seen = seen.select("topic", "partition", F.col("end_offset").alias("committed_offset"), "time_ms")
        rows = rows.unionByName(seen.withColumn("what", F.lit(END)), allowMissingColumns=True)
    rows = shaped(rows.crossJoin(F.broadcast(_told_of_all(commits, ends))), ROWS, {})
    in_order = rows.repartition("topic", "partition").sortWithinPartitions(*_ORDER)
    return in_order.mapInArrow(lambda batches: _walk(batches, are_placed, wanted), from_arrow_schema(WALKED))


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


def _walk(batches: Iterable[pa.RecordBatch], are_placed: bool, wanted: Collection[str]) -> Iterator[pa.RecordBatch]:
    for commits in rows_by_topic(batches, are_placed=are_placed):
        if not are_placed:
            for some in packed_rows(commits):
                yield _as_walked({"commits": pa.array([some], pa.binary())})
        found = [packed(name, rows) for name, rows in _found(commits, wanted) if len(rows)]
        for batch in pa.Table.from_batches(found, FINDING).combine_chunks().to_batches():
            yield _as_walked(dict(zip(FINDING.names, batch.columns, strict=True)))


def _as_walked(columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """With all columns of WALKED."""
    rows = len(next(iter(columns.values())))
    arrays = [columns[one.name] if one.name in columns else pa.nulls(rows, one.type) for one in WALKED]
    return pa.RecordBatch.from_arrays(arrays, schema=WALKED)


def _found(commits: CommitRows, wanted: Collection[str]) -> Iterator[tuple[str, pa.StructArray]]:
    """What is wanted of all that is found along these commits."""
    if not len(commits.time_ms):
        return
    marks = marks_of(commits.ends)
    if OF_ENDS in wanted:
        few = thinned(commits)
        reach = reach_of(commits, few, marks)
        yield from looks(commits, few, reach, windowed(commits, few, reach.end_then)).items()
        yield "last", lasts(commits, marks)
        told = steps(commits)
        if told is not None:
            yield "step", told
    if OF_LOG in wanted:
        yield "back", backward(commits)
        yield "active", active(commits)
    if OF_TIMES in wanted:
        yield "seen", seen(commits)
        yield "heard", heard(commits)
