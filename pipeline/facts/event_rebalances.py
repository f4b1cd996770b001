"""Rebalances from `__group_events`: exact."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

from muster.coordinator.groups.common import events as kinds
from muster.pipeline.facts.epoch_events import TOLD
from muster.pipeline.facts.schema import EVENTS_LOG
from muster.pipeline.tables import by_group

_ENDS: Final = (kinds.REBALANCE_COMPLETED, kinds.GROUP_EMPTIED, kinds.GROUP_DELETED)
_TRIGGER: Final = {"member_id": "member", "instance_id": "instance", "client_id": "client_id", "host": "host"}
_MEMBERS: Final = (kinds.MEMBER_JOINED, kinds.MEMBER_LEFT, kinds.MEMBER_EXPIRED)
"""Events of members that came, went, and died."""
_FIELDS: Final = (
    *("kind", "time_ms", "generation", "cause", "trigger", "join_phase_ms", "sync_phase_ms", "took_ms", "moves"),
    *("leader", "protocol", "before", "member"),
)

_Row = dict[str, Any]
_Event = Mapping[str, Any]


def told(events: DataFrame) -> DataFrame:
    """Each rebalance that ended: rows of TOLD. Counts of partitions are null for one that left no members."""
    wanted = (kinds.REBALANCE_STARTED, kinds.REBALANCE_FAILED, *_ENDS, *_MEMBERS)
    rows = events.where(F.col("kind").isin(*wanted)).select(
        "group", F.struct("log_partition", "log_offset").alias("place"), *_FIELDS, _held().alias("held")
    )
    return by_group(rows, "place", rows_of_group, TOLD)


def _held() -> Column:
    """What each member has since a completed rebalance; null if the event does not have it."""

    def had(one: Column) -> Column:
        partitions = F.aggregate(one.assignment, F.lit(0), lambda total, share: total + F.size(share.partitions))
        return F.struct(one.member.alias("member"), one.instance.alias("instance"), partitions.alias("partitions"))

    return F.transform("members", had)


class _Round:
    """What happened since the last rebalance ended."""

    def __init__(self) -> None:
        self.first: _Event | None = None
        """The first rebalance that was started, and the last one."""
        self.last: _Event | None = None
        self.failed = 0
        self.named: dict[str, list[Any]] = {kind: [] for kind in _MEMBERS}


def rows_of_group(group: str, events: Iterable[_Event]) -> Iterator[_Row]:
    """Rows of TOLD of one group, from its events in their order (each with `held`)."""
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
                yield {"group": group, **_ended(one, now, before)}
                before = one
            now = _Round()


def _ended(end: _Event, now: _Round, before: _Event | None) -> _Row:
    """A rebalance; `before`: the end of the one before."""
    last = now.last or {"cause": None, "trigger": None}
    trigger = (end["trigger"] if end["trigger"] is not None else last["trigger"]) or {}
    took_ms, is_emptied = end["took_ms"], end["held"] is None
    start_ms = None if took_ms is None else end["time_ms"] - took_ms
    after = _ids(end)
    # the members before an empty group are those of the generation before
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
        "source": EVENTS_LOG,
        "confidence": 1.0,
        "leader": end["leader"],
        "is_cooperative": "cooperative" in (end["protocol"] or ""),
    }


def _ids(end: _Event) -> list[str | None]:
    return [one["member"] for one in end["held"] or ()]


def _named(now: _Round, before: _Event | None, start_ms: int | None) -> _Row:
    """Who came, who went, and who died."""
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
    """One who died, with how many partitions it had: its own event does not tell it."""
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
    """How long what a dead member had was not read before the rebalance began, summed over the partitions."""
    if until_ms is None or one["last_ms"] is None:
        return 0
    return int(one["partitions"] * max(until_ms - one["last_ms"], 0))


def _moved(end: _Event, before: _Event | None) -> _Row:
    """What became of the partitions. Where nobody is left, all that the members before had are lost."""
    if end["moves"] is not None:
        return {name: sum(one[name] for one in end["moves"]) for name in ("kept", "moved", "gained", "lost")}
    held = None if before is None or end["held"] is not None else before["held"]
    if held is None or any(one["partitions"] is None for one in held):
        return dict.fromkeys(("kept", "moved", "gained", "lost"))
    return {"kept": 0, "moved": 0, "gained": 0, "lost": sum(one["partitions"] for one in held)}
