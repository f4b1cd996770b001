"""Rebalances of classic groups and epochs of KIP-848 groups, exactly as `__group_events` has them.

If the offsets log has an epoch too, the offsets log knows better which member owned which partition, and when. If the
offsets log is compacted, only these rows are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from muster.coordinator.groups.common import events as kinds
from muster.pipeline.frames import Column, DataFrame, F
from muster.pipeline.schema import SOURCE_EVENTS, columns
from muster.pipeline.tables import by_group
from muster.pipeline.tables.schema import TABLES

CAME: Final = (kinds.MEMBER_JOINED,)
WENT: Final = (kinds.MEMBER_LEFT, kinds.MEMBER_EXPIRED, kinds.MEMBER_REMOVED)
KINDS: Final = (
    kinds.EPOCH_BUMPED, kinds.TARGET_ASSIGNED, kinds.EPOCH_RECONCILED, kinds.REBALANCE_STARTED,
    kinds.REBALANCE_COMPLETED, *CAME, *WENT,
)  # fmt: skip
"""The kinds of events that show epochs."""
NEAR_MS: Final = 60_000
"""An epoch of the offsets log and one of the events are the same if both begin within this time."""
_TRIGGER_FIELDS: Final = ("member", "instance", "client_id", "host")
_NAMES: Final = ("member_id", "instance_id", "client_id", "host")
_NOT_IN_EVENTS: Final = ("paused_partition_ms", "took_least_ms", "took_most_ms")
EVENT_REBALANCE: Final = pa.schema(
    [
        *(field for field in TABLES["rebalances"] if field.name not in _NOT_IN_EVENTS),
        *columns("leader string, is_cooperative boolean"),
    ]
)
"""A rebalance: columns of the table `rebalances`, and other columns that the function `rebalances` needs."""


def epoch_rows(events: DataFrame) -> DataFrame:
    """Rows of EVENT_REBALANCE, one for each new epoch."""
    rows = events.where(F.col("kind").isin(*KINDS) & F.col("group").isNotNull())
    groups = rows.where(F.col("kind") == kinds.EPOCH_BUMPED).select("group").distinct()
    fields = ("kind", "time_ms", "epoch", "cause", "trigger", "member_count", "moved", "gained", "lost")
    rows = rows.join(groups, "group", "left_semi").select("group", "log_offset", *fields)
    return by_group(rows, "log_offset", epoch_rows_of_group, EVENT_REBALANCE)


def epoch_rows_of_group(group: str, events: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Rows of EVENT_REBALANCE of one group, one for each new epoch, from the group's events in their order."""
    epoch: dict[str, Any] | None = None
    came = went = last_ms = 0
    before: int | None = None
    for one in events:
        kind, last_ms = one["kind"], one["time_ms"]
        if kind in CAME:
            came += 1
        elif kind in WENT:
            went += 1
        elif kind == kinds.EPOCH_BUMPED:
            if epoch is not None:
                yield _epoch_ended(epoch, last_ms)
            if before is None:
                before = max(one["member_count"] - came + went, 0)
            epoch = _epoch_begun(group, one, before, came, went)
            before, came, went = one["member_count"], 0, 0
        elif kind in (kinds.REBALANCE_STARTED, kinds.REBALANCE_COMPLETED):
            # the group has become a classic one
            if epoch is not None:
                yield _epoch_ended(epoch, last_ms)
            epoch, before, came, went = None, None, 0, 0
        elif epoch is not None and kind == kinds.TARGET_ASSIGNED and one["epoch"] == epoch["generation"]:
            epoch |= {name: one[name] or 0 for name in ("moved", "gained", "lost")}
        elif epoch is not None and kind == kinds.EPOCH_RECONCILED:
            yield _epoch_ended(epoch, last_ms)
            epoch = None
    if epoch is not None:
        yield _epoch_ended(epoch, last_ms)


def _epoch_begun(group: str, one: Mapping[str, Any], before: int, came: int, went: int) -> dict[str, Any]:
    trigger = one["trigger"] or {}
    who = {f"trigger_{name}": trigger.get(field) for name, field in zip(_NAMES, _TRIGGER_FIELDS, strict=True)}
    return {
        "group": group,
        "generation": one["epoch"],
        "before_generation": one["epoch"] - 1,
        **dict.fromkeys(("start_ms", "start_earliest_ms", "start_latest_ms"), one["time_ms"]),
        "cause": one["cause"],
        **who,
        "reason": trigger.get("reason"),
        "members_before": before,
        "members_after": one["member_count"],
        "members_joined": came,
        "members_left": went,
        "moved": 0,
        "gained": 0,
        "lost": 0,
        "failed_attempts": 0,
        "source": SOURCE_EVENTS,
        "confidence": 1.0,
    }


def _epoch_ended(epoch: dict[str, Any], ms: int) -> dict[str, Any]:
    end_ms = epoch["start_ms"] if not epoch["members_after"] else ms
    return {**epoch, "end_ms": end_ms, "took_ms": end_ms - epoch["start_ms"]}


_EXACT: Final = ("cause", *(f"trigger_{name}" for name in _NAMES), "reason", "source", "confidence")
"""The columns in which the events are more exact than the log."""


def with_epoch_events(concluded: DataFrame, exact: DataFrame) -> DataFrame:
    """Rebalances inferred from the log, joined with rows of EVENT_REBALANCE.

    If both have an epoch, it is one row. If only the events have an epoch, it is one row too.
    """
    said = exact.select(
        "group",
        "generation",
        F.col("start_ms").alias("event_start_ms"),
        *(F.col(name).alias(f"reported_{name}") for name in _EXACT),
    )
    same = (
        concluded["group"].eqNullSafe(said["group"])
        & (concluded["generation"] == said["generation"])
        & concluded["is_cooperative"].isNull()
        & (F.abs(concluded["start_ms"] - said["event_start_ms"]) <= NEAR_MS)
    )
    both = concluded.join(said, same, "left")
    has_event = F.col("event_start_ms").isNotNull()
    columns_of = [
        F.when(has_event, F.col(f"reported_{name}")).otherwise(concluded[name]).alias(name)
        if name in _EXACT
        else concluded[name]
        for name in concluded.columns
    ]
    known = both.select(*columns_of)
    logged = concluded.where("is_cooperative is null").select(
        F.col("group").alias("its_group"),
        F.col("generation").alias("its_generation"),
        F.col("start_ms").alias("its_ms"),
    )
    is_logged = (
        (exact["group"] == logged["its_group"])
        & (exact["generation"] == logged["its_generation"])
        & (F.abs(exact["start_ms"] - logged["its_ms"]) <= NEAR_MS)
    )
    return known.unionByName(exact.join(logged, is_logged, "left_anti"), allowMissingColumns=True)


_ENDS: Final = (kinds.REBALANCE_COMPLETED, kinds.GROUP_EMPTIED, kinds.GROUP_DELETED)
_TRIGGER: Final = {"member_id": "member", "instance_id": "instance", "client_id": "client_id", "host": "host"}
_MEMBERS: Final = (kinds.MEMBER_JOINED, kinds.MEMBER_LEFT, kinds.MEMBER_EXPIRED)
"""The events of members that joined, left, or died."""
_FIELDS: Final = (
    *("kind", "time_ms", "generation", "cause", "trigger", "join_phase_ms", "sync_phase_ms", "took_ms", "moves"),
    *("leader", "protocol", "before", "member"),
)

_Row = dict[str, Any]
_Event = Mapping[str, Any]


def rebalance_rows(events: DataFrame) -> DataFrame:
    """Each rebalance that ended: rows of EVENT_REBALANCE.

    After a rebalance without remaining members, the counts of partitions are null.
    """
    wanted = (kinds.REBALANCE_STARTED, kinds.REBALANCE_FAILED, *_ENDS, *_MEMBERS)
    rows = events.where(F.col("kind").isin(*wanted)).select(
        "group", F.struct("log_partition", "log_offset").alias("place"), *_FIELDS, _held().alias("held")
    )
    return by_group(rows, "place", rebalance_rows_of_group, EVENT_REBALANCE)


def _held() -> Column:
    """The members after a completed rebalance, each with the number of its partitions.

    The result is null if the event does not have members.
    """

    def had(one: Column) -> Column:
        partitions = F.aggregate(one.assignment, F.lit(0), lambda total, share: total + F.size(share.partitions))
        return F.struct(one.member.alias("member"), one.instance.alias("instance"), partitions.alias("partitions"))

    return F.transform("members", had)


class _Round:
    """The events since the last rebalance ended."""

    def __init__(self) -> None:
        self.first: _Event | None = None
        """The event of the first rebalance that started in this time; `last` is the event of the last one."""
        self.last: _Event | None = None
        self.failed = 0
        self.named: dict[str, list[Any]] = {kind: [] for kind in _MEMBERS}


def rebalance_rows_of_group(group: str, events: Iterable[_Event]) -> Iterator[_Row]:
    """Rows of EVENT_REBALANCE of one group, one for each rebalance that ended.

    `events`: the group's events in their order, each with `held`.
    """
    before: _Event | None = None
    now = _Round()
    for one in events:
        kind = one["kind"]
        if kind == kinds.REBALANCE_STARTED:
            now.first, now.last = now.first or one, one
        elif kind == kinds.REBALANCE_FAILED:
            now.failed += 1
        elif kind in _MEMBERS:
            now.named[kind].append(one)
        else:
            if kind != kinds.GROUP_DELETED:
                yield {"group": group, **_rebalance_ended(one, now, before)}
                before = one
            now = _Round()


def _rebalance_ended(end: _Event, now: _Round, before: _Event | None) -> _Row:
    """A rebalance, from the event of its end. `before`: the event of the end of the rebalance before."""
    last = now.last or {"cause": None, "trigger": None}
    trigger = (end["trigger"] if end["trigger"] is not None else last["trigger"]) or {}
    took_ms, is_emptied = end["took_ms"], end["held"] is None
    start_ms = None if took_ms is None else end["time_ms"] - took_ms
    after = _ids(end)
    # before an empty group, the members were those of the generation before
    had = end["before"] if not is_emptied else None if before is None else _ids(before)
    return {
        "generation": end["generation"],
        "before_generation": None if now.first is None else now.first["generation"],
        **dict.fromkeys(("start_ms", "start_earliest_ms", "start_latest_ms"), start_ms),
        **_named(now, before, start_ms),
        "end_ms": end["time_ms"],
        "cause": end["cause"] if end["cause"] is not None else last["cause"],
        **{f"trigger_{name}": trigger.get(field) for name, field in _TRIGGER.items()},
        "reason": trigger.get("reason"),
        "join_phase_ms": took_ms if end["join_phase_ms"] is None and is_emptied else end["join_phase_ms"],
        "sync_phase_ms": 0 if end["sync_phase_ms"] is None and is_emptied else end["sync_phase_ms"],
        "took_ms": took_ms,
        "members_before": None if had is None else len(had),
        "members_after": len(after),
        "members_joined": None if had is None else len(set(after) - set(had)),
        "members_left": None if had is None else len(set(had) - set(after)),
        **_moved(end, before),
        "failed_attempts": now.failed,
        "source": SOURCE_EVENTS,
        "confidence": 1.0,
        "leader": end["leader"],
        "is_cooperative": "cooperative" in (end["protocol"] or ""),
    }


def _ids(end: _Event) -> list[str | None]:
    return [one["member"] for one in end["held"] or ()]


def _named(now: _Round, before: _Event | None, start_ms: int | None) -> _Row:
    """The columns about the members that joined, left, and died."""
    came, went = (
        [
            one["member"]["client_id"]
            for one in now.named[kind]
            if one["member"] and one["member"]["client_id"] is not None
        ]
        for kind in (kinds.MEMBER_JOINED, kinds.MEMBER_LEFT)
    )
    died = [_dead(one, () if before is None else before["held"] or ()) for one in now.named[kinds.MEMBER_EXPIRED]]
    known_ms = [one["last_ms"] for one in died if one["last_ms"] is not None]
    return {
        "came": came,
        "went": went,
        "died": died,
        "silent_from_ms": min(known_ms, default=None),
        "silent_partition_ms": sum(_silent_ms(one, start_ms) for one in died),
    }


def _dead(one: _Event, held: Sequence[_Event]) -> _Row:
    """A dead member with the number of its partitions. The event of its death does not have this number."""
    member = one["member"] or {}
    who = {name: member.get(field) for name, field in _TRIGGER.items()}
    its = (
        other["partitions"]
        for other in held
        if (other["member"] is not None and other["member"] == who["member_id"])
        or (other["instance"] is not None and other["instance"] == who["instance_id"])
    )
    return {**who, "last_ms": member.get("heard"), "end_ms": one["time_ms"], "partitions": next(its, 0) or 0}


def _silent_ms(one: _Row, until_ms: int | None) -> int:
    """How long the partitions of a dead member were unread before the rebalance began, summed over the partitions."""
    if until_ms is None or one["last_ms"] is None:
        return 0
    return int(one["partitions"] * max(until_ms - one["last_ms"], 0))


def _moved(end: _Event, before: _Event | None) -> _Row:
    """What happened to the partitions. If no member remains, all partitions of the members before are lost."""
    if end["moves"] is not None:
        return {name: sum(one[name] for one in end["moves"]) for name in ("kept", "moved", "gained", "lost")}
    held = None if before is None or end["held"] is not None else before["held"]
    if held is None or any(one["partitions"] is None for one in held):
        return dict.fromkeys(("kept", "moved", "gained", "lost"))
    return {"kept": 0, "moved": 0, "gained": 0, "lost": sum(one["partitions"] for one in held)}
