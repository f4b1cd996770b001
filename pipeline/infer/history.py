"""The rebalances of a group, from its states in the order of the log, and what they show about members.

Pure. The size of what is kept does not grow with the history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from muster.pipeline.infer.causes import Verdict, judge
from muster.pipeline.infer.departures import LEFT
from muster.pipeline.infer.evidence import (
    Habits,
    State,
    continued,
    is_off_beat,
    survivors,
    with_gone,
    with_parting,
    with_state,
)
from muster.pipeline.infer.heartbeats import HeartbeatHabits
from muster.pipeline.infer.silenced import Span
from muster.pipeline.infer.start import SOON_MS, JudgedRebalance, Start, start_of, waited_for

_CALM_MS: Final = 300
"""A leader that is not late sends its SyncGroup within this time."""


def with_parting_commits(heartbeats: HeartbeatHabits, one: JudgedRebalance) -> HeartbeatHabits:
    """Learn whether members commit at parting, from the last commits of members that gave partitions up."""
    if one.before is None:
        return heartbeats
    gave_up = [gone.member for gone in one.verdict.gone if gone.how == LEFT]
    if not one.before.is_cooperative:
        gave_up += survivors(one.before, one.after)
    for member in gave_up:
        is_off = is_off_beat(one.before, member, one.habits)
        if is_off is not None:
            heartbeats = heartbeats.with_commit(is_off)
    return heartbeats


def with_return_times(heartbeats: HeartbeatHabits, one: JudgedRebalance) -> HeartbeatHabits:
    """Learn how soon members return, from a rebalance that waited only for the members that stayed."""
    start = start_of(one, heartbeats)
    if one.before is None or start is None:
        return heartbeats
    stayed = survivors(one.before, one.after)
    if not stayed or waited_for(one.before, one.after, one.verdict):
        return heartbeats
    end_ms = one.after.joined_ms
    gap_ms, late_ms = end_ms - one.before.at_ms, one.after.at_ms - end_ms
    # if all members had partitions to give up, no member waited for its next heartbeat
    if late_ms <= _CALM_MS and (gap_ms > SOON_MS or not one.verdict.is_second_round):
        heartbeats = heartbeats.with_gap(end_ms - one.before.joined_ms, gap_ms, late_ms)
    took_ms = end_ms - start.likely_ms
    # a rebalance that took that long waited for something else
    if not start.is_seen or took_ms > max(member.session_timeout_ms for member in stayed):
        return heartbeats
    return heartbeats if one.verdict.joined or one.verdict.is_second_round else heartbeats.with_delay(took_ms)


class Rebalance(NamedTuple):
    """A rebalance that is inferred from the records."""

    before: State | None
    """The state before the rebalance; None: it is not in the log."""
    after: State
    verdict: Verdict
    start: Start | None = None
    """When the rebalance began; None: not known."""


NOT_KNOWN: Final = 0.2
"""The certainty if the state before is not in the log: only the rebalance itself is known."""


LOOK_AHEAD: Final = 64
"""This many rebalances of a group are judged before the first of them is reported.

They show how often members send heartbeats, and therefore when a rebalance began.
"""


def rebalances(states: Iterable[State | None], silences: Sequence[Span] = ()) -> Iterator[Rebalance]:
    """The rebalances of a group (`_judged_rebalances`), each with the time at which it began.

    `silences`: the times without a sign of life of any group.
    """
    heartbeats = HeartbeatHabits()
    seen = _judged_rebalances(states, Habits(silences=tuple(silences)))
    while some := list(islice(seen, LOOK_AHEAD)):
        for one in some:
            heartbeats = with_parting_commits(heartbeats, one)
        for one in some:
            heartbeats = with_return_times(heartbeats, one)
        for one in some:
            yield Rebalance(one.before, one.after, one.verdict, start_of(one, heartbeats))


def _judged_rebalances(states: Iterable[State | None], habits: Habits) -> Iterator[JudgedRebalance]:
    """Each change of the generation. A None in `states` is a tombstone: the group was deleted.

    Two kinds of records are no rebalance. A new group begins with a record of generation 0 without members. And a
    record repeats its generation if a static member has a new id, or if the group was loaded.
    """
    before: State | None = None
    # is_first: the last record was the first record of the log. begins: no record was read yet
    is_first, begins = False, True
    formed_ms: int | None = None
    for state in states:
        begins, was_first = False, begins
        if state is None or (state.generation == 0 and not state.members):
            before = state
            continue
        if before is not None and state.generation < before.generation:
            before = None  # the group was deleted and created again, and the tombstone is gone
        if before is not None and state.generation == before.generation:
            before = continued(before, state)
            continue
        if before is not None and is_first and state.generation > before.generation + 1:
            before = None  # compaction has left one old record, and removed the records between
        if before is None and state.generation == 1:
            before = State(0, state.at_ms, state.joined_ms, None, None, (), frozenset(), {})
        is_first = before is None and was_first
        if before is None:
            yield JudgedRebalance(None, state, Verdict(None, None, NOT_KNOWN), habits)
        else:
            habits = with_parting(habits, before, state)
            formed_ms = formed_ms if before.members else state.at_ms
            yield JudgedRebalance(before, state, judge(before, state, habits), habits, formed_ms)
            habits = with_gone(habits, before, state)
        before = state
        habits = with_state(habits, state)
