"""The rebalances of a group, from its states in the order of the log. Pure; its size does not grow with the history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from muster.pipeline.facts.infer import Verdict, judge
from muster.pipeline.facts.infer_evidence import State, continued
from muster.pipeline.facts.infer_habits import Habits, with_gone, with_parting, with_state
from muster.pipeline.facts.infer_hearing import Hearing
from muster.pipeline.facts.infer_learning import with_hearing, with_parted
from muster.pipeline.facts.infer_start import Seen, Start, start_of


class Rebalance(NamedTuple):
    """One rebalance that is concluded from the records."""

    before: State | None
    """None: the log does not reach back that far."""
    after: State
    verdict: Verdict
    start: Start | None = None
    """None: nothing tells when it began."""


NOT_KNOWN: Final = 0.2
"""The certainty if the state before is not in the log: there was a rebalance, and no more is known."""


LOOK_AHEAD: Final = 64
"""So many rebalances of a group are judged before the first of them is told: what they show of the members' heartbeats
tells when it began."""


def rebalances(states: Iterable[State | None]) -> Iterator[Rebalance]:
    """Each change of generation, as `_seen` has it, with the time at which it began."""
    hearing = Hearing()
    seen = _seen(states)
    while some := list(islice(seen, LOOK_AHEAD)):
        for one in some:
            hearing = with_parted(hearing, one)
        for one in some:
            hearing = with_hearing(hearing, one)
        for one in some:
            yield Rebalance(one.before, one.after, one.verdict, start_of(one, hearing))


def _seen(states: Iterable[State | None]) -> Iterator[Seen]:
    """Each change of generation. None among the states is a tombstone: the group was deleted.

    No rebalances are: the memberless record of generation 0 that a new group begins with, and a record of the same
    generation (a static member under a new id, a group that was loaded).
    """
    before: State | None = None
    is_first, begins = False, True  # the last one was the first record of the log; none was there yet
    formed_ms: int | None = None
    habits = Habits()
    for state in states:
        begins, was_first = False, begins
        if state is None or (state.generation == 0 and not state.members):
            before = state
            continue
        if before is not None and state.generation < before.generation:
            before = None  # deleted and made again; the tombstone is gone
        if before is not None and state.generation == before.generation:
            before = continued(before, state)
            continue
        if before is not None and is_first and state.generation > before.generation + 1:
            before = None  # compaction leaves one old record: what was between is gone
        if before is None and state.generation == 1:
            before = State(0, state.at_ms, state.joined_ms, None, None, (), frozenset(), {})
        is_first = before is None and was_first
        if before is None:
            yield Seen(None, state, Verdict(None, None, NOT_KNOWN), habits)
        else:
            habits = with_parting(habits, before, state)
            formed_ms = formed_ms if before.members else state.at_ms
            yield Seen(before, state, judge(before, state, habits), habits, formed_ms)
            habits = with_gone(habits, before, state)
        before = state
        habits = with_state(habits, state)
