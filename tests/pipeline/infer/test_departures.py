from __future__ import annotations

from typing import Any

import pytest

from muster.pipeline.infer.departures import departure
from muster.pipeline.infer.evidence import Activity, Habits, Member
from muster.pipeline.infer.silenced import Span
from tests.pipeline.infer.states import every, member, parting, state

A, B = member("a"), member("b")
NOTHING, HAS, HAS_NOT = Habits(), Habits(parting=5), Habits(parting=-5)


def how(
    b: Activity | None, end_s: float, *, a: Activity | None = None, habits: Habits = NOTHING, one: Member = B
) -> str:
    activity = {name: each for name, each in (("a", a or every(1, 2, end_s - 0.5)), ("b", b)) if each is not None}
    before = state(1, 1, [A, one], activity)
    gone = departure(before, state(end_s, 2, [A]), one, habits, came=False)
    assert 0.5 <= gone.certainty <= 1
    return gone.how


def test_a_member_silent_for_less_than_a_session_left() -> None:
    assert how(every(1, 2, 95), 100) == "left"


def test_a_member_silent_for_a_session_expired() -> None:
    assert how(every(1, 2, 89.5), 100) == "expired"


def test_a_member_that_a_coordinator_removed_after_a_standstill_expired() -> None:
    """Its last commit was only read when the coordinator went on."""
    commits = parting(every(1, 2, 50), 99.9)
    assert how(commits, 100) == "left"
    assert how(commits, 100, habits=Habits(silences=(Span(50_000, 99_800, True),))) == "expired"


def test_a_member_that_synced_within_a_session_left() -> None:
    assert how(None, 9) == "left"


def test_a_member_without_commits_silent_for_a_session_expired() -> None:
    assert how(None, 13) == "expired"


@pytest.mark.parametrize("session_s", [6, 10, 30, 45])
@pytest.mark.parametrize("beat_s", [0.1, 1, 5])
def test_the_usual_commit_interval_is_considered(session_s: float, beat_s: float) -> None:
    one = B._replace(session_timeout_ms=round(session_s * 1000))
    for late_s in (0.1, 0.9):
        killed_s = 300.0
        end_s = killed_s + late_s * beat_s + session_s + 2
        a = parting(every(beat_s, 2, end_s - 3), end_s - 1.2)
        assert how(every(beat_s, 2, killed_s), end_s, a=a, habits=HAS, one=one) == "expired"
        left = parting(every(beat_s, 2, 290), 300)
        a = parting(every(beat_s, 2, 300), 301.5)
        assert how(left, 302, a=a, habits=HAS, one=one) == "left"


def test_rare_commits_only_show_the_habit_of_a_last_commit() -> None:
    rare = every(60, 2, 242)
    a = parting(every(60, 7, 247), 278)
    assert how(rare, 280, a=a, habits=HAS) == "expired"
    assert how(parting(rare, 277), 280, a=a, habits=HAS) == "left"
    assert how(rare, 280, a=every(60, 7, 247), habits=HAS_NOT) == "left"


def test_a_member_that_never_committed_in_a_short_time_has_rather_died() -> None:
    """A client that stops in order commits what it has read."""
    young = state(1, 1, [A, B])
    gone = departure(young, state(17, 2, [A]), B, Habits(), came=False)
    assert gone.how == "expired"
    assert gone.certainty < 0.65


def test_a_member_that_is_missing_just_after_a_silence_has_left() -> None:
    before = state(1, 1, [A, B], {"a": every(5, 2, 97), "b": every(5, 3, 98)})
    restarted = Habits(silences=(Span(98_000, 218_000, False),))
    gone = departure(before, state(219, 2, [A]), B, restarted, came=False)
    assert (gone.how, gone.certainty) == ("left", 0.55)
    # all members at once: the coordinator had stood still
    assert departure(before, state(219, 2, []), B, restarted, came=False).how == "expired"


def test_a_departure_without_any_commits_is_uncertain() -> None:
    idle = state(1, 1, [A, B])
    gone = departure(idle, state(500, 2, [A]), B, Habits(), came=False)
    assert (gone.how, gone.when_ms) == ("left", None)
    assert gone.certainty < 0.6
    static = B._replace(instance_id="i")
    gone = departure(state(1, 1, [A, static]), state(500, 2, [A]), static, Habits(), came=False)
    assert gone.how == "expired"


def test_the_departure_of_a_member_without_partitions_is_uncertain() -> None:
    spare = B._replace(assigned=0)
    gone = departure(state(1, 1, [A, spare], {"a": every(1, 2, 499)}), state(500, 2, [A]), spare, HAS, came=False)
    assert gone.certainty < 0.6


def test_a_member_that_did_not_poll_in_time_left() -> None:
    assert how(every(1, 2, 100), 400.5) == "left"
    before = state(1, 1, [A, B], {"a": every(1, 2, 389), "b": every(1, 2, 100)})
    assert departure(before, state(390, 2, [A]), B, NOTHING, came=False).certainty < 0.6


def test_commits_only_at_departure_are_recognized() -> None:
    # the remaining members committed when they gave partitions up; b did not
    last = Activity(3, 40_990, 40_990, None, None, None)
    assert how(None, 41, a=last, habits=HAS) == "expired"
    assert how(Activity(3, 38_500, 38_500, None, None, None), 41, a=last, habits=HAS) == "left"
    patient, hasty = B._replace(rebalance_timeout_ms=60_000), B._replace(rebalance_timeout_ms=20_000)
    sure, less_sure = (
        departure(state(1, 1, [A, one], {"a": last}), state(41, 2, [A]), one, HAS, came=False).certainty
        for one in (patient, hasty)
    )
    assert sure > less_sure  # a member that has not polled leaves without a commit


def test_silent_cooperative_members_show_that_a_member_was_waited_for() -> None:
    sticky: dict[str, Any] = {"protocol": "cooperative-sticky"}
    waited = {"a": every(5, 2, 92), "b": every(5, 0, 90)}
    before, after = state(1, 1, [A, B], waited, **sticky), state(101, 2, [A, member("c")], **sticky)
    gone = departure(before, after, B, HAS, came=True)
    assert (gone.how, gone.in_join_phase) == ("expired", True)


def test_a_member_was_waited_for_if_all_others_had_revoked() -> None:
    # a member that must join again does so at once; of b nothing else is known than that it synced
    for gave_up_s, in_join_phase in ((97.2, True), (100.9, False)):
        last = Activity(1, round(gave_up_s * 1000), round(gave_up_s * 1000), None, None, None)
        before = state(85, 1, [A, B], {"a": last})
        gone = departure(before, state(101, 2, [A, member("c")]), B, HAS, came=True)
        assert (gone.how, gone.in_join_phase) == ("expired", in_join_phase)


def test_one_commit_shows_the_commit_interval() -> None:
    # compaction removed the older records
    once = Activity(1, 7_000, 7_000, None, None, None)
    one = B._replace(session_timeout_ms=45_000)
    assert how(once, 54, a=once, one=one) == "expired"
    assert how(once, 59, a=once, one=one) == "expired"
    at_once = Activity(1, 1_000, 1_000, None, None, None)
    assert how(at_once, 46.5, a=at_once, one=one) == "expired"
    long_ago = departure(state(1, 1, [A, one], {"b": once}), state(500, 2, [A]), one, NOTHING, came=False)
    assert long_ago.certainty < 0.7


def test_a_rebalance_timeout_below_the_poll_interval_is_considered() -> None:
    busy = {"a": every(1, 2, 110), "b": every(1, 2, 100)}
    certain = [
        departure(state(1, 1, [A, one], busy), state(110.8, 2, [A]), one, HAS, came=False).certainty
        for one in (B._replace(rebalance_timeout_ms=10_000), B._replace(rebalance_timeout_ms=10_001))
    ]
    assert certain[0] > certain[1]


def test_a_member_that_stopped_committing_long_before_is_uncertain() -> None:
    # a consumer that hangs: if its session had ended, the group would have been empty long before
    alone = state(1, 1, [B._replace(rebalance_timeout_ms=10_000)], {"b": every(1, 2, 100)})
    gone = departure(alone, state(400, 2), alone.members[0], HAS, came=False)
    assert (gone.how, gone.certainty < 0.6) == ("left", True)


def test_a_departure_after_the_end_of_traffic_is_uncertain() -> None:
    ended = every(1, 2, 100)
    before = state(1, 1, [A, B], {"a": ended, "b": ended})
    gone = departure(before, state(400, 2, [A]), B._replace(rebalance_timeout_ms=9_000_000), HAS, came=False)
    assert gone.certainty < 0.7


def test_silence_of_all_members_shows_nothing() -> None:
    # b left with a commit, and a took long to join again
    assert how(every(1, 2, 100), 112, a=every(1, 2, 101)) == "left"
    slow = parting(every(30, 2, 92), 101)
    assert how(parting(every(30, 2, 92), 100), 140, a=slow, habits=HAS) == "left"


def test_silence_without_new_records_is_no_evidence() -> None:
    # librdkafka commits only new offsets, also when it leaves
    both = {"a": every(5, 2, 97), "b": every(5, 2, 97)}
    before = state(1, 1, [A, B], both, protocol="cooperative-sticky")
    gone = departure(before, state(115, 2, [A], protocol="cooperative-sticky"), B, HAS, came=False)
    assert gone.how == "expired"
    assert gone.certainty < 0.65
    working = before._replace(activity={**before.activity, "a-1": every(5, 2, 112)})
    gone = departure(working, state(115, 2, [A], protocol="cooperative-sticky"), B, HAS, came=False)
    assert gone.how == "expired"


def test_a_departure_exactly_at_a_sessions_end_expired() -> None:
    both = {"a": every(0.5, 2, 97), "b": every(0.5, 2, 97)}
    before = state(1, 1, [A, B], both, protocol="cooperative-sticky")
    after = state(107.01, 2, [A], protocol="cooperative-sticky")
    assert departure(before, after, B, HAS_NOT, came=False).how == "expired"


def test_a_member_removed_in_the_next_attempt_left() -> None:
    # it joined once more with the others, who waited for it in vain: for example, a leader that had to send the
    # assignment
    busy = {"a": every(1, 2, 90), "b": every(1, 2, 88)}
    before = state(1, 1, [A, B], busy)
    assert departure(before, state(100.5, 3, [A]), B, HAS, came=False).how == "expired"
    assert departure(before, state(99, 3, [A]), B, HAS, came=False).how == "left"


def test_a_member_expired_if_the_others_worked_until_its_session_ended() -> None:
    # a's last commit on its beat looks like a commit at parting
    assert how(every(0.5, 2, 90), 100.07, a=every(0.5, 2, 99.8), habits=HAS) == "expired"
