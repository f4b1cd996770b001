from __future__ import annotations

from muster.coordinator.groups.classic.group import PREPARING
from muster.protocol.errors import ErrorCode
from tests.coordinator.groups.harness import BOTH, GroupHarness


def test_a_newer_join_of_a_member_is_answered_and_its_older_one_gets_a_late_error() -> None:
    harness = GroupHarness()
    a, b = harness.stable()
    harness.join(b, protocols=BOTH)
    older = harness.asked
    harness.join(b, protocols=BOTH)
    newer = harness.asked
    harness.join(a)
    assert harness.reply(newer).error_code == 0
    assert harness.reply(older) is None
    harness.advance(10_000)
    assert (harness.reply(older).error_code, harness.reply(older).member_id) == (ErrorCode.REBALANCE_IN_PROGRESS, b)


def test_a_newer_sync_of_a_member_is_answered_and_its_older_one_gets_a_late_error() -> None:
    harness = GroupHarness()
    a, b = harness.completing()
    harness.sync(b)
    older = harness.asked
    harness.sync(b)
    newer = harness.asked
    harness.sync(a, {b: b"x"})
    assert harness.reply(newer).assignment == b"x"
    assert harness.reply(older) is None
    harness.advance(10_000)
    assert harness.reply(older).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_the_parked_sync_of_a_leaving_member_gets_a_late_error() -> None:
    harness = GroupHarness()
    _, b = harness.completing()
    harness.sync(b)
    token = harness.asked
    harness.leave(b)
    assert harness.group().state == PREPARING
    assert harness.reply(token) is None
    harness.advance(10_000)
    assert harness.reply(token).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.core.state.abandoned == {}


def test_the_parked_join_of_a_leaving_member_is_refused_at_once() -> None:
    harness = GroupHarness()
    _, b = harness.stable()
    harness.join(b, protocols=BOTH)
    token = harness.asked
    harness.leave(b)
    assert (harness.reply(token).error_code, harness.reply(token).member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")


def test_an_answered_sync_restarts_the_session_also_when_the_answer_is_an_error() -> None:
    harness = GroupHarness()
    a, b = harness.completing()
    harness.sync(b)
    harness.advance(9_000)
    harness.join(a, protocols=BOTH)
    harness.advance(9_000)
    assert b in harness.group().members
    harness.advance(1_000)
    assert b not in harness.group().members


def test_a_coordinator_that_resigns_answers_every_parked_request() -> None:
    harness = GroupHarness()
    for group in ("preparing", "completing"):
        harness.join(group=group, instance="a")
        harness.join(group=group, instance="b")
    harness.join(harness.group("completing").static_ids["a"], group="completing")
    b = harness.group("completing").static_ids["b"]
    harness.sync(b, group="completing")
    harness.sync(b, group="completing")
    new = harness.group("preparing").static_ids["b"]
    assert harness.collect(harness.core.resign(ErrorCode.NOT_COORDINATOR)).replies
    late = {token: got[0] for token, got in harness.replies.items() if got[0].error_code == ErrorCode.NOT_COORDINATOR}
    assert len(late) == 2
    assert [getattr(one, "member_id", None) for one in late.values()] == [new, None]
    assert harness.reply(harness.asked - 1).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert set(harness.replies) == set(range(1, harness.asked + 1))
    assert harness.core.next_deadline_ms() is None
    assert harness.core.state.groups == {}
