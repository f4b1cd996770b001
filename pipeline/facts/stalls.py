"""The table `stalls`: how each partition's commits went on, by the rules of LinkedIn's Burrow
(docs/pipeline-tables.md), over a window that slides over the whole history.

If the ends of the topics are not known, only REWIND is checked, and `lag_known` is false.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

from muster.pipeline.facts.commits import PLACE
from muster.pipeline.facts.log_times import DAY_MS
from muster.pipeline.facts.schema import conform
from muster.pipeline.facts.topic_ends import behind, with_ends
from muster.pipeline.persist import keep

OK: Final = "OK"
WARN: Final = "WARN"
STOP: Final = "STOP"
STALL: Final = "STALL"
REWIND: Final = "REWIND"

WINDOW: Final = 10
"""Commits of a partition that are looked at together."""
MIN_DISTANCE_MS: Final = 1_000
"""Of commits within one such span of time the last one counts."""
SETTLE_MS: Final = 100_000
"""A consumer that had read everything has so long to commit what came after."""

STILL_MS: Final = 20_000
"""So long the commits of a partition stand still before that is told, if its owner goes on otherwise."""
_SPAN_MS: Final = STILL_MS // 2
"""In the second half of that a member that goes on is heard of."""
REPEATS_MS: Final = 60_000
"""So long if it commits the same again and again, and nothing else."""
_USUAL_GAPS: Final = 5
"""And for so many of its usual intervals,"""
_LONGEST_GAPS: Final = 1.5
"""and of the longest one of its last commits; if nothing is heard at all, of the longest of any member so far."""
_AGAIN: Final = 4
"""So many commits of the same offset are one again and again."""

GRADES: Final = (OK, REWIND, WARN, STOP, STALL)
"""The statuses, the worst last."""

_LIFE: Final = (*PLACE, "life")


def stalls(commits: DataFrame, ends: DataFrame | None, owned: DataFrame | None = None) -> DataFrame:
    """Rows of the table `stalls` out of those of `commits` and what is known of the ends of the logs. `owned`: the
    table `ownership`; None: whoever committed last has the partition still.
    """
    thinned = _thinned(commits)
    rows = _windowed(with_ends(thinned, ends)).crossJoin(F.broadcast(known_until(commits, ends)))
    # of most commits there is nothing to tell: so few are left that both looks at them cost little
    rows = keep(_told_of(rows.withColumn("status", _status())))
    told = _intervals(rows).unionByName(_standing(rows, owned, _at_work(thinned)))
    return conform(_with_groups(told), "stalls")


def _with_groups(rows: DataFrame) -> DataFrame:
    """What stands still at the end is not fine; the worst of a group's partitions is the group's."""
    place = Window.partitionBy(*PLACE)
    at_end, stands = F.col("end_ms").isNull(), F.col("status").isin(STALL, STOP)
    rows = rows.withColumn("stands", F.max(stands & at_end).over(place))
    rows = rows.where(~F.col("stands") | ~at_end | stands)
    grade = F.array_position(F.array(*map(F.lit, GRADES)), F.col("status"))
    worst = F.max(F.when(F.col("end_ms").isNull(), F.struct(grade, "status"))).over(Window.partitionBy("group"))
    return rows.withColumn("group_status", worst["status"])


def known_until(commits: DataFrame, ends: DataFrame | None) -> DataFrame:
    """One row: the last moment that is known of."""
    # by the last row of each group: the clock of a broker may have been ahead for a while
    each = commits.groupBy("group", "log_partition").agg(F.max_by("time_ms", "log_offset").alias("last_ms"))
    last = each.agg(F.max("last_ms").alias("until_ms"))
    if ends is None:
        return last
    # the times of records come from producers, whose clocks may be far out
    seen = F.least("seen_ms", F.col("until_ms") + DAY_MS)
    # of a topic without records the time is only that of its file
    rows = last.crossJoin(ends.where(F.col("end_offset") > 0).agg(F.max("time_ms").alias("seen_ms")))
    return rows.select(F.greatest("until_ms", seen).alias("until_ms"))


def _thinned(commits: DataFrame) -> DataFrame:
    """The commits that are looked at. `life`: deletions before it; `gone_ms`, in the last of a life: when it ended."""
    in_order = Window.partitionBy(*PLACE).orderBy("log_offset")
    rows = commits.select(
        *PLACE,
        *("log_offset", "time_ms", "committed_offset", "is_deleted", "generation", "member_id", "client_id"),
    )
    rows = rows.select(
        "*",
        F.lead("is_deleted").over(in_order).alias("next_deleted"),
        F.lead("time_ms").over(in_order).alias("next_ms"),
        F.count_if("is_deleted").over(in_order.rowsBetween(Window.unboundedPreceding, 0)).alias("life"),
    )
    one_more = F.col("next_ms").isNotNull() & ~F.col("next_deleted")
    same_span = F.floor(F.col("next_ms") / MIN_DISTANCE_MS) == F.floor(F.col("time_ms") / MIN_DISTANCE_MS)
    rows = rows.where(~F.col("is_deleted") & ~(one_more & same_span))
    return rows.withColumn("gone_ms", F.when(F.col("next_deleted"), F.col("next_ms"))).drop("next_deleted", "next_ms")


def _windowed(rows: DataFrame) -> DataFrame:
    """Each commit with what its window says: `commits` in it, `first_ms`, `least` and `most` (offsets), `lags`
    known and the least of them, `shrinks` (steps with which the lag got smaller), `longest_ms` (the longest step),
    `next_ms` (null: nothing came after) and `next_end` (how far the log reached then). `silence_ms`: the longest
    time between two commits of one member so far; a restart makes more than a window has, all soon after each
    other. `is_run_end`: the last one of some with the same offset, `run_ms`: when the first of those came,
    `run_commits`: how many.
    """
    in_order = Window.partitionBy(*_LIFE).orderBy("log_offset")
    window = in_order.rowsBetween(1 - WINDOW, 0)
    rows = rows.withColumn("lag_then", behind(F.col("end_then")))
    rows = rows.select(
        "*",
        F.count("*").over(window).alias("commits"),
        F.first("time_ms").over(window).alias("first_ms"),
        F.min("committed_offset").over(window).alias("least"),
        F.max("committed_offset").over(window).alias("most"),
        F.count("lag_then").over(window).alias("lags"),
        F.min("lag_then").over(window).alias("least_lag"),
        (F.col("lag_then") < F.lag("lag_then").over(in_order)).alias("shrank"),
        (F.col("time_ms") - F.lag("time_ms").over(in_order)).alias("gap_ms"),
        F.lag("member_id").over(in_order).eqNullSafe(F.col("member_id")).alias("same_member"),
        F.coalesce(F.lead("time_ms").over(in_order), "gone_ms").alias("next_ms"),
        F.lead("end_then").over(in_order).alias("next_end"),
        F.row_number().over(in_order).alias("place"),
        _is_run_start(in_order).alias("is_run_start"),
        (~F.lead("committed_offset").over(in_order).eqNullSafe(F.col("committed_offset"))).alias("is_run_end"),
    )
    run = F.when(F.col("is_run_start"), F.struct("time_ms", "place"))
    so_far = in_order.rowsBetween(Window.unboundedPreceding, 0)
    steps = in_order.rowsBetween(2 - WINDOW, 0)
    rows = rows.select(
        *(name for name in rows.columns if name not in ("place", "shrank", "gap_ms", "same_member")),
        "place",
        F.last(run, ignorenulls=True).over(so_far).alias("run"),
        F.count_if("shrank").over(steps).alias("shrinks"),
        F.max("gap_ms").over(steps).alias("longest_ms"),
        F.max(F.when(F.col("same_member"), F.col("gap_ms"))).over(so_far).alias("silence_ms"),
    )
    return rows.select(
        *(name for name in rows.columns if name not in ("run", "place", "is_run_start", "lag_then")),
        F.col("run.time_ms").alias("run_ms"),
        (F.col("place") - F.col("run.place") + 1).alias("run_commits"),
    )


def _is_run_start(in_order: WindowSpec) -> Column:
    return ~F.lag("committed_offset").over(in_order).eqNullSafe(F.col("committed_offset"))


def _at_work(thinned: DataFrame) -> DataFrame:
    """When members came on: for each `span` of so many ms the `first_ms` and the `last_ms` of it."""
    in_order = Window.partitionBy(*_LIFE).orderBy("log_offset")
    rows = thinned.select("group", "member_id", "time_ms", _is_run_start(in_order).alias("is_run_start"))
    span = F.floor(F.col("time_ms") / _SPAN_MS).alias("span")
    return (
        rows.where("is_run_start")
        .groupBy("group", _member(), span)
        .agg(F.min("time_ms").alias("span_first_ms"), F.max("time_ms").alias("span_last_ms"))
    )


def _member() -> Column:
    """The member, for joins; nobody is one too."""
    return F.coalesce("member_id", F.lit("")).alias("member")


def _going_on(rows: DataFrame, at_work: DataFrame) -> DataFrame:
    """`goes_on`: the member that committed this offset came on, here or with other partitions, from `_SPAN_MS` after
    that until as long again. That is from some moment of one span until the same one of the next.
    """
    from_ms = F.col("run_ms") + _SPAN_MS
    rows = rows.withColumns({"member": _member(), "span": F.floor(from_ms / _SPAN_MS)})
    after = at_work.select(
        "group", "member", (F.col("span") - 1).alias("span"), F.col("span_first_ms").alias("then_ms")
    )
    rows = rows.join(at_work.drop("span_first_ms"), ["group", "member", "span"], "left")
    rows = rows.join(after, ["group", "member", "span"], "left")
    goes_on = (F.col("span_last_ms") >= from_ms) | (F.col("then_ms") <= from_ms + _SPAN_MS)
    return rows.withColumn("goes_on", F.coalesce(goes_on, F.lit(False))).drop("member", "span")


def _status() -> Column:
    """What a commit leads to, if the partition does not stand still."""
    full = F.col("commits") == WINDOW
    never_shrank = (F.col("lags") == WINDOW) & (F.col("least_lag") > 0) & (F.col("shrinks") == 0)
    return (
        F.when(F.col("committed_offset") < F.col("most"), REWIND)
        .when(full & never_shrank & (F.col("least") < F.col("most")), WARN)
        .otherwise(OK)
    )


def _told_of(rows: DataFrame) -> DataFrame:
    """The commits with which an interval of one status `begins` or `ends`, and those after which a partition may have
    stood still (`may_stand`): from `from_ms` to `to_ms`. `is_last`: of its life.
    """
    in_order = Window.partitionBy(*_LIFE).orderBy("log_offset")
    is_last = F.col("next_ms").isNull()
    rows = rows.select(
        "*",
        is_last.alias("is_last"),
        F.greatest("run_ms", "not_beyond_ms").alias("from_ms"),
        F.coalesce("next_ms", "until_ms").alias("to_ms"),
        F.lag("status").over(in_order).alias("status_before"),
        F.lead("status").over(in_order).alias("status_next"),
    )
    stood = F.col("beyond_ms").isNotNull() & (F.col("to_ms") - F.col("from_ms") >= STILL_MS)
    # who had the partition, and what else its member did, can only make it less
    stood &= _is_long(F.lit(STILL_MS))
    rows = rows.withColumns(
        {
            "begins": F.col("status_before").isNull() | (F.col("status") != F.col("status_before")),
            "ends": F.col("status_next").isNull() | (F.col("status") != F.col("status_next")),
            "may_stand": F.col("is_run_end") & F.coalesce(stood, F.lit(False)),
        }
    )
    return rows.where(F.col("begins") | F.col("ends") | F.col("may_stand"))


def _is_long(wanted_ms: Column) -> Column:
    """Whether a partition stood still from `from_ms` to `to_ms` for `wanted_ms`, and for some of its usual intervals;
    or nothing is heard of it at all for `SETTLE_MS`, which is all that counts if nothing is wanted (null).
    """
    mean_ms = (F.col("time_ms") - F.col("first_ms")) / F.greatest(F.col("commits") - 1, F.lit(1))
    # while a group is restarted commits come more often than usual: so long a gap there was before, without a stall
    usual_ms = F.greatest(_USUAL_GAPS * mean_ms, _LONGEST_GAPS * F.col("longest_ms"))
    surely_ms = F.col("to_ms") - F.greatest("from_ms", "beyond_ms")
    still = surely_ms >= F.greatest(wanted_ms, F.when(wanted_ms.isNotNull(), usual_ms))
    # of the end of a topic often only the last moment is known
    only_last = F.col("is_last") & F.col("not_beyond_ms").isNull()
    silent_ms = F.when(only_last, F.col("to_ms") - F.col("from_ms")).otherwise(surely_ms)
    enough = (F.col("commits") == WINDOW) | (F.col("is_last") & (F.col("commits") > 1))
    silent = enough & (silent_ms >= F.greatest(F.lit(SETTLE_MS), usual_ms, _LONGEST_GAPS * F.col("silence_ms")))
    return F.coalesce(still, F.lit(False)) | silent


def _standing(rows: DataFrame, owned: DataFrame | None, at_work: DataFrame) -> DataFrame:
    """The times in which the committed offset of a partition did not change, though it had an owner and there was
    something to read.

    If its owner comes on with other partitions, `STILL_MS` are enough. If it does not, nobody may have written, or the
    coordinator may have been away: then it has `REPEATS_MS` if it commits this same offset again and again, and
    `SETTLE_MS` if nothing is heard of it at all.
    """
    rows = _going_on(rows.where("may_stand"), at_work)
    if owned is not None:
        rows = _while_owned(rows, owned)
    to_ms, from_ms = F.col("to_ms"), F.col("from_ms")
    repeats = F.col("run_commits") >= _AGAIN
    long = _is_long(F.when(F.col("goes_on"), STILL_MS).when(repeats, REPEATS_MS))
    rows = rows.where(long & _is_unread())
    ends_at_end = F.col("is_last") & (to_ms >= F.col("until_ms"))
    return rows.select(
        *("group", "log_partition", "topic", "partition", "member_id", "client_id"),
        F.col("committed_offset").alias("last_offset"),
        (F.col("commits") / WINDOW).alias("complete"),
        behind(_known_end()).alias("lag"),
        F.lit(True).alias("lag_known"),
        from_ms.alias("start_ms"),
        F.when(~ends_at_end, to_ms).alias("end_ms"),
        F.when(repeats, STALL).otherwise(STOP).alias("status"),
        F.col("committed_offset").alias("first_offset"),
    )


def _is_unread() -> Column:
    """Is there surely something to read? One record may be the end of a transaction, which no application reads, if
    nothing was written after it.
    """
    is_written = F.col("is_last") & (F.col("end_ms") - F.col("from_ms") >= STILL_MS)
    return is_written | (behind(_known_end()) > 1)


def _known_end() -> Column:
    return F.when(F.col("is_last"), F.col("end_offset")).otherwise(F.col("next_end"))


def _while_owned(rows: DataFrame, owned: DataFrame) -> DataFrame:
    """Only the time in which the partition had an owner. Groups that never had members are left as they are."""
    times = owned.select(
        *("group", "topic", "partition"), F.col("start_ms").alias("had_ms"), F.col("end_ms").alias("gave_ms")
    )
    alike = [rows[name] == times[name] for name in ("group", "topic", "partition")]
    overlaps = (times["had_ms"] < rows["to_ms"]) & (F.coalesce(times["gave_ms"], rows["to_ms"]) > rows["from_ms"])
    both = rows.join(times, [*alike, overlaps], "left").select(rows["*"], "had_ms", "gave_ms")
    # the longest time with an owner counts
    had_ms = F.greatest("had_ms", "from_ms")
    owned_ms = F.struct((F.least(F.coalesce("gave_ms", "to_ms"), "to_ms") - had_ms).alias("ms"), "had_ms", "gave_ms")
    found = both.groupBy(*rows.columns).agg(F.max(F.when(F.col("had_ms").isNotNull(), owned_ms)).alias("owned"))
    found = found.select(*rows.columns, "owned.had_ms", F.coalesce("owned.gave_ms", "to_ms").alias("gave_ms"))
    never = F.col("generation").isNull()
    found = found.where(never | F.col("had_ms").isNotNull())
    found = found.withColumns(
        {
            "from_ms": F.when(never, F.col("from_ms")).otherwise(F.greatest("from_ms", "had_ms")),
            "to_ms": F.when(never, F.col("to_ms")).otherwise(F.least("to_ms", "gave_ms")),
        }
    )
    return found.where(F.col("to_ms") - F.col("from_ms") >= STILL_MS)


def _intervals(rows: DataFrame) -> DataFrame:
    """Commits of one status after each other as one row."""
    in_order = Window.partitionBy(*_LIFE).orderBy("log_offset")
    rows = rows.where(F.col("begins") | F.col("ends"))
    start = F.when(F.col("begins"), F.struct("time_ms", "committed_offset"))
    so_far = in_order.rowsBetween(Window.unboundedPreceding, 0)
    rows = rows.select("*", F.last(start, ignorenulls=True).over(so_far).alias("start"))
    rows = rows.where(F.col("ends") & ((F.col("status") != OK) | F.col("is_last")))
    reached = F.when(F.col("is_last"), F.col("end_offset")).otherwise(F.col("next_end"))
    return rows.select(
        *("group", "log_partition", "topic", "partition", "member_id", "client_id"),
        F.col("committed_offset").alias("last_offset"),
        (F.col("commits") / WINDOW).alias("complete"),
        behind(reached).alias("lag"),
        F.col("end_offset").isNotNull().alias("lag_known"),
        F.col("start.time_ms").alias("start_ms"),
        F.col("next_ms").alias("end_ms"),
        "status",
        F.col("start.committed_offset").alias("first_offset"),
    )
