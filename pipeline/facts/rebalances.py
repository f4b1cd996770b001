"""The table `rebalances`: exact where `__group_events` has them, otherwise inferred from the offsets log."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

from muster.pipeline.defaults import INITIAL_DELAY_MS
from muster.pipeline.facts import epoch_events
from muster.pipeline.facts.epoch_events import with_told
from muster.pipeline.facts.event_rebalances import told
from muster.pipeline.facts.moves import GAINED, KEPT, LOST, MOVED
from muster.pipeline.facts.schema import INFERRED, conform

_WHICH = ("group", "generation", "leader")


def rebalances(inferred: DataFrame, changed: DataFrame, events: DataFrame | None, known: DataFrame) -> DataFrame:
    """Rebalances out of rows of `inferred.inferred`, of `moves.changes`, and EVENTS where there are any. `known`: the
    table `generations`, which tells since when a group was empty.
    """
    counts = _counts(changed)
    concluded = inferred.drop("gone").withColumns({"source": F.lit(INFERRED), "reason": F.lit(None).cast("string")})
    concluded = concluded.join(counts, _KEY, "left").fillna(0, [KEPT, MOVED, GAINED, LOST])
    concluded = _from_empty(concluded, known)
    if events is None:
        return _conform(concluded)
    concluded = with_told(concluded, epoch_events.told(events))
    exact = told(events).join(counts.select(*_KEY, "between", "between_ms"), _KEY, "left")
    # the leader tells a generation from that of the same number before the group was deleted and came again
    same = [exact[name].eqNullSafe(concluded[name]) for name in _WHICH]
    unknown = concluded.join(exact.select(*_WHICH), same[0] & same[1] & same[2], "left_anti")
    return _conform(exact.unionByName(unknown))


_MOST_DELAYS = 3
"""A rebalance of an empty group is put off once more whenever a member has come meanwhile; seldom more often."""
_SLACK_MS = 300
_AT_ONCE_MS = 800
"""A first member has its id and has joined within this time; a join phase that is no longer did not wait."""
_KEY = ["group", "generation", "end_ms"]


def _counts(changed: DataFrame) -> DataFrame:
    """What became of the partitions in each rebalance."""
    kinds = [F.count_if(F.col("kind") == kind).alias(kind) for kind in (KEPT, MOVED, GAINED, LOST)]
    rows = changed.groupBy("group", "generation", F.col("time_ms").alias("end_ms"))
    return rows.agg(*kinds, F.count("between_ms").alias("between"), F.sum("between_ms").alias("between_ms"))


def _from_empty(rows: DataFrame, known: DataFrame) -> DataFrame:
    """When the first member came to an empty group. In a new group the first record (generation 0) is written then.
    Later it is as long before the end of the join phase as the broker waits for more members, or twice as long if
    several came; the group's first generations tell how long that is.
    """
    empty = known.where((F.col("member_count") == 0) & F.col("end_ms").isNotNull())
    empty = empty.select("group", "end_ms", F.col("generation").alias("empty"), F.col("start_ms").alias("empty_ms"))
    rows = rows.join(empty.dropDuplicates(["group", "end_ms"]), ["group", "end_ms"], "left")
    came = F.col("empty").isNotNull() & (F.col("members_after") > 0) & (F.col("before_generation") == F.col("empty"))
    came &= F.col("is_cooperative").isNotNull()  # groups of KIP-848 do not wait for company
    rows = rows.withColumn("joined_ms", F.col("start_ms") + F.col("join_phase_ms"))
    joined_ms = F.col("joined_ms")
    delays = F.when(F.col("members_after") > 1, 2).otherwise(1)
    whole_ms, is_new = joined_ms - F.col("empty_ms"), F.col("empty") == 0
    # a first member asks for its id, and joins with its next request
    is_at_once = whole_ms < _AT_ONCE_MS
    waited_ms = F.when(came & is_new, F.when(is_at_once, F.lit(0)).otherwise(F.floor(whole_ms / delays)))
    rows = rows.withColumn("delay_ms", F.min(waited_ms).over(Window.partitionBy("group")))
    delay_ms = F.coalesce(F.least(F.lit(INITIAL_DELAY_MS), "delay_ms"), F.lit(INITIAL_DELAY_MS))
    new_ms = F.when(is_at_once, joined_ms - 1).otherwise(F.col("empty_ms"))
    first_ms = F.when(is_new, new_ms).otherwise(joined_ms - delays * delay_ms)
    start_ms = F.when(came, F.least(joined_ms, F.greatest(first_ms, F.col("empty_ms")))).otherwise(F.col("start_ms"))
    # later it waited for one, two or three delays, as long as members came
    latest_ms = F.when(is_new, F.least(joined_ms, F.col("empty_ms") + _AT_ONCE_MS)).otherwise(joined_ms - delay_ms)
    waits = F.when(F.col("members_after") > 1, _MOST_DELAYS).otherwise(1)
    earliest_ms = F.when(is_new, F.col("empty_ms")).otherwise(
        F.greatest(joined_ms - waits * delay_ms - _SLACK_MS, F.col("empty_ms"))
    )
    rows = rows.withColumns(
        {
            "start_ms": start_ms,
            "start_earliest_ms": F.when(came, F.least(start_ms, earliest_ms)).otherwise(F.col("start_earliest_ms")),
            "start_latest_ms": F.when(came, F.greatest(start_ms, latest_ms)).otherwise(F.col("start_latest_ms")),
        }
    )
    rows = rows.withColumn("join_phase_ms", joined_ms - F.col("start_ms"))
    took_ms = F.col("end_ms") - F.col("start_ms")
    return rows.withColumn("took_ms", took_ms).drop("empty", "empty_ms", "joined_ms", "delay_ms")


def _conform(rows: DataFrame) -> DataFrame:
    """The table's columns, with the paused time. In an eager group no member consumes from start to end. In a
    cooperative one, partitions that were given up in the round before wait for their new owner, and those of members
    that left or that had no owner wait for the whole rebalance (the rules of whatif.costs). In KIP-848 groups it is
    known for each partition.
    """
    eager = F.col(KEPT) + F.col(MOVED) + F.col(GAINED)
    left = F.when(F.col("members_left") > 0, F.col(MOVED)).otherwise(0)
    unread = F.when(F.col("is_cooperative"), left + F.col(GAINED) - F.coalesce("between", F.lit(0))).otherwise(eager)
    given_up_ms = F.when(F.col("is_cooperative"), F.col("between_ms"))
    paused = F.col("took_ms") * unread + F.coalesce(given_up_ms, F.lit(0))
    known = F.coalesce("between_ms", F.lit(0))
    known = F.when(F.col(KEPT).isNotNull(), known)  # the events alone do not tell it
    paused = F.when(F.col("is_cooperative").isNull(), known).otherwise(paused)
    end_ms = F.col("end_ms")
    rows = rows.withColumns(
        {
            "paused_partition_ms": paused,
            "took_least_ms": end_ms - F.col("start_latest_ms"),
            "took_most_ms": end_ms - F.col("start_earliest_ms"),
        }
    )
    return conform(rows, "rebalances")
