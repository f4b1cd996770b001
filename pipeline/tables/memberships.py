"""The tables `memberships` and `static_candidates`: each stay of a member, and dynamic members that returned.

A client of a KIP-848 group keeps its member id when it returns. Then one id has several stays. The what-if shows what a
`group.instance.id` (KIP-345) would have spared them. The what-if also counts the time of dead members.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import pyarrow as pa

from muster.coordinator.groups.common import events as kinds
from muster.pipeline.defaults import EPOCH_SESSION_MS, HEARTBEAT_MS, MAX_SESSION_TIMEOUT_MS
from muster.pipeline.frames import DataFrame, F, Window
from muster.pipeline.infer.departures import EXPIRED, LEFT
from muster.pipeline.schema import SOURCE_EVENTS, columns
from muster.pipeline.tables import by_group
from muster.pipeline.tables.inputs import HOLDER
from muster.pipeline.tables.schema import conform

_HOW: Final = {
    kinds.MEMBER_LEFT: "left",
    kinds.MEMBER_EXPIRED: "expired",
    kinds.MEMBER_REMOVED: "removed",
    kinds.MEMBER_REPLACED: "replaced",
}


def memberships(generations: DataFrame, inferred: DataFrame, events: DataFrame | None) -> DataFrame:
    """The stays of members. How a stay ended comes from the events, or is inferred.

    Only the events show a member that joined and left between two generations.
    """
    found = _with_ends(stays(generations), inferred).withColumn("end_ms", F.coalesce("gone_ms", "end_ms"))
    # a static member that returns in time gets a new member id without a rebalance
    of_instance = Window.partitionBy("group", "instance_id").orderBy("start_ms", "last_generation")
    took_over = F.col("instance_id").isNotNull() & (F.lead("start_ms").over(of_instance) == F.col("end_ms"))
    replaced = F.when(took_over, _HOW[kinds.MEMBER_REPLACED])
    found = found.withColumn("end_cause", F.coalesce("end_cause", replaced))
    if events is None:
        return conform(found, "memberships")
    return _with_events(found, events)


def stays(generations: DataFrame) -> DataFrame:
    """The stays of members, made from the generations that have the member. Nothing says how they ended."""
    in_order = F.row_number().over(Window.partitionBy("group").orderBy("start_ms", "generation"))
    rows = generations.select(
        *("group", "generation", "start_ms", "end_ms", "source", "members"), in_order.alias("place")
    )
    rows = rows.withColumn("one", F.explode("members")).drop("members")
    rows = rows.select("*", *(F.col(f"one.{name}").alias(name) for name in HOLDER))
    # generations in a row with the same member are one stay
    of_member = Window.partitionBy("group", "member_id").orderBy("place")
    rows = rows.withColumn("stay", F.col("place") - F.row_number().over(of_member))
    return rows.groupBy("group", "member_id", "stay").agg(
        *(F.first(name).alias(name) for name in HOLDER if name != "member_id"),
        F.min("start_ms").alias("start_ms"),
        F.max_by("end_ms", "start_ms").alias("end_ms"),
        F.min_by("generation", "start_ms").alias("first_generation"),
        F.max_by("generation", "start_ms").alias("last_generation"),
        F.count_distinct("generation").alias("generations"),
        F.first("source").alias("source"),
    )


def _with_ends(found: DataFrame, inferred: DataFrame) -> DataFrame:
    """The stays, with how each one ended. A stay ended in the first rebalance after which the member was missing.

    This rebalance began after the stay, and before the member joined again.
    """
    gone = inferred.select("group", F.col("end_ms").alias("rebalance_end_ms"), F.explode("gone").alias("one")).select(
        F.col("group").alias("its_group"),
        F.col("one.member_id").alias("its_id"),
        "rebalance_end_ms",
        "one.end_cause",
        F.col("one.end_ms").alias("gone_ms"),
    )
    of_member = Window.partitionBy("group", "member_id").orderBy("start_ms", "stay")
    times = {"again_ms": F.lead("start_ms").over(of_member), "number": F.row_number().over(of_member)}
    rows = found.withColumns(times)
    is_its = (F.col("group") == F.col("its_group")) & (F.col("member_id") == F.col("its_id"))
    is_its &= (F.col("number") == 1) | (F.col("rebalance_end_ms") > F.col("start_ms"))
    is_its &= F.col("again_ms").isNull() | (F.col("rebalance_end_ms") <= F.col("again_ms"))
    both = rows.join(gone, is_its, "left")
    soonest = Window.partitionBy("group", "member_id", "stay").orderBy("rebalance_end_ms")
    return both.withColumn("place", F.row_number().over(soonest)).where("place = 1")


def _with_events(found: DataFrame, events: DataFrame) -> DataFrame:
    of_events = _event_stays(events)
    both = found.alias("log").join(of_events.alias("events"), ["group", "member_id", "number"], "full")
    columns = {
        name: F.coalesce(f"events.{name}", f"log.{name}")
        for name in ("instance_id", "client_id", "host", "start_ms", "end_ms", "end_cause", "source")
    }
    merged = both.select(
        "group",
        "member_id",
        *(column.alias(name) for name, column in columns.items()),
        "first_generation",
        "last_generation",
        F.coalesce("generations", F.lit(0)).alias("generations"),
    )
    return conform(merged, "memberships")


def _event_stays(events: DataFrame) -> DataFrame:
    """The stays of members as the events show them."""
    rows = events.where(F.col("kind").isin(kinds.MEMBER_JOINED, *_HOW)).where(F.col("member").isNotNull())
    how = F.create_map(*(F.lit(text) for pair in _HOW.items() for text in pair))[F.col("kind")]
    came = F.col("kind").isin(kinds.MEMBER_JOINED, kinds.MEMBER_REPLACED)
    # when a static member returns, the stay of the old id ends, and a stay of the new id begins
    ends = rows.where(F.col("kind") != kinds.MEMBER_JOINED).select(
        "group",
        F.when(F.col("kind") == kinds.MEMBER_REPLACED, F.col("replaced"))
        .otherwise(F.col("member.member"))
        .alias("member_id"),
        F.col("time_ms").alias("end_ms"),
        how.alias("end_cause"),
    )
    begins = rows.where(came).select(
        "group",
        F.col("member.member").alias("member_id"),
        F.col("member.instance").alias("instance_id"),
        F.col("member.client_id").alias("client_id"),
        F.col("member.host").alias("host"),
        F.col("time_ms").alias("start_ms"),
    )
    each = begins.unionByName(ends, allowMissingColumns=True)
    # if a member joins again under its id, another stay begins
    so_far = Window.partitionBy("group", "member_id").orderBy(
        F.coalesce("start_ms", "end_ms"), F.col("start_ms").isNotNull()
    )
    each = each.withColumn("number", F.greatest(F.count("start_ms").over(so_far), F.lit(1)).cast("int"))
    return each.groupBy("group", "member_id", "number").agg(
        *(F.first(name, ignorenulls=True).alias(name) for name in ("instance_id", "client_id", "host")),
        F.min("start_ms").alias("start_ms"),
        F.max("end_ms").alias("end_ms"),
        F.max_by("end_cause", "end_ms").alias("end_cause"),
        F.lit(SOURCE_EVENTS).alias("source"),
    )


_SECOND_MS: Final = 1_000


class Stay(NamedTuple):
    """The time of a dynamic member in a group."""

    client_id: str
    host: str
    member_id: str
    start_ms: int
    end_ms: int | None
    """The end of the stay. None: it is still a member, or the end is not known."""
    end_cause: str | None
    session_timeout_ms: int | None


class Return(NamedTuple):
    """A member that left and returned under another id."""

    client_id: str
    host: str
    gone_member_id: str
    back_member_id: str
    absent_ms: int
    needed_ms: int
    """With this session timeout, in whole seconds, the group would have waited for the member if it had been static."""


def pair_returns(stays: Iterable[Stay]) -> list[Return]:
    """The returns in the order of arrival.

    If several members have the same client id and host, the one that left last returns first.
    """
    by_place: dict[tuple[str, str], list[Stay]] = {}
    for stay in stays:
        by_place.setdefault((stay.client_id, stay.host), []).append(stay)
    found = [one for place in by_place.values() for one in _of_place(place)]
    return [one for _, one in sorted(found, key=lambda pair: (pair[0], pair[1].back_member_id))]


def _of_place(stays: list[Stay]) -> list[tuple[int, Return]]:
    went = [(stay.end_ms, 0, stay) for stay in stays if stay.end_ms is not None and stay.end_cause in (LEFT, EXPIRED)]
    came = [(stay.start_ms, 1, stay) for stay in stays]
    away: list[Stay] = []
    found: list[tuple[int, Return]] = []
    for at_ms, is_arrival, stay in sorted(went + came, key=lambda one: (one[0], one[1], one[2].member_id)):
        if not is_arrival:
            away.append(stay)
        elif away:
            one = _return(away[-1], stay, at_ms)
            if one.needed_ms <= MAX_SESSION_TIMEOUT_MS:  # a longer session timeout is not allowed
                away.pop()
                found.append((at_ms, one))
            else:
                # all other members left still earlier
                away.clear()
    return found


def _return(gone: Stay, back: Stay, at_ms: int) -> Return:
    assert gone.end_ms is not None
    absent_ms = at_ms - gone.end_ms
    # the last sign of life may have been this long before the end of the stay
    unheard_ms = gone.session_timeout_ms or 0 if gone.end_cause == EXPIRED else HEARTBEAT_MS
    needed_ms = -(-(absent_ms + unheard_ms) // _SECOND_MS) * _SECOND_MS
    return Return(gone.client_id, gone.host, gone.member_id, back.member_id, absent_ms, needed_ms)


_RETURNS: Final = pa.schema(
    columns(
        "group string, client_id string, host string, gone_member_id string, back_member_id string, absent_ms long, "
        "needed_ms long"
    )
)


def static_candidates(memberships: DataFrame, generations: DataFrame) -> DataFrame:
    """Rows of the table `static_candidates`, made from two other tables."""
    found = by_group(_stays(memberships, generations), "start_ms", _returns_of, _RETURNS)
    place = ["group", "client_id", "host"]
    totals = found.groupBy(*place).agg(
        F.count("*").alias("returns"),
        F.percentile("absent_ms", 0.5).cast("bigint").alias("median_absent_ms"),
        F.max("absent_ms").alias("max_absent_ms"),
        F.max("needed_ms").alias("session_timeout_ms_needed"),
    )
    return conform(totals, "static_candidates")


def _stays(memberships: DataFrame, generations: DataFrame) -> DataFrame:
    """The stays of dynamic members with a client id and host that have several stays. Each has its session timeout."""
    at_place = Window.partitionBy("group", "client_id", "host")
    rows = memberships.where(F.col("instance_id").isNull() & F.col("client_id").isNotNull() & F.col("host").isNotNull())
    rows = rows.withColumn("stays", F.count("*").over(at_place)).where("stays > 1")
    members = generations.select("group", F.explode("members").alias("member"))
    # in KIP-848 groups the session timeout is a setting of the broker, and not in the log
    known_ms = F.coalesce("member.session_timeout_ms", F.lit(EPOCH_SESSION_MS))
    timeouts = members.groupBy("group", "member.member_id").agg(F.max(known_ms).alias("session_timeout_ms"))
    return rows.join(timeouts, ["group", "member_id"], "left").select("group", *Stay._fields)


def _returns_of(group: str, stays: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    found = pair_returns(Stay(**{name: row[name] for name in Stay._fields}) for row in stays)
    return ({"group": group, **one._asdict()} for one in found)
