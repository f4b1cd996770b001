"""The tables `episodes` and `verdicts`: small rows of members and rebalances by Spark, which `muster.pipeline.episodes`
goes through group by group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it
from pyspark.sql.pandas.types import from_arrow_type

from muster.pipeline.episodes import thresholds as limits
from muster.pipeline.episodes.find import episodes as found_in
from muster.pipeline.episodes.model import DEATHS, Episode, Rebalance, Spell, Who
from muster.pipeline.episodes.offsets import Back, Standing
from muster.pipeline.episodes.verdict import describe, verdict
from muster.pipeline.facts.flapping import observed
from muster.pipeline.facts.schema import TABLES, conform
from muster.pipeline.facts.stall_looks import STALL, STOP
from muster.pipeline.persist import keep
from muster.pipeline.schema import columns
from muster.pipeline.tables import by_group

_SPELL: Final = pa.struct(
    columns(
        "member_id string, instance_id string, client_id string, host string, start_ms long, end_ms long, "
        "end_cause string, first_generation int, last_generation int, silent_ms long, rebalance_timeout_ms int, "
        "session_timeout_ms int"
    )
)
_REBALANCE: Final = pa.struct(
    columns(
        "generation int, before_generation int, start_ms long, end_ms long, cause string, trigger string, "
        "reason string, members_before int, members_after int, partitions int, cost_ms long, confidence double"
    )
)
_STANDING: Final = pa.struct(columns("topic string, partition int, from_ms long, until_ms long, lag long"))
_BACK: Final = pa.struct(columns("cause string, from_ms long, until_ms long, commits int"))
_MOMENT: Final = pa.struct(columns("from_ms long, until_ms long"))
_GIVEN: Final[dict[str, Any]] = {
    "spell": from_arrow_type(_SPELL),
    "rebalance": from_arrow_type(_REBALANCE),
    "moments": from_arrow_type(pa.list_(_MOMENT)),
    "standing": from_arrow_type(_STANDING),
    "back": from_arrow_type(_BACK),
    "score": "double",
    "first_ms": "long",
    "last_ms": "long",
    "end_ms": "long",
}
_RESULT: Final = pa.schema(
    [
        ("is_verdict", pa.bool_()),
        *TABLES["episodes"],
        *(field for field in TABLES["verdicts"] if field.name not in TABLES["episodes"].names),
    ]
)
"""A row of either table."""


def episodes_and_verdicts(
    rebalances: DataFrame, memberships: DataFrame, generations: DataFrame, commits: DataFrame, flapping: DataFrame,
    stalls: DataFrame | None = None, regressions: DataFrame | None = None,
) -> dict[str, DataFrame]:  # fmt: skip
    """Both tables, out of the tables of these names. Without the last two the verdicts do not tell of commits."""
    spells = keep(_spells(memberships, generations, commits))
    rows = spells.unionByName(_rebalances(rebalances))
    moments = _together(_moments(spells).unionByName(silences(commits)))
    rows = rows.unionByName(_groups(generations, commits, flapping, moments))
    if stalls is not None:
        rows = rows.unionByName(_standing(stalls))
    if regressions is not None:
        rows = rows.unionByName(_back(regressions))
    result = keep(by_group(rows, "at_ms", _tell, _RESULT))
    return {
        "episodes": conform(result.where(~F.col("is_verdict")), "episodes"),
        "verdicts": conform(result.where(F.col("is_verdict")), "verdicts"),
    }


# ---- rows for Python


def _row(rows: DataFrame, at_ms: Column, **given: Column) -> DataFrame:
    """group, at_ms, and what is `given` of _GIVEN."""
    known = {name: given.get(name, F.lit(None)).cast(kind).alias(name) for name, kind in _GIVEN.items()}
    return rows.select("group", at_ms.alias("at_ms"), *known.values())


def _struct(kind: pa.DataType, **known: Column) -> Column:
    return F.struct(*(known.get(kind.field(at).name, F.col(kind.field(at).name)).alias(kind.field(at).name)
                      for at in range(kind.num_fields)))  # fmt: skip


def _spells(memberships: DataFrame, generations: DataFrame, commits: DataFrame) -> DataFrame:
    """Members, with how long they had not committed when they left, and how patient their group was with them."""
    who = ["group", "member_id"]
    by_member = commits.where(F.col("member_id").isNotNull() & ~F.col("is_deleted")).groupBy(*who, "generation")
    last = by_member.agg(F.max("time_ms").alias("heard_ms"))
    # a member may have several stays under one id
    began_ms = F.coalesce("start_ms", F.lit(0))
    stays = memberships.select(*who, "first_generation", "last_generation", began_ms.alias("began_ms"))
    is_known = F.col("generation").isNotNull() & F.col("first_generation").isNotNull()
    is_over = F.coalesce(F.col("generation") > F.col("last_generation"), F.lit(False))
    is_its = ~is_known | ((F.col("generation") >= F.col("first_generation")) & ~is_over)
    heard = last.join(stays, who).where(is_its).groupBy(*who, "began_ms").agg(F.max("heard_ms").alias("heard_ms"))
    members = generations.select("group", F.explode("members").alias("one"))
    patience = members.groupBy("group", F.col("one.member_id").alias("member_id")).agg(
        F.max("one.rebalance_timeout_ms").alias("rebalance_timeout_ms"),
        F.max("one.session_timeout_ms").alias("session_timeout_ms"),
    )
    rows = memberships.withColumn("began_ms", began_ms).join(heard, [*who, "began_ms"], "left")
    rows = rows.join(patience, who, "left")
    silent = F.col("end_ms") - F.col("heard_ms")
    return _row(rows, F.col("start_ms"), spell=_struct(_SPELL, silent_ms=silent))


def _rebalances(rebalances: DataFrame) -> DataFrame:
    counts = [F.coalesce(F.col(name), F.lit(0)) for name in ("kept", "moved", "gained")]
    # what a death cost before anybody knew of it
    costs = [name for name in ("paused_partition_ms", "silent_partition_ms") if name in rebalances.columns]
    known = [F.coalesce(F.col(name), F.lit(0)) for name in costs]
    paused = sum(known[1:], known[0])
    told = _struct(
        _REBALANCE,
        trigger=F.col("trigger_member_id"),
        partitions=sum(counts[1:], counts[0]),
        cost_ms=paused,
        confidence=F.coalesce("confidence", F.lit(0.5)),
    )
    return _row(rebalances, F.col("end_ms"), rebalance=told)


def _standing(stalls: DataFrame) -> DataFrame:
    rows = stalls.where(F.col("status").isin(STALL, STOP))
    return _row(
        rows, F.col("start_ms"), standing=_struct(_STANDING, from_ms=F.col("start_ms"), until_ms=F.col("end_ms"))
    )


def _back(regressions: DataFrame) -> DataFrame:
    until_ms, commits = F.coalesce("until_ms", "time_ms"), F.coalesce("commits", F.lit(1))
    told = _struct(_BACK, from_ms=F.col("time_ms"), until_ms=until_ms, commits=commits.cast("int"))
    return _row(regressions, F.col("time_ms"), back=told)


def _moments(spells: DataFrame) -> DataFrame:
    """From when to when members of so many groups were last heard of that it is no chance: from_ms, until_ms."""
    end_ms, silent_ms, session_ms = (
        F.coalesce(f"spell.{name}", F.lit(0)) for name in ("end_ms", "silent_ms", "session_timeout_ms")
    )
    is_dead = F.col("spell.end_cause").isin(*sorted(DEATHS))
    is_silent = silent_ms.between(F.greatest(session_ms, F.lit(1)), limits.LOST_SESSIONS * session_ms)
    dead_ms = F.when(session_ms > 0, session_ms).otherwise(silent_ms)
    heard_ms = F.when(is_dead, end_ms - dead_ms).when(is_silent, end_ms - silent_ms)  # as Spell.lost_ms
    lost = spells.where(F.col("spell.end_ms").isNotNull()).select("group", heard_ms.alias("heard_ms"))
    at = F.floor(F.col("heard_ms") / limits.MOMENT_MS)
    lost = lost.where(F.col("heard_ms").isNotNull()).select("group", at.alias("at")).distinct()
    near = lost.select("group", F.explode(F.array(*(F.col("at") + shift for shift in (-1, 0, 1)))).alias("at"))
    counted = near.groupBy("at").agg(F.count_distinct("group").alias("hit"))
    groups = spells.agg(F.count_distinct("group").alias("groups"))
    common = counted.crossJoin(F.broadcast(groups)).where(
        F.col("hit") >= F.greatest(F.lit(limits.AT_ONCE), limits.AT_ONCE_SHARE * F.col("groups"))
    )
    return common.select(
        ((F.col("at") - 1) * limits.MOMENT_MS).cast("long").alias("from_ms"),
        ((F.col("at") + 2) * limits.MOMENT_MS).cast("long").alias("until_ms"),
    )


def silences(commits: DataFrame) -> DataFrame:
    """When nobody could commit, though several groups did all the time before, and did again: from_ms, until_ms."""
    at = F.floor(F.col("time_ms") / _STEP_MS).cast("long")
    steps = commits.where(~F.col("is_deleted")).select("group", at.alias("at")).distinct()
    period = F.floor(F.col("at") / _STEPS)
    active = steps.groupBy(period.alias("period")).agg(F.count_distinct("group").alias("groups"))
    in_order = Window.orderBy("at")
    rows = (
        steps.select("at")
        .distinct()
        .select("at", F.lag("at").over(in_order).alias("last"), F.lag("at", _DENSE).over(in_order).alias("first"))
    )
    rows = rows.where(F.col("at") - F.col("last") - 1 >= limits.SILENCE_MS / _STEP_MS)
    rows = rows.where(F.col("last") - F.col("first") <= _STEPS * _DENSE_PERIODS)
    last_period, period = (F.floor(F.col(name) / _STEPS) for name in ("last", "at"))
    # a period and its neighbour on the same side
    sides = {"before": F.array(last_period - 1, last_period), "after": F.array(period, period + 1)}
    either = F.array(*(F.struct(F.lit(name).alias("side"), some.alias("periods")) for name, some in sides.items()))
    rows = rows.select("last", "at", F.explode(either).alias("one"))
    rows = rows.select("last", "at", "one.side", F.explode("one.periods").alias("period")).join(active, "period")
    most = {name: F.max(F.when(F.col("side") == name, F.col("groups"))).alias(name) for name in sides}
    rows = rows.groupBy("last", "at").agg(*most.values())
    return rows.where((F.col("before") >= limits.AT_ONCE) & (F.col("after") >= limits.AT_ONCE)).select(
        ((F.col("last") + 1) * _STEP_MS - limits.MOMENT_MS).cast("long").alias("from_ms"),
        (F.col("at") * _STEP_MS).cast("long").alias("until_ms"),
    )


_STEP_MS: Final = 2_000
_STEPS: Final = 10
"""So many steps are a period."""
_DENSE: Final = 25
_DENSE_PERIODS: Final = 3
"""So many of the steps of the last periods before have a commit: then one without is no chance."""


def _together(moments: DataFrame) -> DataFrame:
    """One row: `moments`."""
    return moments.agg(F.sort_array(F.collect_list(F.struct("from_ms", "until_ms"))).alias("moments"))


def _groups(generations: DataFrame, commits: DataFrame, flapping: DataFrame, moments: DataFrame) -> DataFrame:
    """Every group, with its score, from when to when the log tells of it, and until when the log goes."""
    rows = observed(generations, commits).join(flapping.select("group", "score"), "group", "left")
    rows = rows.crossJoin(F.broadcast(moments))
    told = {name: F.col(name) for name in ("moments", "score", "first_ms", "last_ms", "end_ms")}
    return _row(rows, F.lit(None).cast("long"), **told)


# ---- Python's part


def _tell(group: str, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    spells: list[Spell] = []
    rebalances: list[Rebalance] = []
    standing: list[Standing] = []
    back: list[Back] = []
    about: dict[str, Any] = {}
    for row in rows:
        if row["spell"] is not None:
            spells.append(spell_of(row["spell"]))
        elif row["rebalance"] is not None:
            rebalances.append(Rebalance(**row["rebalance"]))
        elif row["standing"] is not None:
            standing.append(Standing(**row["standing"]))
        elif row["back"] is not None:
            back.append(Back(**row["back"]))
        else:
            about = row
    end_ms = max([about.get("end_ms") or 0, *(one.end_ms for one in rebalances)])
    moments = [(one["from_ms"], one["until_ms"]) for one in about.get("moments") or ()]
    found = found_in(spells, rebalances, moments)
    for one in found:
        yield {"is_verdict": False, **row_of(group, one, end_ms)}
    told = verdict(found, end_ms, about.get("score"), standing, back)
    yield {
        "is_verdict": True,
        "group": group,
        "level": told.level,
        "verdict": told.text,
        "kind": told.kind,
        "episodes": len(found),
        "trouble_ms": told.trouble_ms,
        "cost_ms": sum(one.cost_ms for one in rebalances),
        "rebalances": len(rebalances),
        "first_ms": about.get("first_ms"),
        "last_ms": about.get("last_ms"),
    }


def spell_of(row: dict[str, Any]) -> Spell:
    """A row of _SPELL as the rules take it."""
    who = Who(row["member_id"], row["instance_id"], row["client_id"], row["host"])
    return Spell(
        who, row["start_ms"] or 0, row["end_ms"], row["end_cause"], row["first_generation"], row["last_generation"],
        row["silent_ms"], row["rebalance_timeout_ms"], row["session_timeout_ms"],
    )  # fmt: skip


def row_of(group: str, one: Episode, end_ms: int) -> dict[str, Any]:
    """A row of the table `episodes`."""
    return {
        "group": group,
        "kind": one.kind,
        "from_ms": one.from_ms,
        "until_ms": one.until_ms,
        "members": list(one.members),
        "rebalances": one.rebalances,
        "cost_ms": one.cost_ms,
        "confidence": one.confidence,
        "member_count": one.size,
        "partitions": one.partitions,
        "is_static": one.static,
        "has_died": one.died,
        "back_ms": one.back_ms,
        "told": describe(one, end_ms),
    }
