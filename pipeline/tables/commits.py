"""The table `commits`, and one pass over the commits of each partition for all tables that are made from commits.

Spark sends all commits of a topic's partition to one task, in the order of the log. Python (numpy) passes over them
once. With window functions of Spark, each table sorted the commits again, and had a plan of a hundred steps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

import pyarrow as pa

from muster.pipeline.frames import Column, DataFrame, F, from_arrow_schema
from muster.pipeline.infer.epoch_image import EPOCH
from muster.pipeline.schema import CONSUMER_GROUP, OFFSET_COMMIT, STREAMS_GROUP
from muster.pipeline.tables import shaped, table
from muster.pipeline.tables.backward import backward
from muster.pipeline.tables.commit_activity import active, heard, seen
from muster.pipeline.tables.commit_rows import (
    COMMIT,
    END,
    MARK,
    OWNED,
    PLACED,
    ROWS,
    CommitRows,
    packed_rows,
    rows_by_topic,
    unpacked_rows,
)
from muster.pipeline.tables.epoch_states import OWNER, owners_of
from muster.pipeline.tables.findings import FINDING, packed
from muster.pipeline.tables.inputs import Inputs, holdings, states
from muster.pipeline.tables.lag import lasts, step_ms, steps
from muster.pipeline.tables.log_times import DAY_MS
from muster.pipeline.tables.ordered_columns import NO_MEMBERS
from muster.pipeline.tables.skips import jumped, leaped, skipped
from muster.pipeline.tables.stall_candidates import reach_of, stall_candidates, thinned, windowed
from muster.pipeline.tables.topic_ends import marks_of

_STREAMS_KEY: Final = 17
"""The key type of StreamsGroupMetadata. Its `epoch` is the generation of such a group, as with a consumer group."""

_LAST_MS: Final = 1 << 53
"""The latest possible time: sums of times up to this do not overflow."""


PLACE: Final = ("group", "log_partition", "topic", "partition")
"""The columns that identify a partition of a group. Its commits are in the order of log_offset."""

PRODUCER: Final = ("producer_id", "producer_epoch")
"""The columns of the producer that made a commit in a transaction."""


def unplaced(inputs: Inputs) -> DataFrame:
    """The rows that the pass over the commits reads, with the known columns of `commit_rows.ROWS`.

    * COMMIT: the commits
    * MARK: what records say of their groups, once for each partition with commits
    * OWNED: the owners of partitions in each state of a group. Their `log_partition` is null
    """
    commits = logged(inputs)
    # each partition gets all marks of its group. Otherwise one task would get all rows of a group, which may be nearly
    # all rows of the log
    places = table(inputs.decoded, OFFSET_COMMIT).select(*PLACE).distinct()
    marks = _state_marks(inputs).unionByName(_epoch_marks(inputs)).join(places, ["group", "log_partition"])
    owners = holdings(inputs).select("group", "state", "topic", "partition", *OWNER, F.lit(0).alias("log_offset"))
    if inputs.epochs is not None:
        owners = owners.unionByName(owners_of(inputs.epochs, states(inputs)))
    rows = commits.withColumn("what", F.lit(COMMIT))
    for what, some in ((MARK, marks), (OWNED, owners)):
        rows = rows.unionByName(some.withColumn("what", F.lit(what)), allowMissingColumns=True)
    return rows


def committed_between(commits: DataFrame, when: str) -> tuple[tuple[int, int], set[tuple[str, int]]] | None:
    """The time of the first commit and of the last one, and the topics and partitions. None: there is no commit.

    `when`: the column with the time of a commit.
    """
    times = F.min(when).alias("first_ms"), F.max(when).alias("last_ms")
    rows = commits.groupBy("topic", "partition").agg(*times).collect()
    known = [row for row in rows if row["first_ms"] is not None]
    if not known:
        return None
    between = min(row["first_ms"] for row in known), max(row["last_ms"] for row in known)
    return between, {(row["topic"], row["partition"]) for row in rows}


def placed(walk: DataFrame) -> DataFrame:
    """The columns of the table `commits`, and some others. `walk`: rows of `walk_of`.

    `state`: the state (`inputs.states`) of the group; null: no state. `topic_id`: the topic's id at that time; null:
    not known. The producer columns name the producer of a commit in a transaction; null: no transaction, or not known.
    """
    return walk.where("commits is not null").select("commits").mapInArrow(_unpacked, from_arrow_schema(PLACED))


def _unpacked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from unpacked_rows(one.as_py() for one in batch.column("commits"))


def logged(inputs: Inputs) -> DataFrame:
    """The commits, each with the time at which it was logged."""
    rows = table(inputs.decoded, OFFSET_COMMIT)
    if inputs.odd_times is None:
        rows = rows.withColumn("was_ms", F.lit(None).cast("long"))
    else:
        rows = rows.join(inputs.odd_times.drop("sound_ms"), ["log_partition", "log_offset"], "left")
    return rows.select(
        *(*PLACE, "log_offset", "committed_offset", "leader_epoch", "metadata", "topic_id"),
        _time_ms().alias("time_ms"),
        _stated_ms().alias("stated_ms"),
        F.col("is_tombstone").alias("is_deleted"),
        *(F.when(F.col("is_transactional"), F.col(name)).alias(name) for name in PRODUCER),
    )


def _time_ms() -> Column:
    """The time at which a commit was logged.

    If it is not known, it is the commit's own time, which may be far from the truth.
    """
    said, logged = F.col("commit_timestamp_ms"), F.col("log_timestamp_ms")
    return F.least(F.when((logged > 0) | said.isNull() | (said <= 0), logged).otherwise(said), F.lit(_LAST_MS))


def _stated_ms() -> Column:
    """The time that the commit itself has, if it is wrong by more than a day; otherwise null."""
    said, time_ms = F.col("commit_timestamp_ms"), _time_ms()
    is_out = (said < time_ms - DAY_MS) | (said > time_ms + DAY_MS)
    return F.coalesce("was_ms", F.when(is_out, said))


def _state_marks(inputs: Inputs) -> DataFrame:
    return _marks(states(inputs), F.col("state"), F.col("generation"), F.size("members"))


def _epoch_marks(inputs: Inputs) -> DataFrame:
    """The marks from the epochs of Streams groups (KIP-1071), and of KIP-848 groups without states.

    They do not have the number of members.
    """
    keys = (EPOCH, _STREAMS_KEY) if inputs.epochs is None else (_STREAMS_KEY,)
    rows = inputs.decoded.where(F.col("kind").isin(CONSUMER_GROUP, STREAMS_GROUP) & F.col("key_type").isin(*keys))
    nothing, epoch = F.lit(None), F.get_json_object("value_json", "$.epoch").try_cast("int")
    return _marks(rows, nothing, epoch, nothing)


def _marks(rows: DataFrame, state: Column, generation: Column, members: Column) -> DataFrame:
    """The marks from records. At the end of a group, the mark has no generation and no members."""
    gone = F.col("is_tombstone")
    return rows.select(
        *("group", "log_partition", "log_offset"),
        state.cast("int").alias("state"),
        F.when(~gone, generation).cast("int").alias("generation"),
        F.when(gone, F.lit(NO_MEMBERS)).otherwise(members).cast("int").alias("members"),
    )


OF_ENDS: Final = "ends"
"""The results that the tables `stalls`, `lag` and `progress` need, and skips by members."""
OF_LOG: Final = "log"
"""The results that the tables `regressions` and `skips`, and inferred rebalances need."""
OF_TIMES: Final = "times"
"""The results that the tables `flapping`, `episodes` and `verdicts` need."""
ALL: Final = (OF_ENDS, OF_LOG, OF_TIMES)

WALKED: Final = pa.schema([*FINDING, ("commits", pa.binary())])
"""A result of the pass, or some thousand commits for the table `commits` (`commit_rows.packed_rows`)."""

_ORDER: Final = ("topic", "partition", "group", "log_partition", "log_offset", "member_id", "instance_id", "client_id")


def walk_of(inputs: Inputs, replaced: DataFrame | None = None) -> DataFrame:
    """Rows of WALKED, made from a log. `replaced`: rows of `regressions.fenced`."""
    return _walked(unplaced(inputs), logged(inputs), inputs.ends, replaced, ALL, are_placed=False)


def walked(
    commits: DataFrame, ends: DataFrame | None, replaced: DataFrame | None = None, wanted: Collection[str] = ALL
) -> DataFrame:
    """Rows of WALKED without commits, made from the table `commits` or from rows of PLACED.

    Rows of PLACED also give `activity`. `ends`: the ends of the topics' logs (`sources.topics`); None: not known.
    `wanted`: for which tables the results are needed.
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
        reached = (F.col("end_offset").alias("committed_offset"), F.col("surely_ms").alias("stated_ms"))
        seen = seen.select("topic", "partition", "time_ms", *reached)
        rows = rows.unionByName(seen.withColumn("what", F.lit(END)), allowMissingColumns=True)
    rows = shaped(rows.crossJoin(F.broadcast(_same_in_all_rows(commits, ends))), ROWS, {})
    in_order = rows.repartition("topic", "partition").sortWithinPartitions(*_ORDER)
    return in_order.mapInArrow(lambda batches: _walk(batches, are_placed, wanted), from_arrow_schema(WALKED))


def _same_in_all_rows(commits: DataFrame, ends: DataFrame | None) -> DataFrame:
    """One row with the values that are equal in all rows of ROWS: known_until_ms, first_ms and step_ms."""
    # the last row of each group counts, because a broker's clock may have been ahead for a while
    each = commits.groupBy("group", "log_partition").agg(
        F.max_by("time_ms", "log_offset").alias("last_ms"),
        F.min(F.when(~F.col("is_deleted"), F.col("time_ms"))).alias("first_ms"),
    )
    every = each.agg(F.max("last_ms").alias("known_until_ms"), F.min("first_ms").alias("first_ms"))
    if ends is not None:
        # a topic without records has only the time of its file
        seen = ends.where(F.col("end_offset") > 0).agg(F.max("time_ms").alias("seen_ms"))
        # the times of records come from producers, whose clocks may be far off; all topics may be empty
        seen_ms = F.when(F.col("seen_ms").isNotNull(), F.least("seen_ms", F.col("known_until_ms") + DAY_MS))
        until_ms = F.greatest("known_until_ms", seen_ms)
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
    """The batch with all columns of WALKED."""
    rows = len(next(iter(columns.values())))
    arrays = [columns[one.name] if one.name in columns else pa.nulls(rows, one.type) for one in WALKED]
    return pa.RecordBatch.from_arrays(arrays, schema=WALKED)


def _found(commits: CommitRows, wanted: Collection[str]) -> Iterator[tuple[str, pa.StructArray]]:
    """The wanted results from these commits."""
    if not len(commits.time_ms):
        return
    marks = marks_of(commits.ends)
    if OF_ENDS in wanted:
        few = thinned(commits)
        reach = reach_of(commits, few, marks)
        yield from stall_candidates(commits, few, reach, windowed(commits, few, reach.end_then)).items()
        yield "last", lasts(commits, marks)
        progressed = steps(commits)
        if progressed is not None:
            yield "step", progressed
        yield "skip", jumped(commits, few, reach)
        yield "leap", leaped(commits, few, reach)
    if OF_LOG in wanted:
        yield "back", backward(commits)
        yield "skip", skipped(commits)
        yield "active", active(commits)
    if OF_TIMES in wanted:
        yield "seen", seen(commits)
        yield "heard", heard(commits)
