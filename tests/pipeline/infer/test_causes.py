from __future__ import annotations

from typing import Any

import pytest

from muster.pipeline.infer.causes import judge
from muster.pipeline.infer.evidence import Activity, Habits, Member, State
from muster.pipeline.infer.silenced import Span
from tests.pipeline.infer.states import SESSION_S, every, last, member, parting, state

A, B, C = member("a"), member("b"), member("c")
BUSY = {"a": every(1, 2, 100), "b": every(1, 2, 100), "c": every(1, 2, 100)}
FIRST = state(1, 1, [A, B, C], BUSY)


def cause(before: State, after: State) -> tuple[str | None, str | None]:
    verdict = last(before, after).verdict
    return verdict.cause, verdict.trigger and verdict.trigger.client_id


def others(*members: Member, **other: object) -> list[Member]:
    return [one._replace(**other) for one in members]


def test_a_new_member_is_the_cause() -> None:
    assert cause(FIRST, state(101, 2, [A, B, C, member("d")])) == ("member_joined", "d")


@pytest.mark.parametrize(("late_s", "found"), [(0.1, "member_joined"), (2, "session_expired")])
def test_a_join_phase_that_ends_with_a_session_after_a_silence_was_begun_by_the_new_process(
    late_s: float, found: str
) -> None:
    """A process died before the silence. Its successor joins as soon as the broker is back, and waits for its session.

    If members need longer to join, the end of the session began the rebalance.
    """
    silence = Span(100_500, 220_000, is_frozen=False)
    after = state(220 + SESSION_S + late_s, 2, [A, C, member("b", member_id="b-2")])
    verdict = judge(FIRST, after, Habits(silences=(silence,)))
    assert (verdict.cause, verdict.trigger and verdict.trigger.client_id) == (found, "b")
    alone = judge(FIRST, state(220 + SESSION_S + late_s, 2, [A, C]), Habits(silences=(silence,)))
    assert alone.cause == "session_expired"


def test_the_first_of_several_new_members_is_the_trigger() -> None:
    # its first member is the leader
    empty = state(1, 1)
    assert cause(empty, state(101, 2, [A, B, C], leader=B.member_id)) == ("member_joined", "b")


def test_another_subscription_is_the_cause() -> None:
    assert cause(FIRST, state(101, 2, [A, B._replace(topics=8), C])) == ("subscription_changed", "b")


def test_a_topic_that_the_pattern_of_all_members_finds_is_no_change_of_subscriptions() -> None:
    """All members subscribe to one more topic in one rebalance. One after the other, each has changed by itself."""
    found = others(A, B, C, topics=8)
    assert cause(FIRST, state(101, 2, found, topics=frozenset({"t", "t-2"}))) == ("partitions_changed", None)
    assert cause(FIRST, state(101, 2, found, topics=frozenset({"u"}))) == ("subscription_changed", "a")
    only = state(1, 1, [A])
    more = state(101, 2, others(A, topics=8), topics=frozenset({"t", "t-2"}))
    assert cause(only, more) == ("subscription_changed", "a")


def test_a_topic_that_grew_is_the_cause() -> None:
    assert cause(FIRST, state(101, 2, [A._replace(assigned=2), B, C])) == ("partitions_changed", "a")


def test_a_deleted_topic_is_the_cause() -> None:
    assert cause(FIRST, state(101, 2, others(A, B, C, assigned=0))) == ("partitions_changed", "a")


def test_a_created_topic_is_the_cause() -> None:
    nothing = state(1, 1, others(A, B, assigned=0))
    assert cause(nothing, state(101, 2, [A, B])) == ("partitions_changed", "a")


def test_an_unchanged_group_has_the_cause_leader_rejoined() -> None:
    assert cause(FIRST, state(101, 2, [A, B, C])) == ("leader_rejoined", "a")


def test_other_metadata_of_another_protocol_type_is_the_cause() -> None:
    workers = others(A, B, C, topics=None, assigned=0)
    before = state(1, 1, workers, topics=frozenset())
    changed = [workers[0], workers[1]._replace(metadata=2), workers[2]]
    assert cause(before, state(101, 2, changed, topics=frozenset())) == ("metadata_changed", "b")


def test_other_metadata_of_a_consumer_that_does_not_lead_is_the_cause() -> None:
    assert cause(FIRST, state(101, 2, [A, B._replace(metadata=2), C])) == ("metadata_changed", "b")
    assert cause(FIRST, state(101, 2, [A._replace(metadata=2), B, C])) == ("leader_rejoined", "a")


def test_the_second_round_of_a_cooperative_rebalance_is_recognized() -> None:
    sticky: dict[str, Any] = {"protocol": "cooperative-sticky"}
    whole = state(1, 1, [A._replace(assigned=4)], **sticky)
    first = state(50, 2, [A._replace(owned=4, assigned=2), B._replace(assigned=0)], **sticky)
    second = state(51, 3, [A._replace(owned=2, assigned=2), B._replace(assigned=2)], **sticky)
    third = state(90, 4, [A._replace(owned=2, assigned=3), B._replace(owned=2, assigned=2)], **sticky)
    assert (last(whole, first).verdict.cause, last(whole, first, second).verdict.cause) == (
        "member_joined", "metadata_changed",
    )  # fmt: skip
    assert last(whole, first, second).verdict.trigger == first.members[0]
    assert last(whole, first, second, third).verdict.cause == "partitions_changed"
    settled = second._replace(generation=4, members=tuple(one._replace(owned=2) for one in second.members))
    assert last(whole, first, second, settled).verdict.cause == "leader_rejoined"


def test_members_that_join_or_leave_during_a_revocation_are_recognized() -> None:
    sticky: dict[str, Any] = {"protocol": "cooperative-sticky"}
    whole = state(1, 1, [A._replace(assigned=4)], **sticky)
    first = state(50, 2, [A._replace(owned=4, assigned=2), B._replace(assigned=0)], **sticky)
    came = state(52, 3, [A._replace(owned=2, assigned=2), B, C], **sticky)
    went = state(52, 3, [A._replace(owned=2, assigned=4)], **sticky)
    for after in (came, went):
        verdict = last(whole, first, after).verdict
        assert (verdict.cause, verdict.trigger) == ("metadata_changed", first.members[0])


def test_a_topic_that_grew_is_the_cause_for_librdkafka_members() -> None:
    sticky: dict[str, Any] = {"protocol": "cooperative-sticky"}
    small = state(1, 1, [A._replace(assigned=2), B._replace(assigned=2)], **sticky)
    grown = state(50, 2, [A._replace(owned=2, assigned=2), B._replace(owned=2, assigned=3)], **sticky)
    again = state(52, 3, [A._replace(owned=2, assigned=2), B._replace(owned=3, assigned=3)], **sticky)
    assert last(small, grown).verdict.cause == "partitions_changed"
    assert last(small, grown, again).verdict.cause == "metadata_changed"
    assert last(small, grown, again, again._replace(generation=4)).verdict.cause == "leader_rejoined"


def test_of_two_killed_members_the_expired_one_is_the_trigger() -> None:
    busy = {"a": every(1, 2, 100), "b": every(1, 2, 89.9), "c": every(1, 2, 92)}
    verdict = last(state(1, 1, [A, B, C], busy), state(102.01, 2, [A])).verdict
    assert (verdict.cause, verdict.trigger and verdict.trigger.client_id) == ("session_expired", "b")


def test_commits_of_cooperative_members_during_a_join_are_considered() -> None:
    sticky: dict[str, Any] = {"protocol": "cooperative-sticky"}
    back = [A, B, C._replace(member_id="c-2")]
    for end_s, expected in ((100.5, "member_joined"), (102.5, "session_expired")):
        busy = {"a": every(1, 2, end_s), "b": every(1, 2, end_s), "c": every(1, 2, 90)}
        assert cause(state(1, 1, [A, B, C], busy, **sticky), state(end_s, 2, back, **sticky)) == (expected, "c")


def test_a_static_member_that_returned_late_had_expired() -> None:
    old = member("b", instance_id="i")
    back = [A, old._replace(member_id="b-2")]
    before = state(1, 1, [A, old], {"b": every(1, 2, 54)})
    assert cause(before, state(60, 2, back)) == ("static_member_returned", "b")
    # its session had ended
    assert cause(before, state(70, 2, back)) == ("session_expired", "b")


def test_a_restart_within_one_rebalance_has_the_cause_member_left() -> None:
    busy = BUSY | {"c": every(1, 2, 99)}
    before = state(1, 1, [A, B, C], busy)
    assert cause(before, state(102, 2, [A, B, C._replace(member_id="c-2")])) == ("member_left", "c")


def test_a_crash_with_a_quick_restart_has_the_cause_member_joined() -> None:
    # c was killed at 90 s; the new process joined at 92 s, and the group waited until the old session ended
    busy = {"a": every(1, 2, 93), "b": every(1, 2, 93), "c": every(1, 2, 90)}
    after = state(100.2, 2, [A, B, C._replace(member_id="c-2")])
    verdict = last(state(1, 1, [A, B, C], busy), after).verdict
    assert (verdict.cause, verdict.trigger) == ("member_joined", after.members[2])
    assert (verdict.gone[0].how, verdict.gone[0].in_join_phase) == ("expired", True)


def test_a_crash_noticed_before_the_restart_has_the_cause_session_expired() -> None:
    busy = {"a": every(1, 2, 102), "b": every(1, 2, 102), "c": every(1, 2, 90)}
    after = state(103, 2, [A, B, C._replace(member_id="c-2")])
    assert cause(state(1, 1, [A, B, C], busy), after) == ("session_expired", "c")


def test_a_replaced_only_member_has_the_cause_member_joined() -> None:
    before = state(1, 1, [A], {"a": every(1, 2, 90)})
    assert cause(before, state(101, 2, [A._replace(member_id="a-2")])) == ("member_joined", "a")


def test_a_member_that_joins_before_the_assignment_is_the_trigger() -> None:
    after = state(101, 3, [A, B, member("d")])
    verdict = last(state(1, 1, [A, B, C], BUSY), after).verdict
    assert (verdict.cause, verdict.trigger) == ("member_joined", after.members[2])


def test_the_first_member_that_left_is_the_trigger() -> None:
    busy = {"a": every(1, 2, 100), "b": every(1, 2, 98.5), "c": every(1, 2, 97)}
    assert cause(state(1, 1, [A, B, C], busy), state(101, 2, [A])) == ("member_left", "c")


@pytest.mark.parametrize(("killed_s", "left_s", "expected"), [(80, 99, "session_expired"), (99, 97, "member_left")])
def test_of_a_leave_and_an_expiration_the_earlier_is_the_cause(killed_s: float, left_s: float, expected: str) -> None:
    began_s = min(killed_s + 10, left_s)
    busy = {"a": every(1, 2, began_s), "b": every(1, 2, killed_s), "c": every(1, 2, left_s)}
    end_s = max(killed_s + 10.5, left_s + 1)
    assert last(state(1, 1, [A, B, C], busy), state(end_s, 2, [A])).verdict.cause == expected


def test_a_leave_is_the_trigger_if_another_member_was_waited_for() -> None:
    # the others saw the rebalance with their next heartbeats, long before the session of c was over
    busy = {"a": every(0.4, 2, 100.4), "b": parting(every(0.4, 2, 98), 98.1), "c": every(0.4, 2, 99.8)}
    verdict = last(state(1, 1, [A, B, C], busy), state(110, 2, [A])).verdict
    assert (verdict.cause, verdict.trigger) == ("member_left", B)
    assert [(one.how, one.in_join_phase) for one in verdict.gone] == [("left", False), ("expired", True)]
    slower = {"a": every(1, 2, 102), "b": every(0.9, 2, 97.4), "c": every(1, 2, 99.8)}
    verdict = last(state(1, 1, [A, B, C], slower), state(110, 2, [A])).verdict
    assert (verdict.cause, verdict.trigger) == ("member_left", B)


def test_a_leave_is_the_trigger_if_cooperative_members_waited_for_another() -> None:
    sticky: dict[str, Any] = {"protocol": "cooperative-sticky"}
    busy = {"a": every(1, 2, 101), "b": every(1, 2.2, 99.2), "c": every(1, 2.9, 99.9)}
    verdict = last(state(1, 1, [A, B, C], busy, **sticky), state(109.9, 2, [A], **sticky)).verdict
    assert (verdict.cause, verdict.trigger) == ("member_left", B)


def test_the_first_expired_session_of_two_kills_is_the_trigger() -> None:
    # commits by hand, at irregular times: the last ones look like commits at parting
    a = parting(every(2.2, 2, 106), 107.8)
    busy = {"a": a, "b": every(2.2, 2, 98.8), "c": every(2, 2, 100)}
    before = [state(-100, 1, [A, B, C], {"a": parting(every(60, -99, -39), -0.1)}), state(1, 2, [A, B, C], busy)]
    verdict = last(*before, state(110, 3, [A])).verdict
    assert (verdict.cause, verdict.trigger) == ("session_expired", B)


@pytest.mark.parametrize("busy", [{}, {"a": every(1, 2, 88), "b": every(1, 2, 88)}])
def test_a_group_whose_members_were_all_replaced_has_the_cause_member_left(busy: dict[str, Activity]) -> None:
    # the broker was away, and they had to join again before it had removed their old ids
    again = [A._replace(member_id="a-2"), B._replace(member_id="b-2")]
    verdict = last(state(1, 1, [A, B], busy), state(101, 2, again)).verdict
    assert (verdict.cause, verdict.trigger) == ("member_joined", again[0])
    restarted = {"a": every(1, 2, 98), "b": every(1, 2, 98.5)}
    assert cause(state(1, 1, [A, B], restarted), state(101, 2, again)) == ("member_left", "a")


def test_a_cooperative_member_that_lost_its_partitions_is_the_trigger() -> None:
    sticky: dict[str, Any] = {"protocol": "cooperative-sticky"}
    before = state(1, 1, [A._replace(owned=2, assigned=2), B._replace(owned=2, assigned=2)], **sticky)
    after = state(50, 2, [A._replace(owned=2, assigned=2), B._replace(owned=0, assigned=2)], **sticky)
    assert cause(before, after) == ("metadata_changed", "b")
