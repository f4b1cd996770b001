"""The tables `episodes` and `verdicts`.

Spark makes small rows of members and rebalances. Then `muster.pipeline.episodes` judges them group by group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import pyarrow as pa

from muster.pipeline.episodes import thresholds as limits
from muster.pipeline.episodes.applications import Subscriptions, together
from muster.pipeline.episodes.claims import Back, Claim, Facts, Last, Skip, Stall, Step
from muster.pipeline.episodes.find import episodes as found_in
from muster.pipeline.episodes.find import within
from muster.pipeline.episodes.model import DEATHS, Episode, Rebalance, Stay, Who
from muster.pipeline.episodes.other_trouble import went_back
from muster.pipeline.episodes.share_facts import Delivery, Hold, SharePartition, Shares, ShareStep
from muster.pipeline.episodes.stream_facts import Holding, Streams, Topics
from muster.pipeline.episodes.verdict import claim_about, verdict
from muster.pipeline.frames import Column, DataFrame, F, from_arrow_type
from muster.pipeline.schema import columns, structs
from muster.pipeline.tables import by_group, keep
from muster.pipeline.tables.commit_activity import HEARD
from muster.pipeline.tables.findings import unpacked
from muster.pipeline.tables.flapping import observed
from muster.pipeline.tables.moments import MOMENT, moments
from muster.pipeline.tables.schema import SILENCE, TABLES, conform
from muster.pipeline.tables.silences import silences_in, with_silences
from muster.pipeline.tables.stall_candidates import STALL, STOP

_STAY: Final = pa.struct(
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
_STALLED: Final = pa.struct(
    columns(
        "topic string, partition int, from_ms long, until_ms long, lag long, status string, offset long, owner string"
    )
)
_STEP: Final = pa.struct(columns("start_ms long, until_ms long, commits long, records long, written long, lag long"))
_MIXED: Final = pa.struct(
    columns("start_ms long, end_ms long, members members", members=structs("client_id string, topics strings"))
)
_SKIP: Final = pa.struct(
    columns("topic string, partition int, at_ms long, from_offset long, to_offset long, client string")
)
_LAST: Final = pa.struct(
    columns("topic string, partition int, at_ms long, lag long, owner string, behind_ms long, since_ms long")
)
_BACK: Final = pa.struct(columns("cause string, from_ms long, until_ms long, commits int"))
_DELIVERY: Final = pa.struct(
    columns(
        "topic string, partition int, outcome string, deliveries int, records long, first_offset long, from_ms long, "
        "until_ms long, moments int, held_ms long, ends longs, locks_over int",
        longs=pa.list_(pa.int64()),
    )
)
_SHARED: Final = pa.struct(
    columns(
        "topic string, partition int, accepted long, archived long, lag long, first_ms long, changed_ms long, "
        "done_ms long, idle_from_ms long, idle_until_ms long"
    )
)
_SHARE_STEP: Final = pa.struct(columns("start_ms long, until_ms long, accepted long, archived long"))
_HOLD: Final = pa.struct(
    columns("topic string, partition int, member_id string, client string, from_ms long, until_ms long")
)
_HOLDING: Final = pa.struct(
    columns(
        "subtopology string, partition int, role string, member_id string, client string, process string, "
        "from_ms long, until_ms long, ended string, unowned_ms long"
    )
)
_TOPICS: Final = pa.struct(
    columns("state string, from_ms long, until_ms long, sources strings, missing strings, why string, client string")
)
_GIVEN: Final[dict[str, pa.DataType]] = {
    "stay": _STAY,
    "rebalance": _REBALANCE,
    "moments": structs(MOMENT),
    "silences": structs(SILENCE),
    "stalled": _STALLED,
    "back": _BACK,
    "step": _STEP,
    "mixed": _MIXED,
    "skip": _SKIP,
    "last": _LAST,
    "delivery": _DELIVERY,
    "shared": _SHARED,
    "share_step": _SHARE_STEP,
    "hold": _HOLD,
    "holding": _HOLDING,
    "topics": _TOPICS,
    "deleted_ms": pa.int64(),
    "score": pa.float64(),
    "first_ms": pa.int64(),
    "last_ms": pa.int64(),
    "end_ms": pa.int64(),
}
Part = tuple[int | None, int | None]
"""A part of the log, from its start (ms) to its end. Episodes have only the rebalances that ended in this part."""
WHOLE: Final[Part] = (None, None)
_RESULT: Final = pa.schema(
    [
        ("is_verdict", pa.bool_()),
        *TABLES["episodes"],
        *(field for field in TABLES["verdicts"] if field.name not in TABLES["episodes"].names),
    ]
)
"""A row of the table `episodes` or of the table `verdicts`."""


def episodes_and_verdicts(
    rebalances: DataFrame, memberships: DataFrame, generations: DataFrame, walk: DataFrame, flapping: DataFrame,
    silences: DataFrame, stalls: DataFrame | None = None, regressions: DataFrame | None = None,
    progress: DataFrame | None = None, skips: DataFrame | None = None, lag: DataFrame | None = None,
    shares: ShareTables | None = None, streams: StreamTables | None = None, *, part: Part = WHOLE,
) -> dict[str, DataFrame]:  # fmt: skip
    """Both tables, made from the tables with these names and from rows of `commits.walked`.

    Without the five tables before `shares`, the verdicts do not mention commits.
    """
    stays = keep(_stays(memberships, generations, walk))
    rows = stays.unionByName(_rebalances(rebalances))
    rows = rows.unionByName(_groups(generations, walk, flapping, moments(_lost(stays)), silences))
    rows = rows.unionByName(_mixed(generations))
    if stalls is not None:
        rows = rows.unionByName(_stalled(stalls))
    if regressions is not None:
        rows = rows.unionByName(_back(regressions))
    if progress is not None:
        rows = rows.unionByName(_row(progress, F.col("start_ms"), step=_struct(_STEP)))
    if skips is not None:
        rows = rows.unionByName(
            _row(skips, F.col("time_ms"), skip=_struct(_SKIP, at_ms=F.col("time_ms"), client=F.col("client_id")))
        )
    if lag is not None:
        since_ms = F.col("end_ms") - F.col("behind_ms")
        last = _struct(_LAST, at_ms=F.col("committed_ms"), owner=F.col("client_id"), since_ms=since_ms)
        rows = rows.unionByName(_row(lag, F.col("committed_ms"), last=last))
    if shares is not None:
        rows = rows.unionByName(_shares(shares))
    if streams is not None:
        rows = rows.unionByName(_streams(streams))
    result = keep(by_group(rows, "at_ms", partial(_judge_group, part=part), _RESULT))
    return {
        "episodes": conform(result.where(~F.col("is_verdict")), "episodes"),
        "verdicts": conform(result.where(F.col("is_verdict")), "verdicts"),
    }


# ---- rows that Python reads


def _row(rows: DataFrame, at_ms: Column, **given: Column) -> DataFrame:
    """Rows of three columns: group, at_ms, and `given` with the columns of _GIVEN."""
    known = {
        name: given.get(name, F.lit(None)).cast(from_arrow_type(kind)).alias(name) for name, kind in _GIVEN.items()
    }
    return rows.select("group", at_ms.alias("at_ms"), *known.values())


def _struct(kind: pa.DataType, **known: Column) -> Column:
    return F.struct(*(known.get(kind.field(at).name, F.col(kind.field(at).name)).alias(kind.field(at).name)
                      for at in range(kind.num_fields)))  # fmt: skip


def _stays(memberships: DataFrame, generations: DataFrame, walk: DataFrame) -> DataFrame:
    """The stays of members, with their timeouts, and the time from their last commit to their end."""
    who = ["group", "member_id"]
    last = unpacked(walk, "heard", HEARD)
    # a member may have several stays with one member id
    began_ms = F.coalesce("start_ms", F.lit(0))
    members_stays = memberships.select(*who, "first_generation", "last_generation", began_ms.alias("began_ms"))
    is_known = F.col("generation").isNotNull() & F.col("first_generation").isNotNull()
    is_over = F.coalesce(F.col("generation") > F.col("last_generation"), F.lit(False))
    is_its = ~is_known | ((F.col("generation") >= F.col("first_generation")) & ~is_over)
    heard = (
        last.join(members_stays, who).where(is_its).groupBy(*who, "began_ms").agg(F.max("heard_ms").alias("heard_ms"))
    )
    members = generations.select("group", F.explode("members").alias("one"))
    patience = members.groupBy("group", F.col("one.member_id").alias("member_id")).agg(
        F.max("one.rebalance_timeout_ms").alias("rebalance_timeout_ms"),
        F.max("one.session_timeout_ms").alias("session_timeout_ms"),
    )
    rows = memberships.withColumn("began_ms", began_ms).join(heard, [*who, "began_ms"], "left")
    rows = rows.join(patience, who, "left")
    silent = F.col("end_ms") - F.col("heard_ms")
    return _row(rows, F.col("start_ms"), stay=_struct(_STAY, silent_ms=silent))


def _rebalances(rebalances: DataFrame) -> DataFrame:
    counts = [F.coalesce(F.col(name), F.lit(0)) for name in ("kept", "moved", "gained", "lost")]
    # the cost of a death before anybody noticed it
    costs = [name for name in ("paused_partition_ms", "silent_partition_ms") if name in rebalances.columns]
    known = [F.coalesce(F.col(name), F.lit(0)) for name in costs]
    paused = sum(known[1:], known[0])
    row = _struct(
        _REBALANCE,
        trigger=F.col("trigger_member_id"),
        partitions=sum(counts[1:], counts[0]),
        cost_ms=paused,
        confidence=F.coalesce("confidence", F.lit(0.5)),
    )
    return _row(rebalances, F.col("end_ms"), rebalance=row)


def _stalled(stalls: DataFrame) -> DataFrame:
    rows = stalls.where(F.col("status").isin(STALL, STOP))
    given = {"from_ms": "start_ms", "until_ms": "end_ms", "offset": "last_offset", "owner": "client_id"}
    return _row(rows, F.col("start_ms"), stalled=_struct(_STALLED, **{name: F.col(of) for name, of in given.items()}))


def _mixed(generations: DataFrame) -> DataFrame:
    """The generations whose members do not all have the same topics."""
    topics = F.filter(F.transform("members", lambda one: F.array_sort(one.topics)), lambda one: F.size(one) > 0)
    rows = generations.where(F.size(F.array_distinct(topics)) > 1)
    members = F.transform("members", lambda one: F.struct(one.client_id.alias("client_id"), one.topics.alias("topics")))
    return _row(rows, F.col("start_ms"), mixed=_struct(_MIXED, members=members))


def _back(regressions: DataFrame) -> DataFrame:
    until_ms, commits = F.coalesce("until_ms", "time_ms"), F.coalesce("commits", F.lit(1))
    row = _struct(_BACK, from_ms=F.col("time_ms"), until_ms=until_ms, commits=commits.cast("int"))
    return _row(regressions, F.col("time_ms"), back=row)


class ShareTables(NamedTuple):
    """The tables about share groups."""

    deliveries: DataFrame
    partitions: DataFrame
    steps: DataFrame
    ownership: DataFrame
    """The table `ownership`, also of other groups."""


def share_tables_of(tables: Mapping[str, DataFrame]) -> ShareTables:
    """The tables about share groups, from all tables by their names."""
    return ShareTables(*(tables[name] for name in ("deliveries", "share_partitions", "share_progress", "ownership")))


def _shares(tables: ShareTables) -> DataFrame:
    partitions = tables.partitions
    rows = _row(tables.deliveries, F.col("from_ms"), delivery=_struct(_DELIVERY))
    rows = rows.unionByName(_row(partitions, F.col("first_ms"), shared=_struct(_SHARED)))
    rows = rows.unionByName(_row(tables.steps, F.col("start_ms"), share_step=_struct(_SHARE_STEP)))
    held = tables.ownership.join(partitions.select("group").distinct(), "group", "left_semi")
    hold = _struct(_HOLD, client=F.col("client_id"), from_ms=F.col("start_ms"), until_ms=F.col("end_ms"))
    return rows.unionByName(_row(held, F.col("start_ms"), hold=hold))


class StreamTables(NamedTuple):
    """The tables about streams groups."""

    tasks: DataFrame
    topologies: DataFrame


def stream_tables_of(tables: Mapping[str, DataFrame]) -> StreamTables:
    """The tables about streams groups, from all tables by their names."""
    return StreamTables(*(tables[name] for name in StreamTables._fields))


def _streams(tables: StreamTables) -> DataFrame:
    given = {"client": "client_id", "process": "process_id", "from_ms": "start_ms", "until_ms": "end_ms"}
    holding = _struct(_HOLDING, **{name: F.col(of) for name, of in given.items()})
    topics = _struct(_TOPICS, sources=F.col("source_topics"), client=F.col("client_id"))
    rows = _row(tables.tasks, F.col("start_ms"), holding=holding)
    return rows.unionByName(_row(tables.topologies, F.col("from_ms"), topics=topics))


def _lost(stays: DataFrame) -> DataFrame:
    """Rows of each member: group, heard_ms, start_ms and end_ms. heard_ms is the last sign of life of a lost member."""
    end_ms, silent_ms, session_ms = (
        F.coalesce(f"stay.{name}", F.lit(0)) for name in ("end_ms", "silent_ms", "session_timeout_ms")
    )
    is_dead = F.col("stay.end_cause").isin(*sorted(DEATHS))
    is_silent = silent_ms.between(F.greatest(session_ms, F.lit(1)), limits.LOST_SESSIONS * session_ms)
    dead_ms = F.when(session_ms > 0, session_ms).otherwise(silent_ms)
    heard_ms = F.when(is_dead, end_ms - dead_ms).when(is_silent, end_ms - silent_ms)  # this is the rule of Stay.lost_ms
    last_ms = F.when(F.col("stay.end_ms").isNotNull(), heard_ms)
    start_ms = F.coalesce("stay.start_ms", F.lit(0))
    return stays.select(
        "group", last_ms.alias("heard_ms"), start_ms.alias("start_ms"), F.col("stay.end_ms").alias("end_ms")
    )


def _groups(
    generations: DataFrame, walk: DataFrame, flapping: DataFrame, lost: DataFrame, silences: DataFrame
) -> DataFrame:
    """Every group with its score and silences, and the end of the log.

    Also from when to when the log has the group. `lost`: the row of `moments`.
    """
    rows = observed(generations, walk).join(flapping.select("group", "score"), "group", "left")
    rows = with_silences(rows.crossJoin(F.broadcast(lost)), silences)
    # the last generation of a group has an end only if the group was deleted, or expired
    deleted = generations.groupBy("group").agg(F.max_by("end_ms", "log_offset").alias("deleted_ms"))
    rows = rows.join(deleted, "group", "left")
    names = ("moments", "silences", "score", "first_ms", "last_ms", "end_ms", "deleted_ms")
    given = {name: F.col(name) for name in names}
    return _row(rows, F.lit(None).cast("long"), **given)


# ---- rows that Python makes


def _judge_group(group: str, rows: Iterable[dict[str, Any]], part: Part) -> Iterator[dict[str, Any]]:
    given: dict[str, list[Any]] = {kind: [] for kind in _READ}
    about: dict[str, Any] = {}
    for row in rows:
        kind = next((one for one in _READ if row[one] is not None), None)
        if kind is None:
            about = row
        else:
            given[kind].append(_READ[kind](row[kind]))
    stays, rebalances = given["stay"], given["rebalance"]
    end_ms = max([about.get("end_ms") or 0, *(one.end_ms for one in rebalances)])
    moments = [(one["from_ms"], one["until_ms"]) for one in about.get("moments") or ()]
    silences = silences_in(about)
    found = found_in(stays, rebalances, moments, silences)
    facts = Facts(
        end_ms, about.get("first_ms"), stays, rebalances, given["stalled"], given["back"], given["step"],
        score=about.get("score"), lags=given["last"],
        silences=[(one.from_ms, one.until_ms) for one in silences], fall=went_back(rebalances),
        deleted_ms=about.get("deleted_ms"), together=together(_generations(given["mixed"], end_ms), end_ms),
        skips=given["skip"],
        shares=Shares(
            sorted(given["delivery"], key=_in_order), given["shared"], given["share_step"], given["hold"]
        ),
        streams=Streams(
            sorted(given["holding"], key=_by_time), sorted(given["topics"], key=lambda one: one.from_ms)
        ),
    )  # fmt: skip
    for one in found:
        yield {"is_verdict": False, **row_of(group, within(one, rebalances, *part), facts)}
    judged = verdict(found, facts)
    yield {
        "is_verdict": True,
        "group": group,
        "level": judged.level,
        "verdict": judged.text,
        "kind": judged.kind,
        "episodes": len(found),
        "trouble_ms": judged.trouble_ms,
        "cost_ms": sum(one.cost_ms for one in rebalances),
        "rebalances": len(rebalances),
        "first_ms": about.get("first_ms"),
        "last_ms": about.get("last_ms"),
        "claims": [_claim_row(one) for one in judged.claims],
    }


def _in_order(one: Delivery) -> tuple[Any, ...]:
    return one.from_ms, one.place, one.first_offset, one.outcome, one.deliveries


def _by_time(one: Holding) -> tuple[Any, ...]:
    return one.from_ms, one.subtopology, one.partition, one.member_id, one.role


def _generations(mixed: Iterable[dict[str, Any]], end_ms: int) -> Iterator[tuple[int, int, Subscriptions]]:
    """Generations from rows of _MIXED. The last generation ends with the log."""
    for row in mixed:
        members = [(one["client_id"] or "a member", frozenset(one["topics"] or ())) for one in row["members"]]
        yield row["start_ms"], end_ms if row["end_ms"] is None else row["end_ms"], members


def _claim_row(one: Claim) -> dict[str, Any]:
    names = ("rule", "text", "who", "from_ms", "until_ms", "confidence", "is_on", "advice", "rows")
    return {name: getattr(one, name) for name in names} | {"evidence": [row._asdict() for row in one.evidence]}


def stay_of(row: dict[str, Any]) -> Stay:
    """A stay of a member from a row of _STAY, in the form that the rules read."""
    who = Who(row["member_id"], row["instance_id"], row["client_id"], row["host"])
    return Stay(
        who, row["start_ms"] or 0, row["end_ms"], row["end_cause"], row["first_generation"], row["last_generation"],
        row["silent_ms"], row["rebalance_timeout_ms"], row["session_timeout_ms"],
    )  # fmt: skip


def _made(fact: Callable[..., Any], row: dict[str, Any]) -> Any:
    return fact(**row)


_READ: Final[Mapping[str, Callable[[dict[str, Any]], Any]]] = {
    "stay": stay_of,
    "mixed": lambda row: row,
    **{
        kind: partial(_made, fact)
        for kind, fact in {
            "rebalance": Rebalance, "stalled": Stall, "back": Back, "step": Step, "skip": Skip, "last": Last,
            "delivery": Delivery, "shared": SharePartition, "share_step": ShareStep, "hold": Hold,
            "holding": Holding, "topics": Topics,
        }.items()
    },
}  # fmt: skip
"""How each kind of row of _GIVEN becomes a fact. A row of another kind is about the whole group."""


def row_of(group: str, one: Episode, facts: Facts) -> dict[str, Any]:
    """A row of the table `episodes`, made from an episode."""
    claim = claim_about(one, facts)
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
        "sentence": claim.text,
        "evidence": [row._asdict() for row in claim.evidence],
    }
