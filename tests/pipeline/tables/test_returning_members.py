from __future__ import annotations

from muster.pipeline.defaults import MAX_SESSION_TIMEOUT_MS
from muster.pipeline.tables.memberships import Return, Stay, pair_returns


def stay(member: str, start_s: float, end_s: float | None = None, cause: str | None = None, place: str = "c") -> Stay:
    end_ms = None if end_s is None else round(end_s * 1000)
    return Stay(place, "/h", member, round(start_s * 1000), end_ms, cause, 45_000)


def pairs(*stays: Stay) -> list[tuple[str, str]]:
    return [(one.gone_member_id, one.back_member_id) for one in pair_returns(stays)]


def test_a_returning_member_needs_a_session_of_its_absence_and_a_heartbeat() -> None:
    found = pair_returns([stay("a", 0, 100, "left"), stay("b", 107.2)])
    assert found == [Return("c", "/h", "a", "b", 7_200, 11_000)]


def test_an_expired_member_was_absent_since_its_last_heartbeat() -> None:
    found = pair_returns([stay("a", 0, 100, "expired"), stay("b", 107.2)])
    assert [(one.absent_ms, one.needed_ms) for one in found] == [(7_200, 53_000)]


def test_repeated_restarts_are_separate_returns() -> None:
    stays = [stay("a", 0, 100, "left"), stay("b", 105, 200, "left"), stay("c", 205)]
    assert pairs(*reversed(stays)) == [("a", "b"), ("b", "c")]


def test_members_that_stay_or_are_replaced_are_no_returns() -> None:
    assert pairs(stay("a", 0), stay("b", 10), stay("c", 20)) == []
    assert pairs(stay("a", 0, 100, "replaced"), stay("b", 100)) == []
    assert pairs(stay("a", 0, 100), stay("b", 105)) == []
    assert pairs(stay("a", 0, 100, "removed"), stay("b", 105)) == []


def test_the_last_member_that_left_a_place_returns_first() -> None:
    gone = [stay("a", 0, 50, "left"), stay("b", 0, 100, "left"), stay("c", 0, 101, "left")]
    assert pairs(*gone, stay("d", 110)) == [("c", "d")]
    assert pairs(*gone, stay("d", 110), stay("e", 111)) == [("c", "d"), ("b", "e")]


def test_a_join_is_no_return_of_a_member_of_another_place() -> None:
    assert pairs(stay("a", 0, 50, "left", place="x"), stay("b", 55, place="y")) == []


def test_a_departure_at_the_moment_of_an_arrival_comes_first() -> None:
    assert pairs(stay("a", 0, 50, "left"), stay("b", 50)) == [("a", "b")]


def test_returns_after_the_longest_session_do_not_count() -> None:
    limit_s = MAX_SESSION_TIMEOUT_MS / 1000
    assert pairs(stay("a", 0, 50, "left"), stay("b", 50 + limit_s - 3)) == [("a", "b")]
    assert pairs(stay("a", 0, 50, "left"), stay("b", 50 + limit_s)) == []
    late = [stay("a", 0, 10, "left"), stay("b", 0, 50, "left"), stay("c", 51 + limit_s), stay("d", 52 + limit_s)]
    assert pairs(*late) == []
