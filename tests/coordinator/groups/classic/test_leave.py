from __future__ import annotations

import pytest

from muster.coordinator.groups.classic.group import EMPTY, PREPARING, STABLE
from muster.coordinator.groups.common import events
from muster.coordinator.state_machine.interface import Client, Command
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.coordinator.groups.harness import GroupHarness


def batch(harness: GroupHarness, *members: tuple[str, str | None]) -> list[tuple[str, str | None, int]]:
    rows = [MemberIdentity(member, instance) for member, instance in members]
    reply = harness.send(LeaveGroupRequest("g", "", rows))
    assert reply.error_code == 0
    return [(one.member_id, one.group_instance_id, one.error_code) for one in reply.members]


def test_the_empty_group_id_is_refused() -> None:
    reply = GroupHarness().leave("x", group="")
    assert (reply.error_code, list(reply.members)) == (ErrorCode.INVALID_GROUP_ID, [])


def test_leaving_an_unknown_group_is_answered_with_unknown_member_id() -> None:
    assert batch(GroupHarness(), ("x", None), ("", "i")) == [("x", None, 25), ("", "i", 25)]


def test_leaving_begins_a_rebalance_and_makes_the_member_id_unknown() -> None:
    harness = GroupHarness()
    a, b = harness.stable()
    assert batch(harness, (b, None)) == [(b, None, 0)]
    assert harness.group().state == PREPARING
    assert harness.beat(a) == ErrorCode.REBALANCE_IN_PROGRESS
    assert harness.beat(b) == harness.commit(b, 2) == ErrorCode.UNKNOWN_MEMBER_ID
    left, began = [event for event in harness.events if event.kind != events.REQUEST_REFUSED][-2:]
    assert (left.kind, left.facts["member"].member, left.facts["reason"]) == (events.MEMBER_LEFT, b, None)
    assert (began.facts["cause"], began.facts["trigger"].member) == (events.LEFT, b)


def test_a_static_member_leaves_by_its_instance_id_alone() -> None:
    harness = GroupHarness()
    a, b = harness.stable(static=True)
    assert batch(harness, ("", "i1"), ("", "i9"), ("", None)) == [("", "i1", 0), ("", "i9", 25), ("", None, 25)]
    assert harness.group().static_ids == {"i0": a}
    assert harness.beat(b) == ErrorCode.UNKNOWN_MEMBER_ID


def test_each_row_of_a_leave_has_its_own_answer_in_order() -> None:
    harness = GroupHarness()
    a, b, c = harness.stable(count=3, static=True)
    got = batch(harness, (b, "i1"), ("ghost", None), (c, "i1"), (c, "i0"), (c, None), (c, None), ("", "i1"))
    assert [error for _, _, error in got] == [0, 25, 25, 82, 0, 25, 25]
    assert list(harness.group().members) == [a]
    assert harness.kinds().count(events.REBALANCE_STARTED) == 3  # two to get here, and one


@pytest.mark.parametrize("rows", [[], [("ghost", None), ("", "i9")]])
def test_a_leave_of_nobody_begins_no_rebalance(rows: list[tuple[str, str | None]]) -> None:
    harness = GroupHarness()
    harness.stable()
    batch(harness, *rows)
    assert harness.group().state == STABLE


def test_a_pending_member_id_that_leaves_rebalances_a_stable_group() -> None:
    harness = GroupHarness()
    harness.stable()
    new = harness.join(needs_id=True).member_id
    assert batch(harness, (new, "whatever")) == [(new, "whatever", 0)]
    assert harness.group().state == PREPARING


def test_a_pending_member_id_that_leaves_an_empty_group_changes_nothing() -> None:
    harness = GroupHarness()
    new = harness.join(needs_id=True).member_id
    batch(harness, (new, None))
    assert (harness.group().state, harness.group().generation) == (EMPTY, 0)
    assert harness.only_retention_is_due()


def test_a_join_that_waits_only_for_the_leaving_member_is_answered_before_the_leave() -> None:
    harness = GroupHarness()
    a, b = harness.stable()
    harness.join(a)
    request = LeaveGroupRequest("g", "", [MemberIdentity(b)])
    output = harness.core.handle(Command(request, "leave", Client("c", "/h")), harness.now)
    assert [token for token, _ in output.replies] == [harness.asked, "leave"]


def test_another_member_becomes_leader_when_the_leader_leaves() -> None:
    harness = GroupHarness()
    a, b, _ = harness.stable(count=3)
    batch(harness, (a, None))
    assert harness.group().leader_id == b


def test_a_leave_of_all_members_empties_the_group() -> None:
    harness = GroupHarness()
    a, b = harness.stable()
    batch(harness, (a, None), (b, None))
    assert (harness.group().state, harness.group().generation) == (EMPTY, 3)


def test_a_member_that_left_is_not_removed_again_by_a_timeout() -> None:
    harness = GroupHarness()
    a, b, c = harness.stable(count=3)
    harness.leave(b)
    harness.join(a)
    harness.join(c)  # nor does the group wait for anything else of that generation
    harness.leave(c)
    harness.join(a)
    harness.sync(a)
    for _ in range(6):
        harness.advance(9_000)
        assert harness.beat(a) == 0
    assert events.MEMBER_REMOVED not in harness.kinds()
