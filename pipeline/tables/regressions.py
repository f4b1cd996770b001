"""The table `regressions`: commits lower than the commit before of the same group and partition, with the causes.

A commit's record does not say who sent it. So `_cause` infers the cause, from what `backward.BACK` describes. Only if a
commit is in a transaction does the log say which producer made it.
"""

from __future__ import annotations

from typing import Final

from muster.pipeline.episodes.thresholds import SERIES, SERIES_MS
from muster.pipeline.frames import Column, DataFrame, F, Window
from muster.pipeline.tables.backward import BACK
from muster.pipeline.tables.commits import PLACE, PRODUCER
from muster.pipeline.tables.findings import unpacked
from muster.pipeline.tables.schema import conform

RESET: Final = "reset"
DELETED: Final = "deleted"
REWIND: Final = "rewind"
ZOMBIE: Final = "zombie"
SECOND_APPLICATION: Final = "second_application"
RECREATED: Final = "topic_recreated"
UNKNOWN: Final = "unknown"
"""The cause in a group that never had members: its consumer went back, or a tool reset the offset.

The log does not show which of the two. It is also the cause if the same two offsets come in turn: a client perhaps
sent older commits again.
"""

_HAPPENING_MS: Final = 15_000
"""Commits that go back within this time, for the same cause, are one incident."""
_MOMENT_MS: Final = 3_000


def fenced(transactions: DataFrame) -> DataFrame:
    """The producers that were replaced by newer ones of the same transactional id, and when: PRODUCER, fenced_ms."""
    rows = transactions.where(F.col("fenced_ms").isNotNull())
    return rows.groupBy(*PRODUCER).agg(F.min("fenced_ms").alias("fenced_ms"))


def regressions(walk: DataFrame) -> DataFrame:
    """Rows of the table `regressions`, made from rows of `commits.walked`."""
    rows = unpacked(walk, "back", BACK)
    # all commits of one request are logged with one time
    together = Window.partitionBy("group", "log_partition", "time_ms")
    near = Window.partitionBy(*PLACE).orderBy("time_ms").rangeBetween(-SERIES_MS, SERIES_MS)
    rows = rows.select(
        "*",
        F.count("*").over(together).alias("at_once"),
        (F.min("owner").over(together) != F.max("owner").over(together)).alias("of_several"),
        *(
            (F.count_if(~F.col(name)).over(together) == 0).alias(f"all_{name}")
            for name in ("fell_back_and_returned", "ran_ahead_before")
        ),
        (F.count_if(F.col("returns") & ~F.col("is_first")).over(near) >= SERIES).alias("is_series"),
        # two applications would both go on
        *(
            (F.min(name).over(near) == F.max(name).over(near)).alias(f"same_{name}")
            for name in ("from_offset", "to_offset")
        ),
    )
    return conform(_happenings(rows.withColumn("cause", _cause())), "regressions")


def _happenings(rows: DataFrame) -> DataFrame:
    """One row for each incident, with its partitions, and the partition that went back farthest.

    An incident is what happened at one time for one cause. A second application is one incident for as long as it
    commits.
    """
    in_time = Window.partitionBy("group").orderBy("time_ms", "log_partition", "log_offset")
    # a member that goes back on all its partitions may reach the start of some of them
    moment = F.sum(F.when(F.col("time_ms") - F.lag("time_ms").over(in_time) <= _MOMENT_MS, 0).otherwise(1))
    rows = rows.withColumn("moment", moment.over(in_time))
    # not all partitions of a second application get commits for long
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
    # not all partitions of a consumer without a group show that the consumer continued
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
        *("from_offset", "to_offset", "back"),
        *(
            F.when(by_former, F.coalesce(f"former_{name}", name))
            .when(~F.col("cause").isin(SECOND_APPLICATION, RECREATED), F.col(name))
            .alias(name)
            for name in ("member_id", "client_id")
        ),
    )
    one = F.struct("back", "from_offset", "to_offset", "time_ms", "log_offset", "member_id", "client_id", "generation")
    # the commit that went back farthest counts; of several that went equally far, the first
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


def _cause() -> Column:
    """The cause by the first rule that applies. `backward.BACK` describes the columns."""
    alone = F.col("member_id").isNull() & (F.col("at_once") > 1)
    is_empty = F.col("members") == 0
    had_members = F.col("generation").isNotNull()
    return (
        F.when(F.col("was_recreated"), RECREATED)
        .when(F.col("deleted_before"), DELETED)
        .when(F.col("is_series") & F.col("same_from_offset") & F.col("same_to_offset"), UNKNOWN)
        .when(F.col("is_series") & ~F.col("is_of_same_producer"), SECOND_APPLICATION)
        .when(F.col("is_of_other_kind") & ~is_empty & ~F.col("is_first"), SECOND_APPLICATION)
        .when(is_empty & F.col("goes_on_empty") & had_members, SECOND_APPLICATION)
        .when(F.col("is_alone") & F.col("goes_on_alone") & ~F.col("returns"), REWIND)
        .when(F.col("is_alone") & F.coalesce("goes_on_alone", ~F.col("returns")), UNKNOWN)
        .when(is_empty, RESET)
        .when(F.col("is_of_former_producer"), ZOMBIE)
        .when(F.col("was_fenced_before"), ZOMBIE)
        .when(F.col("is_first") & (F.col("to_offset") > 0), REWIND)
        # one program made all commits of a request
        .when(F.col("all_fell_back_and_returned") & ~F.col("is_of_same_producer") & ~F.col("is_first"), ZOMBIE)
        .when((F.col("to_offset") <= 0) & F.col("member_id").isNull(), RESET)
        .when(alone | F.col("of_several"), RESET)
        .when(F.col("all_ran_ahead_before") & ~F.col("is_of_same_producer"), ZOMBIE)
        .otherwise(REWIND)
    )
