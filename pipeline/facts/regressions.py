"""The table `regressions`: commits lower than the one before of the same group and partition, and why. A commit's
record does not say who sent it, so the cause is inferred by the table in docs/pipeline-tables.md. Only a commit in a
transaction says which producer made it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

from muster.pipeline.facts.commits import PLACE, PRODUCER
from muster.pipeline.facts.schema import conform
from muster.pipeline.facts.topic_ends import minus

RESET: Final = "reset"
DELETED: Final = "deleted"
REWIND: Final = "rewind"
ZOMBIE: Final = "zombie"
SECOND_APPLICATION: Final = "second_application"
RECREATED: Final = "topic_recreated"
UNKNOWN: Final = "unknown"
"""Of a group that never had members: its consumer went back, or a tool reset it; the log does not tell which."""

ZOMBIE_MS: Final = 600_000
"""So long a former owner may go on with what it had fetched: twice the default of max.poll.interval.ms."""
_AHEAD: Final = 5
"""Among so many commits after it a zombie's is answered by one of the owner."""

SERIES_MS: Final = 600_000
"""Commits of two writers that are so near to each other are one happening."""
_SERIES: Final = 3
"""So many times the commits of a partition go back and return when two write."""
_HAPPENING_MS: Final = 15_000
"""What goes back within such a time for one cause is one happening."""
_MOMENT_MS: Final = 3_000

_LIKE: Final = 0.25
"""Two times between commits that differ by no more than such a part are of one beat."""
_LATER: Final = 2.5
"""What comes after so many intervals is of no beat."""

_WHOSE: Final = ("producer_id", "fenced_ms", "topic_id")

_RECENT: Final = 5
"""A former owner's late commit is not lower than so many of its last ones."""


def fenced(transactions: DataFrame) -> DataFrame:
    """The producers that newer ones of their transactional ids replaced, and when: PRODUCER, fenced_ms."""
    rows = transactions.where(F.col("fenced_ms").isNotNull())
    return rows.groupBy(*PRODUCER).agg(F.min("fenced_ms").alias("fenced_ms"))


def regressions(
    commits: DataFrame, replaced: DataFrame | None = None, topic_ends: DataFrame | None = None
) -> DataFrame:
    """Rows of the table `regressions` out of those of `commits` (`commits.placed`). `replaced`: rows of `fenced`;
    `topic_ends`: how far the logs of the topics reach (`sources.ends`).
    """
    rows = _with_neighbours(_with_producers(commits, replaced)).where(
        ~F.col("is_deleted") & (F.col("committed_offset") < F.col("before.offset"))
    )
    rows = rows.withColumn("was_recreated", _is_of_another_topic())
    if topic_ends is not None:
        rows = rows.join(F.broadcast(_reached(topic_ends)), ["topic", "partition"], "left")
        rows = rows.withColumn("was_recreated", F.col("was_recreated") | _was_beyond()).drop("reach")
    # one request of one member is logged with one time
    together = Window.partitionBy("group", "log_partition", "time_ms")
    near = Window.partitionBy(*PLACE).orderBy("time_ms").rangeBetween(-SERIES_MS, SERIES_MS)
    rows = rows.withColumn(
        "returns", F.coalesce(_fell_back_and_returned() | (_step_back_up() > _back() / 2), F.lit(False))
    )
    rows = rows.select(
        "*",
        F.count("*").over(together).alias("at_once"),
        (F.min("owner").over(together) != F.max("owner").over(together)).alias("of_several"),
        (F.count_if(F.col("returns") & ~F.col("is_first")).over(near) >= _SERIES).alias("is_series"),
    )
    return conform(_happenings(rows.withColumn("cause", _cause())), "regressions")


def _happenings(rows: DataFrame) -> DataFrame:
    """One row for what happened at one time for one cause, with the partitions in it: it names the one that went
    farthest back. What a second application does is one as long as it goes on.
    """
    in_time = Window.partitionBy("group").orderBy("time_ms", "log_partition", "log_offset")
    # a member that goes back on all its partitions may come to the very beginning on some
    moment = F.sum(F.when(F.col("time_ms") - F.lag("time_ms").over(in_time) <= _MOMENT_MS, 0).otherwise(1))
    rows = rows.withColumn("moment", moment.over(in_time))
    # nor does each partition of a second application go on for long
    of_empty = Window.partitionBy("group", "generation")
    is_second = F.count_if((F.col("cause") == SECOND_APPLICATION) & (F.col("members") == 0)).over(of_empty) > 0
    is_same = ~F.col("was_recreated")
    was_empty = (F.col("members") == 0) & ~F.col("deleted_before") & is_same
    rows = rows.withColumn("cause", F.when(is_second & was_empty, SECOND_APPLICATION).otherwise(F.col("cause")))
    of_moment = Window.partitionBy("group", "moment")
    is_rewound = F.count_if((F.col("cause") == REWIND) & F.col("is_first")).over(of_moment)
    rows = rows.withColumn(
        "cause", F.when(F.col("is_first") & is_same & (is_rewound > 0), REWIND).otherwise(F.col("cause"))
    )
    # nor does each partition of a consumer without a group show that it went on
    went_on = F.col("is_alone") & (F.count_if((F.col("cause") == REWIND) & F.col("is_alone")).over(of_moment) > 0)
    as_others = went_on & F.col("cause").isin(RESET, UNKNOWN) & ~F.col("returns")
    rows = rows.withColumn("cause", F.when(as_others, REWIND).otherwise(F.col("cause")))
    of_cause = Window.partitionBy("group", "cause").orderBy("time_ms", "log_partition", "log_offset")
    apart_ms = F.when(F.col("cause") == SECOND_APPLICATION, SERIES_MS).otherwise(_HAPPENING_MS)
    is_new = F.coalesce(F.col("time_ms") - F.lag("time_ms").over(of_cause) > apart_ms, F.lit(True))
    by_former = F.col("cause") == ZOMBIE
    rows = rows.select(
        *("group", "topic", "partition", "time_ms", "cause", "generation", "log_offset"),
        F.sum(is_new.cast("int")).over(of_cause).alias("happening"),
        F.col("before.offset").alias("from_offset"),
        F.col("committed_offset").alias("to_offset"),
        _back().alias("back"),
        *(
            F.when(by_former, F.coalesce(f"takeover.{name}", name))
            .when(~F.col("cause").isin(SECOND_APPLICATION, RECREATED), F.col(name))
            .alias(name)
            for name in ("member_id", "client_id")
        ),
    )
    one = F.struct("back", "from_offset", "to_offset", "time_ms", "log_offset", "member_id", "client_id", "generation")
    # the farthest back counts; of equal ones the first
    farthest = F.struct("back", -F.col("log_offset"), -F.col("time_ms"))
    key = ["group", "cause", "happening"]
    places = rows.groupBy(*key, "topic", "partition").agg(
        F.max_by(one, farthest).alias("one"),
        F.count("*").alias("commits"),
        F.min("time_ms").alias("first_ms"),
        F.max("time_ms").alias("last_ms"),
    )
    place = F.struct("topic", "partition", "commits", "one.from_offset", "one.to_offset", "one.back", "first_ms")
    first = F.struct("one.back", -F.col("first_ms"), -F.col("partition"), "topic")
    found = places.groupBy(*key).agg(
        F.max_by(F.struct("topic", "partition", "one"), first).alias("worst"),
        F.min("first_ms").alias("time_ms"),
        F.max("last_ms").alias("until_ms"),
        F.sum("commits").alias("commits"),
        F.array_sort(F.collect_list(place)).alias("partitions"),
        F.count_distinct("one.client_id").alias("clients"),
    )
    several = F.col("clients") > 1
    return found.select(
        *("group", "cause", "worst.topic", "worst.partition", "time_ms", "until_ms", "commits", "partitions"),
        *(f"worst.one.{name}" for name in ("from_offset", "to_offset", "back", "generation", "log_offset")),
        *(F.when(~several, F.col(f"worst.one.{name}")).alias(name) for name in ("member_id", "client_id")),
    )


def _with_producers(commits: DataFrame, replaced: DataFrame | None) -> DataFrame:
    """Each commit with its producer, and when that was replaced (null: never, or not known); and its topic's id."""
    if "topic_id" not in commits.columns:
        commits = commits.withColumn("topic_id", F.lit(None).cast("string"))
    for name, kind in zip(PRODUCER, ("bigint", "int"), strict=True):
        if name not in commits.columns:
            commits = commits.withColumn(name, F.lit(None).cast(kind))
    if replaced is None:
        return commits.withColumn("fenced_ms", F.lit(None).cast("bigint"))
    return commits.join(replaced, list(PRODUCER), "left")


def _with_neighbours(commits: DataFrame) -> DataFrame:
    """Each commit with what was before and after it in its partition:

    `before`: offset, time_ms, producer and topic_id of the last commit, deletions passed over; `deleted_before`: there
    is a deletion between; `is_alone`: its group never had members; `goes_on_alone`: whoever made it goes on (null: that
    cannot be told); `two_before`: the offset before that (null: none, or a deletion between); `next_1` to `next_5`:
    the offsets after it; `takeover`: when the present owner's first commit came, what the last one before it was and
    whose, its producer, and the `least` of the last ones.
    """
    rows = commits.select(
        *PLACE,
        *("log_offset", "time_ms", "committed_offset", "is_deleted", "generation", "members", "member_id", "client_id"),
        *("producer_id", "fenced_ms", "topic_id"),
        F.coalesce("instance_id", "member_id").alias("owner"),
    )
    in_order = Window.partitionBy(*PLACE).orderBy("log_offset")
    until_before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    live = ~F.col("is_deleted")
    position = F.when(live, F.struct(F.col("committed_offset").alias("offset"), "time_ms", *_WHOSE))
    owner = F.when(live & F.col("owner").isNotNull(), F.struct("owner", "member_id", "client_id"))
    rows = rows.select(
        "*",
        F.last(position, ignorenulls=True).over(until_before).alias("before"),
        F.last(owner, ignorenulls=True).over(until_before).alias("owner_before"),
        F.min("committed_offset").over(in_order.rowsBetween(-_RECENT, -1)).alias("least_before"),
        F.coalesce(F.lag("is_deleted").over(in_order), F.lit(False)).alias("deleted_before"),
        (
            ~F.lag("generation").over(in_order).eqNullSafe(F.col("generation"))
            # in a KIP-848 group who gives a partition up commits it once more in the new epoch
            | F.coalesce(F.lag("owner").over(in_order) != F.col("owner"), F.lit(False))
        ).alias("is_first"),
        _goes_on_empty(in_order).alias("goes_on_empty"),
        (F.col("generation").isNull() & (F.col("members") == 0)).alias("is_alone"),
        _goes_on_alone(in_order).alias("goes_on_alone"),
        F.lag("committed_offset", 2).over(in_order).alias("two_before"),
        *(F.lead("committed_offset", step).over(in_order).alias(f"next_{step}") for step in range(1, _AHEAD + 1)),
    )
    first = F.when(
        live & (F.col("owner") != F.col("owner_before.owner")),
        F.struct(
            F.col("time_ms"),
            F.col("log_offset"),
            F.col("before.offset").alias("offset"),
            F.col("before.producer_id").alias("producer_id"),
            F.col("least_before").alias("least"),
            F.col("owner_before.member_id").alias("member_id"),
            F.col("owner_before.client_id").alias("client_id"),
        ),
    )
    so_far = in_order.rowsBetween(Window.unboundedPreceding, 0)
    return rows.withColumn("takeover", F.last(first, ignorenulls=True).over(so_far))


def _goes_on_empty(in_order: WindowSpec) -> Column:
    """Two more commits of the partition come, and the group is as empty as it was: no tool does that."""
    same = [
        (F.lead("members", step).over(in_order) == 0)
        & F.lead("generation", step).over(in_order).eqNullSafe(F.col("generation"))
        for step in (1, 2)
    ]
    return F.coalesce(same[0] & same[1], F.lit(False))


def _goes_on_alone(in_order: WindowSpec) -> Column:
    """The next three commits of the partition, without members, are as far apart as this one and the next: whoever made
    this one goes on. False: nothing comes after it, or not for long. Null: that cannot be told.
    """
    times = [F.col("time_ms")]
    for step in (1, 2, 3):
        no_members = (F.lead("members", step).over(in_order) == 0) & ~F.lead("is_deleted", step).over(in_order)
        times.append(F.when(no_members, F.lead("time_ms", step).over(in_order)))
    first, second, third = (later - earlier for earlier, later in pairwise(times))
    longest, least = F.greatest(first, second, third), F.least(first, second, third)
    is_beat = (second.isNotNull() & third.isNotNull()) & (longest - least <= _LIKE * longest)
    is_late = first > _LATER * F.greatest(second, third)
    return F.when(times[1].isNull() | is_late, F.lit(False)).when(is_beat, F.lit(True))


def _is_of_another_topic() -> Column:
    """The commit before it was for a topic of the same name with another id."""
    return F.coalesce(F.col("topic_id") != F.col("before.topic_id"), F.lit(False))


def _reached(topic_ends: DataFrame) -> DataFrame:
    """topic, partition, reach: how far the log goes in the end, and since when."""
    known = topic_ends.where(F.col("end_offset").isNotNull() & F.col("time_ms").isNotNull())
    return known.groupBy("topic", "partition").agg(F.max(F.struct("end_offset", "time_ms")).alias("reach"))


def _was_beyond() -> Column:
    """What was committed before lies beyond the end of the log, though that came to its end later: it is another log.
    One such commit alone may be a tool's.
    """
    is_beyond = F.least("before.offset", "two_before") > F.col("reach.end_offset")
    is_beyond &= F.col("two_before").isNotNull()
    return F.coalesce(is_beyond & (F.col("reach.time_ms") > F.col("before.time_ms")), F.lit(False))


def _back() -> Column:
    return minus(F.col("before.offset"), F.col("committed_offset"))


def _cause() -> Column:
    """The first rule that holds; see docs/pipeline-tables.md."""
    alone = F.col("member_id").isNull() & (F.col("at_once") > 1)
    is_empty = F.col("members") == 0
    had_members = F.col("generation").isNotNull()
    return (
        F.when(F.col("was_recreated"), RECREATED)
        .when(F.col("deleted_before"), DELETED)
        .when(F.col("is_series") & ~_is_of_same_producer(), SECOND_APPLICATION)
        .when(is_empty & F.col("goes_on_empty") & had_members, SECOND_APPLICATION)
        .when(F.col("is_alone") & F.col("goes_on_alone") & ~F.col("returns"), REWIND)
        .when(F.col("is_alone") & F.coalesce("goes_on_alone", ~F.col("returns")), UNKNOWN)
        .when(is_empty, RESET)
        .when(_is_of_former_producer(), ZOMBIE)
        .when(_was_fenced_before(), ZOMBIE)
        .when(F.col("is_first") & (F.col("committed_offset") > 0), REWIND)
        .when(_fell_back_and_returned() & ~_is_of_same_producer() & ~F.col("is_first"), ZOMBIE)
        .when((F.col("committed_offset") <= 0) & F.col("member_id").isNull(), RESET)
        .when(alone | F.col("of_several"), RESET)
        .when(_ran_ahead_before() & ~_is_of_same_producer(), ZOMBIE)
        .otherwise(REWIND)
    )


def _is_of_same_producer() -> Column:
    """The commit before this one is of the same producer, and no newer one has its id: nobody else committed."""
    is_same = F.col("producer_id") == F.col("before.producer_id")
    return F.coalesce(is_same & F.col("before.fenced_ms").isNull(), F.lit(False))


def _is_of_former_producer() -> Column:
    """The producer of this commit is the one that committed for the former owner; another one did since."""
    is_former = F.col("producer_id") == F.col("takeover.producer_id")
    is_later = F.col("takeover.log_offset") < F.col("log_offset")
    return F.coalesce(is_former & is_later & (F.col("producer_id") != F.col("before.producer_id")), F.lit(False))


def _was_fenced_before() -> Column:
    """A newer producer took the id of the commit before this one over. This one is the new producer's, which goes on
    from its own place.
    """
    is_between = F.col("before.fenced_ms").between(F.col("before.time_ms"), F.col("time_ms"))
    return F.coalesce(is_between & _goes_on_from_below(), F.lit(False))


def _fell_back_and_returned() -> Column:
    """A former owner made this commit: it lies between that owner's last commits and the new owner's, nearer to the
    former, and the new owner returns to its place in one step. A member that seeks back by a little may do so, too.
    """
    to, high, former = F.col("committed_offset"), F.col("before.offset"), F.col("takeover.offset")
    is_near = to >= F.col("takeover.least")
    return is_near & (minus(to, former) <= minus(high, to)) & (_step_back_up() > minus(high, to) / 2)


def _step_back_up() -> Column:
    """How far the step goes with which a later commit reaches the height from which this one fell; null: none does."""
    heights = [F.col("committed_offset"), *(F.col(f"next_{step}") for step in range(1, _AHEAD + 1))]
    found = F.lit(None).cast("bigint")
    for lower, upper in zip(reversed(heights[:-1]), reversed(heights[1:]), strict=True):
        found = F.when(upper >= F.col("before.offset"), minus(upper, lower)).otherwise(found)
    return found


def _ran_ahead_before() -> Column:
    """A former owner made the commit before this one, a spike. This one is the new owner's, which goes on from its own
    place.
    """
    soon = F.col("before.time_ms") - F.col("takeover.time_ms") <= ZOMBIE_MS
    is_later = F.col("takeover.log_offset") < F.col("log_offset")
    to, base = F.col("committed_offset"), F.col("two_before")
    is_spike = minus(to, base) <= minus(F.col("before.offset"), to)
    return is_later & soon & is_spike & _goes_on_from_below()


def _goes_on_from_below() -> Column:
    """This commit is not below the one before the last, and the next one is not below this one."""
    to, base = F.col("committed_offset"), F.col("two_before")
    return (to >= base) & (F.coalesce(F.col("next_1"), to) >= to)
