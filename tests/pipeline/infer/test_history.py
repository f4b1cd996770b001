from __future__ import annotations

from muster.pipeline.infer.history import NOT_KNOWN, rebalances
from tests.pipeline.infer.states import every, last, member, state, summarized

A, B, C = member("a"), member("b"), member("c")


def test_the_first_generation_has_the_cause_member_joined() -> None:
    assert summarized([state(0, 0), state(1, 1, [A])]) == [(1, "member_joined", "a")]


def test_the_first_record_of_a_group_may_be_lost_to_compaction() -> None:
    assert summarized([state(1, 1, [A])]) == [(1, "member_joined", "a")]


def test_a_steady_group_does_not_rebalance() -> None:
    steady = [state(1, 1, [A], {"a": every(5, 2, 50)}), *(state(60 * n, 1, [A]) for n in range(1, 9))]
    assert summarized([state(0, 0), *steady]) == [(1, "member_joined", "a")]


def test_a_group_that_nobody_joined_does_not_rebalance() -> None:
    assert summarized([state(0, 0), None, state(5, 0), None]) == []


def test_the_cause_of_the_first_record_of_a_partial_log_is_unknown() -> None:
    (one,) = rebalances([state(1, 57, [A])])
    assert (one.before, one.verdict.cause, one.verdict.certainty) == (None, None, NOT_KNOWN)


def test_an_old_record_left_by_compaction_says_nothing_of_the_next_one() -> None:
    """The last of the old records, and the first record after it that compaction has not reached yet."""
    old, new = rebalances([state(1, 5, [A, B]), state(900, 40, [C])])
    assert (old.verdict.cause, new.verdict.cause, new.before, new.verdict.gone) == (None, None, None, ())
    assert summarized([state(1, 5, [A, B]), state(900, 6, [A]), state(950, 8, [A, C])])[1:] == [
        (6, "member_left", "b"), (8, "member_joined", "c"),
    ]  # fmt: skip
    # a group of the consumer protocol that became a classic one
    assert summarized([None, state(1, 5, [A]), state(9, 7, [A, B])])[1:] == [(7, "member_joined", "b")]


def test_a_deleted_group_begins_again() -> None:
    assert summarized([state(0, 0), state(1, 1, [A]), None, state(9, 0), state(10, 1, [A])]) == [
        (1, "member_joined", "a"),
        (1, "member_joined", "a"),
    ]


def test_a_deleted_group_without_a_tombstone_is_recognized() -> None:
    assert summarized([state(0, 7, [A]), state(10, 1, [B])])[1:] == [(1, "member_joined", "b")]


def test_a_static_member_under_a_new_id_is_no_rebalance() -> None:
    old = member("a", instance_id="i")
    new = old._replace(member_id="a-2")
    assert summarized([state(0, 0), state(1, 1, [old]), state(20, 1, [new])]) == [(1, "member_joined", "a")]


def test_commits_before_a_static_members_return_are_used() -> None:
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


def test_a_rebalance_to_an_empty_group_is_found() -> None:
    assert summarized([state(1, 1, [A], {"a": every(1, 2, 30)}), state(30, 2), state(40, 3, [B])])[1:] == [
        (2, "member_left", "a"),
        (3, "member_joined", "b"),
    ]


def test_a_member_that_left_before_the_first_generation_is_not_named() -> None:
    assert summarized([state(0, 0), state(3, 1)]) == [(1, "member_joined", None)]


def test_causes_of_distant_records_are_less_certain() -> None:
    near, far = (last(state(1, 1, [A]), state(20, generation, [A, B])).verdict for generation in (2, 9))
    assert near.cause == far.cause == "member_joined"
    assert far.certainty < near.certainty
