"""The rebalances of a group, from its states in the order of the log. Pure; its size does not grow with the history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from muster.pipeline.defaults import HEARTBEAT_MS
from muster.pipeline.facts.infer import Verdict, judge
from muster.pipeline.facts.infer_departures import EXPIRED
from muster.pipeline.facts.infer_evidence import State, continued, survivors
from muster.pipeline.facts.infer_habits import Habits, with_parting, with_state


class Rebalance(NamedTuple):
    """One rebalance that is concluded from the records."""

    before: State | None
    """None: the log does not reach back that far."""
    after: State
    verdict: Verdict


NOT_KNOWN: Final = 0.2
"""The certainty if the state before is not in the log: there was a rebalance, and no more is known."""


def rebalances(states: Iterable[State | None]) -> Iterator[Rebalance]:
    """Each change of generation. None among the states is a tombstone: the group was deleted.

    No rebalances are: the memberless record of generation 0 that a new group begins with, and a record of the same
    generation (a static member under a new id, a group that was loaded).
    """
    before: State | None = None
    habits = Habits()
    for state in states:
        if state is None or (state.generation == 0 and not state.members):
            before = state
            continue
        if before is not None and state.generation < before.generation:
            before = None  # deleted and made again; the tombstone is gone
        if before is not None and state.generation == before.generation:
            before = continued(before, state)
            continue
        if before is None and state.generation == 1:
            before = State(0, state.at_ms, state.joined_ms, None, None, (), frozenset(), {})
        if before is None:
            yield Rebalance(None, state, Verdict(None, None, state.joined_ms, NOT_KNOWN))
        else:
            habits = with_parting(habits, before, state)
            yield Rebalance(before, state, judge(before, state, habits))
        before = state
        habits = with_state(habits, state)


def start_ms(before: State | None, after: State, verdict: Verdict) -> int:
    """An estimate of when the members lost their work; no later than the end of the join phase.

    The verdict's time comes from commits: those that stayed made none after they had been told to join again. That is
    good if they commit often. If a minute lies between two commits, it says nothing; then the estimate is that members
    learn of a rebalance by their next heartbeat.
    """
    stayed = [] if before is None else survivors(before, after)
    if before is None or not stayed:
        return verdict.start_ms
    heartbeat_ms = heartbeat(before)
    usual_ms = before.usual_ms()
    if usual_ms is not None and usual_ms <= heartbeat_ms / 2:
        return verdict.start_ms
    if _waited(before, after, verdict):
        return verdict.start_ms
    # the last of n members, each of which hears of it at any time within a heartbeat
    heard_ms = heartbeat_ms * len(stayed) // (len(stayed) + 1)
    return max(after.joined_ms - heard_ms, before.at_ms)


def heartbeat(state: State) -> int:
    """How often the members of a state send heartbeats: as they do by default, or thrice a session, as they have to."""
    return min(HEARTBEAT_MS, *(member.session_timeout_ms // 3 for member in state.members))


def _waited(before: State, after: State, verdict: Verdict) -> bool:
    """Did it wait for more than heartbeats: for the session of a dead member, or because of failed attempts?"""
    died = any(one.how == EXPIRED for one in verdict.gone)
    return (
        after.generation > before.generation + 1
        or any(one.in_join_phase for one in verdict.gone)
        or (died and verdict.joined > 0)
    )
