"""Members of one group that read different topics."""

from __future__ import annotations

from muster.pipeline.episodes.applications import Application, Subscriptions, applications, together

A, B = frozenset({"orders"}), frozenset({"payments", "refunds"})
BOTH: Subscriptions = [("a-1", A), ("b-1", B), ("a-2", A)]


def test_members_with_different_topics_are_several_applications() -> None:
    assert applications(BOTH) == [
        Application(("orders",), ("a-1", "a-2")), Application(("payments", "refunds"), ("b-1",))
    ]  # fmt: skip


def test_members_that_share_a_topic_are_one_application() -> None:
    (found,) = applications([("a", A), ("b", B), ("c", A | {"refunds"})])
    assert (found.topics, found.clients) == (("orders", "payments", "refunds"), ("a", "b", "c"))
    assert applications([("a", A), ("b", frozenset())]) == [Application(("orders",), ("a",))]


def test_a_deploy_that_changes_the_topics_is_no_second_application() -> None:
    alone: Subscriptions = [("a-1", A)]
    assert together([(0, 50_000, alone), (50_000, 110_000, BOTH), (110_000, 900_000, [("b-1", B)])]) is None


def test_at_the_end_of_the_log_nobody_knows_whether_it_is_a_deploy() -> None:
    some = [(0, 50_000, BOTH[:1]), (50_000, 90_000, BOTH)]
    found = together(some, 90_000)
    assert found is not None
    assert not found.is_sure
    assert together(some, 300_000) is None
    assert together([(0, 70_000, BOTH[:1]), (70_000, 90_000, BOTH)], 90_000) is None


def test_two_applications_are_found_across_their_restarts() -> None:
    found = together([(0, 90_000, BOTH), (90_000, 100_000, [("a-1", A)]), (100_000, 190_000, BOTH)])
    assert found is not None
    assert (found.from_ms, found.until_ms, [one.topics[0] for one in found.applications]) == (
        0, 190_000, ["orders", "payments"]
    )  # fmt: skip
