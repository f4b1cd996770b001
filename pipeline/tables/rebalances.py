"""The tables `rebalances` and `moves`. If `__group_events` has a rebalance, the row is exact.

Otherwise the rebalance is inferred from the offsets log. A move is a partition that got another owner in a rebalance.
"""

from __future__ import annotations

from typing import Final

from muster.pipeline.defaults import INITIAL_DELAY_MS
from muster.pipeline.frames import DataFrame, F
from muster.pipeline.schema import SOURCE_INFERRED
from muster.pipeline.tables import event_rebalances
from muster.pipeline.tables.event_rebalances import rebalance_rows, with_epoch_events
from muster.pipeline.tables.schema import conform

KEPT: Final = "kept"
MOVED: Final = "moved"
GAINED: Final = "gained"
LOST: Final = "lost"


def changes(held_by: DataFrame, takes: DataFrame | None = None) -> DataFrame:
    """What happened to every partition in every rebalance, from rows of `generations.holders`.

    Partitions that were kept are included.

    * group, step (of the generation after the rebalance), generation, topic, partition, kind
    * from_* and to_*: member_id and client_id
    * time_ms; moved_ms: when the partition had its new owner
    * idle_ms: (for kind gained) the time since the last owner lost the partition; null: it never had an owner
    * between_ms: the same time, if the partition was lost in the rebalance before and the group was not empty since.
      This is a second round of a cooperative group

    `takes` (`epoch_states.takes_of`) give these times to the ms, of moved partitions too.
    """
    if takes is None:
        nothing = F.lit(None).cast("long")
        held_by = held_by.withColumns({"taken_ms": nothing, "paused_ms": nothing})
    else:
        held_by = held_by.join(takes, ["group", "log_offset", "topic", "partition"], "left")
    # a static member that returns has another member id, and is the same owner
    same = F.coalesce("instance_id", "member_id") == F.coalesce("was_instance_id", "was_member_id")
    adjacent = F.col("was_step") == F.col("step") - 1
    # a record that was written again for a static member's new id is no rebalance
    rebalanced = ~F.col("generation").eqNullSafe(F.col("previous_generation"))
    idle = F.col("start_ms") - F.col("was_end_ms")
    is_between = (F.col("was_step") == F.col("step") - 2) & (F.col("previous_count") > 0)
    taken = held_by.where(rebalanced).select(
        *("group", "step", "generation", "topic", "partition"),
        F.when(adjacent & same, KEPT).when(adjacent, MOVED).otherwise(GAINED).alias("kind"),
        F.when(adjacent, F.col("was_member_id")).alias("from_member_id"),
        F.when(adjacent, F.col("was_client_id")).alias("from_client_id"),
        F.col("member_id").alias("to_member_id"),
        F.col("client_id").alias("to_client_id"),
        F.col("start_ms").alias("time_ms"),
        F.coalesce("taken_ms", "start_ms").alias("moved_ms"),
        F.coalesce("paused_ms", F.when(~adjacent, idle)).alias("idle_ms"),
        F.when(F.col("taken_ms").isNotNull(), F.col("paused_ms")).when(is_between, idle).alias("between_ms"),
    )
    is_lost = F.col("next_start_ms").isNotNull() & ~(F.col("next_step").eqNullSafe(F.col("step") + 1))
    lost = held_by.where(is_lost).select(
        "group",
        (F.col("step") + 1).alias("step"),
        F.col("next_generation").alias("generation"),
        "topic",
        "partition",
        F.lit(LOST).alias("kind"),
        F.col("member_id").alias("from_member_id"),
        F.col("client_id").alias("from_client_id"),
        F.col("next_start_ms").alias("time_ms"),
        F.col("next_start_ms").alias("moved_ms"),
    )
    return taken.unionByName(lost, allowMissingColumns=True)


def moves(changed: DataFrame, rebalances: DataFrame) -> DataFrame:
    """The rows of `changes` without kept partitions.

    If the exact time is not known, a moved partition paused as long as its rebalance took.
    """
    took = rebalances.select("group", "generation", F.col("end_ms").alias("time_ms"), "took_ms")
    rows = changed.where(F.col("kind") != KEPT).join(took, ["group", "generation", "time_ms"], "left")
    paused = F.when(F.col("kind") == MOVED, F.coalesce("idle_ms", "took_ms")).otherwise(F.col("idle_ms"))
    return conform(rows.withColumns({"paused_ms": paused, "time_ms": F.col("moved_ms")}), "moves")


_WHICH = ("group", "generation", "leader")


def rebalances(inferred: DataFrame, changed: DataFrame, events: DataFrame | None) -> DataFrame:
    """Rows of the table `rebalances`, made from rows of `inferred`, of `changes`, and of EVENTS if they exist."""
    counts = _counts(changed)
    concluded = inferred.drop("gone").withColumns(
        {"source": F.lit(SOURCE_INFERRED), "reason": F.lit(None).cast("string")}
    )
    concluded = concluded.join(counts, _KEY, "left").fillna(0, [KEPT, MOVED, GAINED, LOST])
    concluded = _from_empty(concluded)
    if events is None:
        return _conform(concluded)
    concluded = with_epoch_events(concluded, event_rebalances.epoch_rows(events))
    exact = rebalance_rows(events).join(counts.select(*_KEY, "between", "between_ms"), _KEY, "left")
    # if a group was deleted and created again, generations with the same number have different leaders
    same = [exact[name].eqNullSafe(concluded[name]) for name in _WHICH]
    unknown = concluded.join(exact.select(*_WHICH), same[0] & same[1] & same[2], "left_anti")
    return _conform(exact.unionByName(unknown))


_MAX_DELAYS = 3
"""A rebalance is seldom delayed more often than this. An empty group waits again if a member has joined meanwhile."""
_SLACK_MS = 800
_THREAD_MS = 20
_AT_ONCE_MS = 400
"""A first member gets its id and joins within this time. If a join phase is not longer, the group did not wait."""
_SHORT_DELAY_MS = 1_500
"""A delay that seems shorter may be the time that members needed. Then nothing shows when the first one joined."""
_TIMER_MS = 4
"""Timers of a broker are late by up to this time."""
_ROUND_MS = 100
_ROUND_LONG_MS = 500
"""People set a long delay to a round number. What members show is longer, since a busy broker and its clients are late.
"""
_LATE_MS = 3_000
"""A first member that got its id joins at most this late, on a busy machine."""
_KEY = ["group", "generation", "end_ms"]


def _counts(changed: DataFrame) -> DataFrame:
    """The number of partitions of each kind of change, for each rebalance."""
    kinds = [F.count_if(F.col("kind") == kind).alias(kind) for kind in (KEPT, MOVED, GAINED, LOST)]
    rows = changed.groupBy("group", "generation", F.col("time_ms").alias("end_ms"))
    return rows.agg(*kinds, F.count("between_ms").alias("between"), F.sum("between_ms").alias("between_ms"))


def _from_empty(rows: DataFrame) -> DataFrame:
    """The start of rebalances of empty groups: when the first member joined.

    The broker waits a fixed delay (`group.initial.rebalance.delay.ms`) for more members. It waits once more for each
    delay in which a member joined. Then the join phase ends. So with a second member it waits twice. New groups show
    the length of the delay: their first record (generation 0) is written when a member joins.
    """
    came = (F.col("members_before") == 0) & (F.col("members_after") > 0) & F.col("before_generation").isNotNull()
    came &= F.col("is_cooperative").isNotNull()  # KIP-848 groups do not wait for more members
    joined_ms, empty_ms = F.col("joined_ms"), F.col("start_earliest_ms")
    rows = rows.withColumn("joined_ms", F.col("start_ms") + F.col("join_phase_ms"))
    # without the record of generation 0, nothing shows when a new group was created
    whole_ms = F.when(came & (empty_ms < joined_ms), joined_ms - empty_ms)
    is_new, is_alone = F.col("before_generation") == 0, F.col("members_after") == 1
    is_one = F.col("failed_attempts") == 0
    bound_ms = F.when(is_one, F.when(is_alone, whole_ms).otherwise(F.floor(whole_ms / 2)))
    delay_ms = F.coalesce(F.min(F.when(is_new, bound_ms)), F.least(F.min(bound_ms), F.lit(INITIAL_DELAY_MS)))
    delay_ms = F.coalesce(delay_ms, F.lit(INITIAL_DELAY_MS))
    round_ms = F.when(delay_ms < _SHORT_DELAY_MS, _ROUND_MS).otherwise(_ROUND_LONG_MS)
    delay_ms = F.when(delay_ms < _AT_ONCE_MS, 0).otherwise(F.floor(delay_ms / round_ms) * round_ms)
    rows = rows.crossJoin(F.broadcast(rows.agg(delay_ms.alias("delay_ms"))))
    delay_ms = F.col("delay_ms")
    usual = F.when(is_alone, 1).otherwise(2)
    is_near = is_new & (whole_ms <= (_MAX_DELAYS + 1) * delay_ms)
    times = F.when(is_near, F.greatest(F.floor(whole_ms / delay_ms), F.lit(1))).otherwise(usual)
    most = F.when(is_near, times).otherwise(F.least(F.col("members_after"), F.lit(_MAX_DELAYS)))
    # without the record of a new group (it was compacted away), nothing shows when the group was created
    since_ms = F.when(whole_ms.isNotNull(), empty_ms)
    start_ms = F.greatest(joined_ms - times * delay_ms - _TIMER_MS, F.coalesce(since_ms, F.lit(0)))
    slack_ms = F.when(is_new, _LATE_MS).otherwise(_SLACK_MS)
    earliest_ms = F.greatest(joined_ms - most * delay_ms - slack_ms, since_ms)
    bounds = {
        "start_ms": F.least(start_ms, joined_ms),
        "start_earliest_ms": F.least(earliest_ms, start_ms),
        "start_latest_ms": F.when(delay_ms < _SHORT_DELAY_MS, joined_ms).otherwise(
            F.greatest(F.least(joined_ms - times * delay_ms + _THREAD_MS, joined_ms), start_ms)
        ),
    }
    rows = rows.withColumns(
        {name: F.when(came & is_one, value).otherwise(F.col(name)) for name, value in bounds.items()}
    )
    rows = rows.withColumn("join_phase_ms", joined_ms - F.col("start_ms"))
    took_ms = F.when(F.col("took_ms").isNotNull(), F.col("end_ms") - F.col("start_ms"))
    return rows.withColumn("took_ms", took_ms).drop("joined_ms", "delay_ms")


def _conform(rows: DataFrame) -> DataFrame:
    """The table's columns, with the paused time (by the rules of whatif.costs).

    In an eager group, no member consumes from the start to the end of a rebalance. In a cooperative group, partitions
    that were given up in the round before wait for their new owner. The partitions of members that left, and those
    without an owner, wait for the whole rebalance. In KIP-848 groups the paused time of each partition is known.
    """
    eager = F.col(KEPT) + F.col(MOVED) + F.col(GAINED)
    left = F.when(F.col("members_left") > 0, F.col(MOVED)).otherwise(0)
    unread = F.when(F.col("is_cooperative"), left + F.col(GAINED) - F.coalesce("between", F.lit(0))).otherwise(eager)
    given_up_ms = F.when(F.col("is_cooperative"), F.col("between_ms"))
    paused = F.col("took_ms") * unread + F.coalesce(given_up_ms, F.lit(0))
    known = F.coalesce("between_ms", F.lit(0))
    known = F.when(F.col(KEPT).isNotNull(), known)  # if only the events have the rebalance, these times are not known
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
