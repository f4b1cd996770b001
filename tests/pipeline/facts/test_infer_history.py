from __future__ import annotations

from muster.pipeline.facts.infer_evidence import State
from muster.pipeline.facts.infer_history import NOT_KNOWN, heartbeat, rebalances, start_ms
from tests.pipeline.facts.states import every, last, member, parting, state, told

A, B, C = member("a"), member("b"), member("c")


def test_a_new_group() -> None:
    assert told([state(0, 0), state(1, 1, [A])]) == [(1, "member_joined", "a")]


def test_the_first_record_of_a_group_may_be_lost_to_compaction() -> None:
    assert told([state(1, 1, [A])]) == [(1, "member_joined", "a")]


def test_a_steady_group_does_not_rebalance() -> None:
    steady = [state(1, 1, [A], {"a": every(5, 2, 50)}), *(state(60 * n, 1, [A]) for n in range(1, 9))]
    assert told([state(0, 0), *steady]) == [(1, "member_joined", "a")]


def test_a_group_that_nobody_joined_does_not_rebalance() -> None:
    assert told([state(0, 0), None, state(5, 0), None]) == []


def test_what_was_before_is_not_in_the_log() -> None:
    (one,) = rebalances([state(1, 57, [A])])
    assert (one.before, one.verdict.cause, one.verdict.certainty) == (None, None, NOT_KNOWN)


def test_a_group_that_was_deleted_begins_anew() -> None:
    assert told([state(0, 0), state(1, 1, [A]), None, state(9, 0), state(10, 1, [A])]) == [
        (1, "member_joined", "a"),
        (1, "member_joined", "a"),
    ]


def test_a_group_that_was_deleted_and_whose_tombstone_is_gone() -> None:
    assert told([state(0, 7, [A]), state(10, 1, [B])])[1:] == [(1, "member_joined", "b")]


def test_a_static_member_under_a_new_id_is_no_rebalance() -> None:
    old = member("a", instance_id="i")
    new = old._replace(member_id="a-2")
    assert told([state(0, 0), state(1, 1, [old]), state(20, 1, [new])]) == [(1, "member_joined", "a")]


def test_what_was_committed_before_a_static_member_came_back_counts() -> None:
    old, new = member("a", instance_id="i"), member("a", instance_id="i", member_id="a-2")
    one = last(
        state(1, 1, [old, B], {"a": every(1, 2, 19), "b": every(1, 2, 19)}),
        state(20, 1, [new, B], {"a": every(1, 21, 33), "b": every(1, 21, 23)}),
        state(34, 2, [new]),
    )
    assert one.before is not None
    assert one.before.at_ms == 1000
    assert one.before.activity["b-1"].first_ms == 2000
    assert one.before.activity["a-2"].commits == 31
    assert one.verdict.cause == "session_expired"


def test_a_group_without_members_has_rebalanced_too() -> None:
    assert told([state(1, 1, [A], {"a": every(1, 2, 30)}), state(30, 2), state(40, 3, [B])])[1:] == [
        (2, "member_left", "a"),
        (3, "member_joined", "b"),
    ]


def test_one_that_came_and_went_before_there_was_a_generation() -> None:
    assert told([state(0, 0), state(3, 1)]) == [(1, "member_joined", None)]


def test_further_apart_is_less_certain() -> None:
    near, far = (last(state(1, 1, [A]), state(20, generation, [A, B])).verdict for generation in (2, 9))
    assert near.cause == far.cause == "member_joined"
    assert far.certainty < near.certainty


def began(*states: State) -> int:
    one = last(*states)
    return start_ms(one.before, one.after, one.verdict)


def test_frequent_commits_tell_when_a_rebalance_began() -> None:
    before = state(0, 1, [A, B], {"a": every(1, 1, 58), "b": every(1, 1, 58)})
    assert began(before, state(60, 2, [A, B, C])) == 58_000


def test_rare_commits_do_not_tell_when_a_rebalance_began() -> None:
    """A minute lies between the last commits and the next record, and the members heard of it by heartbeats."""
    before = state(0, 1, [A, B], {"a": every(60, 60, 540), "b": every(60, 60, 540)})
    assert began(before, state(595, 2, [A, B, C])) == 594_995 - 2_000


def test_the_commits_before_a_revocation_do_not_tell_when_a_rebalance_began() -> None:
    commits = {name: parting(every(60, 60, 540), 594.99) for name in ("a", "b")}
    assert began(state(0, 1, [A, B], commits), state(595, 2, [A, B, C])) == 594_995 - 2_000


def test_the_end_of_a_session_is_known_only_as_well_as_the_last_heartbeat() -> None:
    before = state(0, 1, [A, B], {"a": every(60, 60, 540), "b": every(60, 60, 420)})
    assert began(before, state(595, 2, [A])) == 594_995 - 1_500


def test_a_rebalance_begins_after_the_last_assignment() -> None:
    assert began(state(0, 1, [A]), state(0.5, 2, [A, B])) == 0


def test_a_rebalance_that_waits_for_a_dead_member_began_earlier() -> None:
    before = state(0, 1, [A, B], {"a": every(5, 5, 50), "b": every(5, 5, 50)})
    one = last(before, state(61, 2, [A, C]))
    assert start_ms(one.before, one.after, one.verdict) == one.verdict.start_ms < 61_000 - 3_000


def test_a_short_session_has_more_heartbeats() -> None:
    assert heartbeat(state(0, 1, [A])) == 3_000
    assert heartbeat(state(0, 1, [A, B._replace(session_timeout_ms=6_000)])) == 2_000
