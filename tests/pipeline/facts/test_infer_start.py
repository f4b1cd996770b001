"""When a rebalance began, by frequent commits, and by nothing but heartbeats."""

from __future__ import annotations

from muster.pipeline.facts.infer_evidence import State
from muster.pipeline.facts.infer_history import heartbeat, start_ms
from tests.pipeline.facts.states import every, last, member, parting, state

A, B, C = member("a"), member("b"), member("c")


def began(*states: State) -> int:
    one = last(*states)
    return start_ms(one.before, one.after, one.verdict)


def test_frequent_commits_tell_it() -> None:
    before = state(0, 1, [A, B], {"a": every(1, 1, 58), "b": every(1, 1, 58)})
    assert began(before, state(60, 2, [A, B, C])) == 58_000


def test_rare_ones_do_not() -> None:
    """A minute lies between the last commits and the next record, and the members heard of it by heartbeats."""
    before = state(0, 1, [A, B], {"a": every(60, 60, 540), "b": every(60, 60, 540)})
    assert began(before, state(595, 2, [A, B, C])) == 594_995 - 2_000


def test_nor_does_one_that_all_make_when_they_give_up_what_they_have() -> None:
    commits = {name: parting(every(60, 60, 540), 594.99) for name in ("a", "b")}
    assert began(state(0, 1, [A, B], commits), state(595, 2, [A, B, C])) == 594_995 - 2_000


def test_the_end_of_a_session_is_known_only_as_well_as_the_last_heartbeat() -> None:
    before = state(0, 1, [A, B], {"a": every(60, 60, 540), "b": every(60, 60, 420)})
    assert began(before, state(595, 2, [A])) == 594_995 - 1_500


def test_it_is_never_before_the_last_assignment() -> None:
    assert began(state(0, 1, [A]), state(0.5, 2, [A, B])) == 0


def test_who_waits_for_the_dead_waits_for_longer() -> None:
    before = state(0, 1, [A, B], {"a": every(5, 5, 50), "b": every(5, 5, 50)})
    one = last(before, state(61, 2, [A, C]))
    assert start_ms(one.before, one.after, one.verdict) == one.verdict.start_ms < 61_000 - 3_000


def test_a_short_session_has_more_heartbeats() -> None:
    assert heartbeat(state(0, 1, [A])) == 3_000
    assert heartbeat(state(0, 1, [A, B._replace(session_timeout_ms=6_000)])) == 2_000
