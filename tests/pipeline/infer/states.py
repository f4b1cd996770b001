"""Hand-made states of a group, in the form of the inference. Times are seconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from muster.pipeline.infer.evidence import Activity, Member, State
from muster.pipeline.infer.history import Rebalance, rebalances

SESSION_S = 10


def member(name: str, assigned: int = 1, **other: Any) -> Member:
    """A member with the client id `name` and, by default, the member id `name`-1."""
    return Member(f"{name}-1", None, name, f"/{name}", SESSION_S * 1000, 300_000, 7, 0, assigned, 1)._replace(**other)


def every(beat_s: float, from_s: float, to_s: float) -> Activity:
    """Commits at a regular interval, from the first to the last."""
    beat_ms = round(beat_s * 1000)
    count = int((to_s - from_s) / beat_s) + 1
    last_ms = round(from_s * 1000) + (count - 1) * beat_ms
    gap = beat_ms if count > 1 else None
    return Activity(count, round(from_s * 1000), last_ms, gap, gap, gap)


def parting(activity: Activity, at_s: float) -> Activity:
    """One more commit, off the beat."""
    at_ms = round(at_s * 1000)
    return activity._replace(commits=activity.commits + 1, last_ms=at_ms, last_gap_ms=at_ms - activity.last_ms)


def state(
    at_s: float,
    generation: int,
    members: Sequence[Member] = (),
    activity: dict[str, Activity] | None = None,
    **other: Any,
) -> State:
    """A state whose topic `t` has as many partitions as are assigned; `activity` by client id."""
    ids = {one.client_id: one.member_id for one in members}
    assigned = sum(one.assigned for one in members)
    at_ms = round(at_s * 1000)
    return State(
        generation,
        at_ms,
        at_ms - 5,
        "range" if members else None,
        members[0].member_id if members else None,
        tuple(members),
        frozenset({"t"}) if members else frozenset(),
        {"t": assigned} if assigned else {},
        {ids[name]: one for name, one in (activity or {}).items()},
    )._replace(**other)


def summarized(states: Iterable[State | None]) -> list[tuple[int, str | None, str | None]]:
    """Generation, cause and trigger's client id of each inferred rebalance."""
    return [
        (one.after.generation, one.verdict.cause, one.verdict.trigger and one.verdict.trigger.client_id)
        for one in rebalances(states)
    ]


def last(*states: State | None) -> Rebalance:
    """The last inferred rebalance."""
    return list(rebalances(states))[-1]
