"""The content of a page, from the tables (facts.schema.TABLES): of each a bounded number of rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

from muster.pipeline.episodes.verdict import LEVELS
from muster.pipeline.report.content import About, Chosen, Row, Some, Story
from muster.pipeline.schema import MALFORMED, UNKNOWN
from muster.pipeline.wording import DAY, HOUR, MINUTE

GROUPS: Final = 200
"""Groups in the table of groups."""
STORIES: Final = 20
"""Groups with a picture."""
LANES: Final = 60
"""Members of one generation in it."""
SHARES: Final = 2_000
"""Shares of members in one picture: of a long history the newest part is drawn."""
REBALANCES: Final = 200
"""Rebalances of one group."""
FEW_SETTINGS: Final = 3
"""If no more were asked for, each is answered group by group."""
LINES: Final = 40
"""Rows of any other table."""
TRANSACTIONS: Final = 10
"""The longest transactions."""
BUCKETS: Final = 60
"""Columns of the picture of rebalances over time, at most."""
_BUCKET_SIZES: Final = (MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 7 * DAY)
_TOPICS_SHOWN: Final = 6
_NUMBERS_SHOWN: Final = 40

Tables = Mapping[str, DataFrame]


def select(tables: Tables, about: About) -> Chosen:
    """See the module."""
    facts = _row(
        tables["commits"].agg(
            F.min("time_ms").alias("first_ms"),
            F.max("time_ms").alias("last_ms"),
            F.count_if(~F.col("is_deleted")).alias("commits"),
        )
    )
    known = _row(
        tables["generations"].agg(
            F.min("start_ms").alias("first_ms"), F.max(F.coalesce("end_ms", "start_ms")).alias("last_ms")
        )
    )
    first_ms = _either(min, facts["first_ms"], known["first_ms"])
    last_ms = _either(max, facts["last_ms"], known["last_ms"])
    bucket_ms = bucket_size((last_ms or 0) - (first_ms or 0))
    groups = _groups(tables)
    return Chosen(
        about,
        first_ms,
        last_ms,
        facts["commits"],
        groups,
        _causes(tables["rebalances"]),
        bucket_ms,
        _buckets(tables["rebalances"], bucket_ms),
        _stories(tables, {row["group"]: row["verdict"] for row in groups.rows[:STORIES] if row["members"]}),
        _some(tables["regressions"], F.desc("back"), F.asc("time_ms")),
        _some(
            # a commit that went back is told as such
            tables["stalls"].where("status in ('STALL', 'STOP', 'WARN')"),
            F.asc(F.col("status") == "WARN"),
            F.asc_nulls_first("end_ms"),
            F.desc_nulls_last("lag"),
            F.desc("start_ms"),
        ),
        _some(tables["lag"].where("lag > 0"), F.desc("lag")),
        _some(tables["static_candidates"], F.desc("returns"), F.asc("group"), F.asc("client_id")),
        *_what_if(tables, len(about.what_if)),
        odd_rows={kind: about.rows.get(kind, 0) for kind in (MALFORMED, UNKNOWN)},
        odd_reasons=_reasons(tables),
        odd_times=_odd_times(tables["commits"]),
        levels={row["level"]: row["groups"] for row in _levels(tables["verdicts"])},
        **(_transactions(tables) | _comparison(tables)),
    )


def bucket_size(span_ms: int) -> int:
    """The width of a column of the picture over so long a time."""
    fitting = (size for size in _BUCKET_SIZES if span_ms <= size * BUCKETS)
    return next(fitting, -(-span_ms // BUCKETS // DAY) * DAY)


def _groups(tables: Tables) -> Some:
    rebalances = tables["rebalances"]
    members = tables["generations"].groupBy("group").agg(F.max("member_count").alias("members"))
    counted = rebalances.groupBy("group").agg(
        F.count("*").alias("rebalances"),
        F.sum("paused_partition_ms").alias("paused_partition_ms"),
        F.sum("moved").alias("moved"),
        F.max("took_ms").alias("longest_ms"),
        F.mode("cause").alias("top_cause"),
    )
    scores = tables["flapping"].select("group", "score", "top_trigger_client_id", "top_trigger_share")
    lags = tables["lag"].groupBy("group").agg(F.sum("lag").alias("lag"))
    # a group whose offsets were all deleted or expired counts too
    committed = tables["commits"].select("group").distinct()
    rows = members.join(counted, "group", "full").join(scores, "group", "left").join(lags, "group", "full")
    rows = rows.join(committed, "group", "full")
    told = tables["verdicts"].select("group", "level", "verdict", "trouble_ms")
    rows = rows.join(told, "group", "left")
    rank = F.array_position(F.array(*map(F.lit, LEVELS)), F.col("level"))
    return _some(
        rows.withColumn("rebalances", F.coalesce("rebalances", F.lit(0))),
        F.asc_nulls_last(rank),
        F.desc_nulls_last("trouble_ms"),
        F.desc_nulls_last("paused_partition_ms"),
        F.desc("rebalances"),
        F.desc_nulls_last("lag"),
        F.asc("group"),
        limit=GROUPS,
    )


def _levels(verdicts: DataFrame) -> list[Row]:
    return _rows(verdicts.groupBy("level").agg(F.count("*").alias("groups")))


def _causes(rebalances: DataFrame) -> list[Row]:
    rows = rebalances.groupBy("cause").agg(
        F.count("*").alias("rebalances"),
        F.avg("took_ms").alias("took_ms"),
        F.sum("paused_partition_ms").alias("paused_partition_ms"),
        F.avg("confidence").alias("confidence"),
    )
    return _rows(rows.orderBy(F.desc("rebalances"), "cause").limit(LINES))


def _buckets(rebalances: DataFrame, bucket_ms: int) -> list[Row]:
    start = (F.floor(F.col("start_ms") / bucket_ms) * bucket_ms).cast("long").alias("bucket_ms")
    rows = rebalances.where("start_ms is not null").groupBy(start, "cause").agg(F.count("*").alias("rebalances"))
    return _rows(rows.orderBy("bucket_ms", "cause").limit((BUCKETS + 2) * LINES))


def _stories(tables: Tables, verdicts: Mapping[str, str | None]) -> list[Story]:
    if not verdicts:
        return []
    groups = list(verdicts)
    newest = Window.partitionBy("group").orderBy(F.desc("log_offset"))
    drawn = (
        tables["generations"]
        .where(F.col("group").isin(groups) & (F.col("member_count") > 0))
        .withColumn("so_far", F.sum(F.least("member_count", F.lit(LANES))).over(newest))
        .where(F.col("so_far") <= SHARES)
        .select("group", "generation", "start_ms", "end_ms", F.explode(F.slice("members", 1, LANES)).alias("one"))
    )
    shares = drawn.select(
        *("group", "generation", "start_ms", "end_ms"),
        *(F.col(f"one.{name}").alias(name) for name in ("member_id", "instance_id", "client_id", "host")),
        F.aggregate(
            F.coalesce("one.assigned", F.array()), F.lit(0), lambda total, topic: total + F.size(topic["partitions"])
        ).alias("partitions"),
        F.transform(F.slice("one.assigned", 1, _TOPICS_SHOWN), _shortened).alias("assigned"),
    )
    by_group: dict[str, list[Row]] = {group: [] for group in groups}
    for row in _rows(shares):
        by_group[row["group"]].append(row)
    happened = _rebalances_of(tables["rebalances"], groups)
    told = _episodes_of(tables["episodes"], groups)
    return [
        Story(group, by_group[group], happened.get(group, Some()), verdicts[group], told.get(group, ()))
        for group in groups
    ]


def _episodes_of(episodes: DataFrame, groups: list[str]) -> dict[str, list[Row]]:
    newest = Window.partitionBy("group").orderBy(F.desc("from_ms"), F.desc("until_ms"), "kind")
    rows = episodes.where(F.col("group").isin(groups)).withColumn("place", F.row_number().over(newest))
    found: dict[str, list[Row]] = {}
    for row in _rows(rows.where(F.col("place") <= LINES).orderBy("group", "place")):
        found.setdefault(row["group"], []).append(row)
    return found


def _shortened(topic: Column) -> Column:
    return F.struct(topic["topic"].alias("topic"), F.slice(topic["partitions"], 1, _NUMBERS_SHOWN).alias("partitions"))


def _rebalances_of(rebalances: DataFrame, groups: list[str]) -> dict[str, Some]:
    rows = rebalances.where(F.col("group").isin(groups))
    newest = Window.partitionBy("group").orderBy(F.desc("generation"), F.desc("start_ms"))
    counted = rows.withColumn("place", F.row_number().over(newest)).withColumn(
        "total", F.count("*").over(Window.partitionBy("group"))
    )
    found: dict[str, list[Row]] = {}
    for row in _rows(counted.where(F.col("place") <= REBALANCES).orderBy("group", "place")):
        found.setdefault(row["group"], []).append(row)
    return {group: Some(some, some[0]["total"]) for group, some in found.items()}


_FIGURES: Final = ("rebalances", "moved_partitions", "paused_partition_s", "silent_partition_s", "unread_partition_s")


def _what_if(tables: Tables, settings: int) -> tuple[list[Row], Some, Some, list[Row], Some]:
    if "whatif" not in tables:
        return [], Some(), Some(), [], Some()
    # sums over groups for which all settings could be played: otherwise they cannot be compared
    rows = tables["whatif"]
    whole = rows.groupBy("group").agg(F.count("*").alias("n"), F.count("rebalances").alias("played"))
    rows = rows.join(whole.where("n = played").select("group"), "group")
    # a setting with less pause may have more silence: the partition is not read in either
    for prefix in ("", "actual_"):
        unread = F.col(f"{prefix}paused_partition_s") + F.col(f"{prefix}silent_partition_s")
        rows = rows.withColumn(f"{prefix}unread_partition_s", unread)
    sums = [F.sum(prefix + name).alias(prefix + name) for prefix in ("", "actual_") for name in _FIGURES]
    detects = [F.avg(prefix + "detect_ms").alias(prefix + "detect_ms") for prefix in ("", "actual_")]
    unread, was = F.col("unread_partition_s"), F.col("actual_unread_partition_s")
    changed = (
        F.count_if(F.col("rebalances") < F.col("actual_rebalances")).alias("fewer"),
        F.count_if(F.col("rebalances") > F.col("actual_rebalances")).alias("more"),
        F.count_if(unread < was).alias("less"),
        F.count_if(unread > was).alias("longer"),
    )
    by_setting = rows.groupBy("setting", "settings_json").agg(F.count("*").alias("groups"), *changed, *sums, *detects)
    grid = _rows(by_setting.orderBy("unread_partition_s", "rebalances", "setting").limit(GROUPS))
    fidelity = tables["fidelity"]
    judged = fidelity.groupBy("source").agg(
        F.count("*").alias("groups"),
        F.sum("generations").alias("generations"),
        F.sum("reproduced").alias("reproduced"),
        F.sum(F.col("withheld").cast("long")).alias("withheld"),
    )
    withheld = _some(fidelity.where("withheld"), F.desc_nulls_last("generations"), F.asc("group"))
    best = _some(tables["advice"], F.desc("gain_s"), F.desc("spared"), F.asc("group"))
    answers = Some()
    if 0 < settings <= FEW_SETTINGS:
        paused, silent = (f"actual_{kind}_partition_s - {kind}_partition_s" for kind in ("paused", "silent"))
        answers = _some(
            tables["whatif"],
            F.desc_nulls_last(F.expr(f"{paused} + {silent}")),
            F.desc_nulls_last(F.expr("actual_rebalances - rebalances")),
            *("group", "setting"),
            limit=GROUPS,
        )
    return grid, best, answers, _rows(judged.orderBy("source")), withheld


def _comparison(tables: Tables) -> dict[str, Any]:
    rows = tables.get("comparison")
    if rows is None:
        return {}
    sums = [
        F.sum(f"{name}_{side}").alias(f"{name}_{side}")
        for name in ("rebalances", "happenings", "cost_ms", "hours")
        for side in ("before", "after")
    ]
    significant = F.count_if("is_significant").alias("significant")
    changed = F.abs(F.col("cost_ms_after") - F.col("cost_ms_before"))
    order = (F.desc_nulls_last("is_significant"), F.desc_nulls_last(changed), F.asc_nulls_last("p"), F.asc("group"))
    return {
        "comparison": _some(rows, *order, limit=GROUPS),
        "compared": _row(rows.agg(*sums, significant, F.count("*").alias("groups"))),
    }


def _transactions(tables: Tables) -> dict[str, Any]:
    rows = tables.get("transactions")
    if rows is None:
        return {}
    totals = (F.count("*").alias("transactions"), F.max("took_ms").alias("longest_ms"))
    ends = rows.groupBy("outcome", "cause").agg(*totals, F.avg("took_ms").alias("took_ms"))
    found = _rows(ends.orderBy(F.desc("transactions"), "outcome", "cause").limit(LINES))
    if not found:
        return {}
    # a producer without a known id is told by its own
    by_id = rows.groupBy(
        "transactional_id", F.when(F.col("transactional_id").isNull(), F.col("producer_id")).alias("of")
    )
    ids = by_id.agg(
        *totals,
        F.max("producer_id").alias("producer_id"),
        F.count_if(F.col("outcome") == "aborted").alias("aborted"),
        F.count_if(F.col("cause") == "timeout").alias("timed_out"),
        F.count_if(F.col("cause") == "new_producer").alias("taken_over"),
    ).drop("of")
    aborted = rows.where(F.col("outcome") == "aborted")
    return {
        "transaction_ends": found,
        "transactional_ids": _some(
            ids, F.desc("aborted"), F.desc_nulls_last("longest_ms"), F.asc("transactional_id"), F.asc("producer_id")
        ),
        "longest": _some(rows.where("took_ms is not null"), F.desc("took_ms"), F.asc("start_ms"), limit=TRANSACTIONS),
        "aborted": _some(aborted, F.desc("start_ms"), F.asc("transactional_id")),
    }


def _reasons(tables: Tables) -> list[Row]:
    rows = None
    for kind in (MALFORMED, UNKNOWN):
        if kind in tables:
            counted = tables[kind].groupBy("reason").agg(F.count("*").alias("rows")).withColumn("kind", F.lit(kind))
            rows = counted if rows is None else rows.unionByName(counted)
    return [] if rows is None else _rows(rows.orderBy(F.desc("rows"), "reason").limit(LINES))


def _odd_times(commits: DataFrame) -> Some:
    rows = commits.where("stated_ms is not null").groupBy("group")
    counted = rows.agg(F.count("*").alias("commits"), F.min("stated_ms").alias("stated_ms"))
    return _some(counted, F.desc("commits"), F.asc("group"))


def _some(rows: DataFrame, *order: Column | str, limit: int = LINES) -> Some:
    first = _rows(rows.orderBy(*order).limit(limit))
    return Some(first, len(first) if len(first) < limit else rows.count())


def _rows(rows: DataFrame) -> list[Row]:
    return [row.asDict(recursive=True) for row in rows.collect()]


def _row(rows: DataFrame) -> Row:
    return _rows(rows)[0]


def _either(choose: Any, one: int | None, other: int | None) -> int | None:
    there = [value for value in (one, other) if value is not None]
    return choose(there) if there else None
