from __future__ import annotations

import pytest

from muster.coordinator.groups.classic.group import COMPLETING, EMPTY, PREPARING, STABLE
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.delete_groups import DeleteGroupsRequest
from tests.coordinator.groups.harness import BOTH, GroupHarness


def test_a_pending_member_id_is_forgotten_after_its_session_timeout() -> None:
    harness = GroupHarness()
    new = harness.join(needs_id=True, session=600).member_id
    harness.advance(599)
    assert list(harness.group().pending) == [new]
    harness.advance(1)
    assert harness.group().pending == {}
    assert harness.join(new).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_two_joins_without_a_member_id_get_two_ids() -> None:
    harness = GroupHarness()
    harness.join(needs_id=True)
    harness.join(needs_id=True)
    assert len(harness.group().pending) == 2


def test_a_pending_member_id_holds_up_a_join_phase_until_it_joins() -> None:
    harness = GroupHarness()
    a, b = harness.stable()
    new = harness.join(needs_id=True).member_id
    assert harness.group().state == STABLE
    assert harness.join(a) is None
    assert harness.join(b) is None
    assert harness.join(new).generation_id == 3


def test_a_pending_member_id_holds_up_a_join_phase_until_it_is_forgotten() -> None:
    harness = GroupHarness()
    a, b = harness.stable()
    harness.join(needs_id=True, session=600)
    harness.join(a)
    harness.join(b)
    harness.advance(600)
    assert harness.reply(harness.asked).generation_id == 3


def test_a_pending_member_id_holds_up_a_join_phase_until_it_leaves() -> None:
    harness = GroupHarness()
    (a,) = harness.stable(count=1)
    new = harness.join(needs_id=True).member_id
    harness.join(a)
    assert harness.group().state == PREPARING
    assert harness.leave(new).members[0].error_code == 0
    assert harness.group().state == COMPLETING
    assert harness.core.state.deadlines.next_ms() is not None


def test_a_pending_member_id_holds_up_a_join_phase_until_the_rebalance_timeout() -> None:
    harness = GroupHarness()
    (a,) = harness.stable(count=1)
    new = harness.join(needs_id=True, session=600_000).member_id
    harness.join(a, protocols=BOTH)
    harness.advance(20_000)
    assert harness.group().state == COMPLETING
    assert list(harness.group().pending) == [new]
    assert harness.join(new) is None
    assert harness.group().state == PREPARING


def test_a_pending_member_id_that_is_forgotten_leaves_a_stable_group_as_it_is() -> None:
    harness = GroupHarness()
    (a,) = harness.stable(count=1)
    harness.join(needs_id=True, session=600)
    harness.advance(600)
    assert harness.group().state == STABLE
    assert harness.beat(a) == 0


def test_a_pending_member_id_is_not_a_member() -> None:
    harness = GroupHarness()
    new = harness.join(needs_id=True).member_id
    assert harness.beat(new, 0) == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.sync(new, generation=0).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.commit(new, 0) == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.group().state == EMPTY


@pytest.mark.parametrize("session", [600, 600_000])
def test_a_group_with_only_pending_member_ids_can_be_deleted(session: int) -> None:
    harness = GroupHarness()
    new = harness.join(needs_id=True, session=session).member_id
    assert harness.send(DeleteGroupsRequest(["g"])).results[0].error_code == 0
    assert harness.only_retention_is_due()
    assert harness.join(new).error_code == ErrorCode.UNKNOWN_MEMBER_ID
