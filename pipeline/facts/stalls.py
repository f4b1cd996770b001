"""The table `stalls`: how each partition's commits went on, by the rules of LinkedIn's Burrow
(docs/pipeline-tables.md), over a window that slides over the whole history.

If the ends of the topics are not known, only REWIND is checked, and `lag_known` is false.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

from muster.pipeline.facts.commit_windows import LIFE, SPAN_MS, WINDOW, at_work, known_until, member, thinned, windowed
from muster.pipeline.facts.commits import PLACE
from muster.pipeline.facts.schema import conform
from muster.pipeline.facts.topic_ends import behind, with_ends
from muster.pipeline.persist import keep

OK: Final = "OK"
WARN: Final = "WARN"
STOP: Final = "STOP"
STALL: Final = "STALL"
REWIND: Final = "REWIND"

SETTLE_MS: Final = 100_000
"""A consumer that had read everything has so long to commit what came after."""

STILL_MS: Final = 2 * SPAN_MS
"""So long the commits of a partition stand still before that is told, if its owner goes on otherwise: in the second
half of that it is heard of."""
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


def stalls(commits: DataFrame, ends: DataFrame | None, owned: DataFrame | None = None) -> DataFrame:
    """Rows of the table `stalls` out of those of `commits` and what is known of the ends of the logs. `owned`: the
    table `ownership`; None: whoever committed last has the partition still.
    """
    few = thinned(commits)
    rows = windowed(with_ends(few, ends)).crossJoin(F.broadcast(known_until(commits, ends)))
    # of most commits there is nothing to tell: so few are left that both looks at them cost little
    rows = keep(_told_of(rows.withColumn("status", _status())))
    told = _intervals(rows).unionByName(_standing(rows, owned, at_work(few)))
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


def _going_on(rows: DataFrame, spans: DataFrame) -> DataFrame:
    """`goes_on`: the member that committed this offset came on, here or with other partitions, from `SPAN_MS` after
    that until as long again. That is from some moment of one span until the same one of the next.
    """
    from_ms = F.col("run_ms") + SPAN_MS
    rows = rows.withColumns({"member": member(), "span": F.floor(from_ms / SPAN_MS)})
    after = spans.select("group", "member", (F.col("span") - 1).alias("span"), F.col("span_first_ms").alias("then_ms"))
    rows = rows.join(spans.drop("span_first_ms"), ["group", "member", "span"], "left")
    rows = rows.join(after, ["group", "member", "span"], "left")
    goes_on = (F.col("span_last_ms") >= from_ms) | (F.col("then_ms") <= from_ms + SPAN_MS)
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
    in_order = Window.partitionBy(*LIFE).orderBy("log_offset")
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


def _standing(rows: DataFrame, owned: DataFrame | None, spans: DataFrame) -> DataFrame:
    """The times in which the committed offset of a partition did not change, though it had an owner and there was
    something to read.

    If its owner comes on with other partitions, `STILL_MS` are enough. If it does not, nobody may have written, or the
    coordinator may have been away: then it has `REPEATS_MS` if it commits this same offset again and again, and
    `SETTLE_MS` if nothing is heard of it at all.
    """
    rows = _going_on(rows.where("may_stand"), spans)
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
    in_order = Window.partitionBy(*LIFE).orderBy("log_offset")
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
