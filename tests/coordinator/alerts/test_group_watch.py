"""Each rule of alerts has a story that fires it, and one that does not."""

from __future__ import annotations

import pytest

from muster.coordinator.groups.common import events
from muster.pipeline.episodes.live import Rebalancing
from muster.pipeline.episodes.thresholds import AGAIN_MS, OVERLAP_MS
from tests.coordinator.alerts.story import MINUTE, SECOND, START_MS, Story

TOO_LATE = {"reason": "consumer poll timeout has expired."}


def test_a_member_that_dies_and_returns_again_and_again_is_a_crash_loop_until_an_hour_later() -> None:
    story = Story("web-1", "web-2")
    for _ in range(3):
        assert story.rules() == []
        story.later(MINUTE).restarts("web-1", kind=events.MEMBER_EXPIRED)
    assert story.rules() == ["crash_loop"]
    assert story.texts()[0].startswith("web-1 crash-loops: 6 rebalances")
    assert story.later(2 * AGAIN_MS).rules() == []


def test_a_rolling_restart_is_no_crash_loop() -> None:
    story = Story("web-1", "web-2", "web-3")
    for name in ("web-1", "web-2", "web-3") * 2:
        story.later(MINUTE).restarts(name)
    assert story.rules() == []


def test_two_members_in_turn_are_flapping_and_two_that_restart_once_are_not() -> None:
    story = Story("a", "b")
    for name in "aba":
        story.later(MINUTE).restarts(name)
    assert story.rules() == []
    for name in "bab":
        story.later(MINUTE).restarts(name)
    assert story.rules() == ["flapping"]


@pytest.mark.parametrize(("reason", "rules"), [(TOO_LATE["reason"], ["slow_poller"]), ("the consumer is closed", [])])
def test_a_slow_poller_is_known_by_the_reason_with_which_it_leaves(reason: str, rules: list[str]) -> None:
    story = Story("web-1", "web-2").later(MINUTE).restarts("web-1", reason=reason)
    assert story.rules() == rules


def test_many_rebalances_for_no_reason_are_unstable_and_few_are_not() -> None:
    story = Story("web-1", "web-2")
    for number in range(14):
        assert story.rules() == [] or number >= 8
        story.later(30 * SECOND).rebalances(events.LEADER_REJOINED, "web-1")
    assert story.rules() == ["unstable"]


def test_a_member_that_keeps_others_waiting_is_named_after_half_a_minute() -> None:
    story = Story("web-1", "web-2", "web-3")
    story.watch.rebalancing = Rebalancing("PreparingRebalance", story.now_ms, 3, [("web-2", "is to join again")])
    assert story.later(29 * SECOND).rules() == []
    assert story.later(SECOND).rules() == ["waited_for"]
    assert story.texts()[0].startswith("web-2 keeps 2 other members waiting since 15:06: it is to join again")


def test_a_rebalance_of_which_several_members_hold_up_the_others_is_stuck_after_five_minutes() -> None:
    story = Story("a", "b", "c")
    holding = [("a", "is to join again"), ("b", "is to join again")]
    story.watch.rebalancing = Rebalancing("PreparingRebalance", story.now_ms, 3, holding)
    assert story.later(5 * MINUTE - 1).rules() == []
    assert story.later(1).rules() == ["stuck"]
    assert "a and b have something left to do" in story.texts()[0]
    story.watch.rebalancing = None
    assert story.rules() == []


def test_processes_that_take_an_instance_id_from_each_other_are_fenced_and_restarts_are_not() -> None:
    story, calm = Story("i", "j", instances=True), Story("i", "j", instances=True)
    for number in range(3):
        story.later(MINUTE).is_replaced("i", f"/10.0.1.{number % 2}")
        calm.later(MINUTE).is_replaced("i", "/10.0.1.1", is_refused=False)
    assert "fenced" in story.rules()
    assert "fenced" not in calm.rules()
    assert any("take the instance id i from each other (10.0.1.0, 10.0.1.1): fenced 3 times" in one
               for one in story.texts())  # fmt: skip


def test_a_partition_whose_offset_stays_while_records_come_stands_still() -> None:
    story = Story("web-1")
    story.watch.owners = {("t", 0): "web-1"}
    for number in range(4):
        story.commits((number, 10 + number))
    for number in range(6):
        assert story.rules() == []
        story.commits((3, 20 + number), is_new=False)
    story.commits((3, 30), is_new=False)
    assert story.rules() == ["stalled"]
    assert "t-0 stands still at offset 3" in story.texts()[0]
    story.watch.owners = {}
    assert story.rules() == []  # nobody is to read it


def test_a_record_that_is_tried_again_and_again_is_named() -> None:
    story = Story("web-1")
    story.watch.owners = {("t", 0): "web-1"}
    for end in range(5, 15):
        story.commits((3, end))
    assert story.rules() == ["stalled"]
    assert "web-1 commits offset 3 of t-0 again and again" in story.texts()[0]


def test_a_group_that_reads_on_or_has_read_all_does_not_stand_still() -> None:
    story = Story("web-1")
    story.watch.owners = {("t", 0): "web-1"}
    for number in range(12):
        story.commits((10 * number, 10 * number + 5))
    assert story.rules() == []
    for _ in range(12):
        story.commits((200, 200), is_new=False)
    assert (story.rules(), story.watch.commits.is_behind) == ([], True)
    for _ in range(40):
        story.commits((200, 200), is_new=False)
    assert not story.watch.commits.is_behind


def test_a_group_whose_lag_grows_steadily_is_too_slow() -> None:
    story, fast = Story("web-1", "web-2"), Story("web-1", "web-2")
    for number in range(1, 20):
        story.commits((100 * number, 1_000 * number))
        fast.commits((990 * number, 1_000 * number))
    assert "too_slow" in story.rules()
    assert fast.rules() == []


def test_commits_that_go_back_again_and_again_are_of_a_second_application() -> None:
    story, reset = Story("web-1"), Story("web-1")
    for number in range(8):
        story.commits((100 if number % 2 else 50, 200))
        reset.commits((100 + number if number != 4 else 20, 200))
    assert "second_application" in story.rules()
    assert "second_application" not in reset.rules()


def test_members_that_read_different_topics_are_two_applications_after_a_deploy() -> None:
    story = Story("a", "b")
    members = [("a", frozenset({"t"})), ("b", frozenset({"u"}))]
    story.watch.subscribed(members, story.now_ms)
    assert story.rules() == []
    story.later(OVERLAP_MS + 1).watch.subscribed(members, story.now_ms)
    assert story.rules() == ["two_topics"]
    story.watch.subscribed([("a", frozenset({"t"})), ("b", frozenset({"t", "u"}))], story.now_ms)
    assert story.rules() == []


def test_a_group_is_forgotten_when_nothing_about_it_is_recent() -> None:
    story = Story("a", "b").later(MINUTE).goes("b")
    assert not story.watch.is_idle(story.now_ms)
    assert story.watch.is_idle(story.later(3 * AGAIN_MS).now_ms)
    assert [one.heard_ms for one in story.watch.heard()] == [None]
    assert story.now_ms > START_MS
