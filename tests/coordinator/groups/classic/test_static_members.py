from __future__ import annotations

import pytest

from muster.coordinator.groups.classic.group import COMPLETING, PREPARING, STABLE
from muster.coordinator.groups.common import events
from muster.protocol.errors import ErrorCode
from tests.coordinator.groups.harness import BOTH, GroupHarness


def test_a_first_static_join_needs_no_member_id_and_gets_one_named_after_the_instance() -> None:
    harness = GroupHarness()
    reply = harness.join(instance="i0", needs_id=True)
    assert (reply.error_code, reply.member_id) == (0, "i0-uuid1")
    assert reply.members[0].group_instance_id == "i0"


def test_a_static_member_that_returns_in_stable_keeps_its_assignment_without_a_rebalance() -> None:
    harness = GroupHarness()
    a, b = harness.stable(static=True)
    reply = harness.join(instance="i1", client="other")
    assert (reply.error_code, reply.generation_id, reply.leader, list(reply.members)) == (0, 2, a, [])
    assert not reply.skip_assignment
    assert reply.member_id not in (a, b)
    assert harness.group().state == STABLE
    member = harness.group().members[reply.member_id]
    assert (member.assignment, member.client_id, member.instance_id) == (b"1", "c", "i1")
    assert harness.sync(reply.member_id).assignment == b"1"
    event = harness.events[-1]
    assert event.kind == events.MEMBER_REPLACED
    assert (event.facts["member"].member, event.facts["member"].instance) == (reply.member_id, "i1")
    assert (event.facts["replaced"], event.facts["reason"]) == (b, None)


def test_the_new_member_id_of_a_static_member_is_recorded_before_the_answer() -> None:
    harness = GroupHarness()
    harness.stable(static=True)
    before = len(harness.records)
    new = harness.join(instance="i1").member_id
    assert len(harness.records) == before + 1
    members = harness.records[-1].value.members
    assert [(one.member_id, one.group_instance_id, one.assignment) for one in members][-1] == (new, "i1", b"1")


def test_the_leaders_answer_says_to_skip_the_assignment() -> None:
    harness = GroupHarness()
    _, b = harness.stable(static=True)
    reply = harness.join(instance="i0")
    assert reply.skip_assignment
    assert reply.leader == reply.member_id == harness.group().leader_id
    assert {one.member_id for one in reply.members} == {reply.member_id, b}


def test_a_returning_static_leader_is_answered_as_a_follower_before_version_9() -> None:
    harness = GroupHarness()
    a, _ = harness.stable(static=True)
    reply = harness.join(instance="i0", skip=False)
    assert (reply.leader, list(reply.members), reply.skip_assignment) == (a, [], False)
    assert harness.group().leader_id == reply.member_id
    assert harness.join(instance="i1", skip=False).leader == reply.member_id


def test_new_metadata_of_a_returning_static_member_is_kept_without_a_rebalance_if_the_protocol_stays() -> None:
    harness = GroupHarness()
    harness.stable(static=True, protocols=BOTH)
    reply = harness.join(instance="i1", protocols=(("range", b"new"), ("roundrobin", b"new")), session=77, rebalance=78)
    assert reply.generation_id == 2
    member = harness.group().members[reply.member_id]
    assert (member.metadata("range"), member.session_timeout_ms, member.rebalance_timeout_ms) == (b"new", 77, 78)


def test_a_returning_static_member_that_changes_the_elected_protocol_begins_a_rebalance() -> None:
    harness = GroupHarness()
    a, _ = harness.stable(static=True, protocols=BOTH)
    assert harness.join(instance="i1", protocols=(("roundrobin", b"x"),)) is None
    assert harness.group().state == PREPARING
    token = harness.asked
    assert harness.join(a, protocols=BOTH).protocol_name == "roundrobin"
    assert harness.reply(token).protocol_name == "roundrobin"


def test_a_static_member_that_returns_in_completing_begins_a_rebalance_and_fences_the_parked_sync() -> None:
    harness = GroupHarness()
    _, b = harness.completing(static=True)
    harness.sync(b)
    token = harness.asked
    assert harness.join(instance="i1") is None
    assert (harness.reply(token).error_code, harness.reply(token).assignment) == (ErrorCode.FENCED_INSTANCE_ID, b"")
    assert harness.group().state == PREPARING
    assert harness.events[-1].facts["cause"] == events.STATIC_MEMBER_BACK


def test_a_static_member_that_returns_in_preparing_takes_its_place_and_fences_the_parked_join() -> None:
    harness = GroupHarness()
    a, b = harness.stable(static=True)
    harness.join(b, instance="i1", protocols=BOTH)
    token = harness.asked
    assert harness.join(instance="i1") is None
    fenced = harness.reply(token)
    assert (fenced.error_code, fenced.member_id, fenced.generation_id) == (ErrorCode.FENCED_INSTANCE_ID, b, -1)
    assert harness.join(a).generation_id == 3
    assert harness.group().parked_joins == 0


@pytest.mark.parametrize("instance", ["i1", None])
def test_every_request_of_a_replaced_static_member_is_refused(instance: str | None) -> None:
    harness = GroupHarness()
    _, b = harness.stable(static=True)
    new = harness.join(instance="i1").member_id
    error = ErrorCode.UNKNOWN_MEMBER_ID if instance is None else ErrorCode.FENCED_INSTANCE_ID
    assert harness.beat(b, instance=instance) == error
    assert harness.sync(b, instance=instance).error_code == error
    assert harness.commit(b, 2, instance=instance) == error
    assert harness.leave(b, instance=instance).members[0].error_code == error
    assert harness.join(b, instance=instance).error_code == error
    assert harness.beat(new, instance="i1") == harness.beat(new) == 0


def test_a_static_member_gets_a_new_member_id_at_each_return() -> None:
    harness = GroupHarness()
    harness.stable(static=True)
    seen = {harness.join(instance="i1").member_id for _ in range(5)}
    assert len(seen) == 5
    assert len(harness.group().members) == 2


def test_the_session_of_a_static_member_continues_under_its_new_id() -> None:
    harness = GroupHarness()
    a, _ = harness.stable(static=True)
    new = harness.join(instance="i1").member_id
    harness.advance(9_999)
    harness.beat(a)
    harness.advance(1)
    assert new not in harness.group().members
    assert harness.group().static_ids == {"i0": a}


def test_a_static_member_that_had_not_synced_is_still_expected_under_its_new_id() -> None:
    # Kafka expects the old id for ever, and rebalances after the rebalance timeout
    harness = GroupHarness()
    a, b = harness.completing(static=True)
    harness.sync(a, {b: b"x"})
    new = harness.join(instance="i1").member_id
    assert list(harness.group().pending_sync) == [new]
    assert harness.sync(new).assignment == b"x"
    assert harness.group().pending_sync == {}
    for _ in range(3):
        harness.advance(9_000)
        assert harness.beat(a) == harness.beat(new) == 0
    assert harness.group().state == STABLE


def test_a_static_member_that_comes_back_too_late_is_a_new_one() -> None:
    harness = GroupHarness()
    a, _ = harness.stable(static=True)
    harness.advance(5_000)
    harness.beat(a)
    harness.advance(5_000)
    assert harness.join(a).generation_id == 3
    assert harness.join(instance="i1") is None
    assert harness.join(a).generation_id == 4
    assert harness.group().state == COMPLETING


def test_a_static_member_keeps_its_place_when_the_server_restarts() -> None:
    harness = GroupHarness()
    a, b = harness.stable(static=True)
    again = GroupHarness()
    again.asked = 100  # other ids
    for record in harness.records:
        again.core.replay([(record.key, record.value)], again.now)
    again.collect(again.core.loaded(again.now))
    assert again.beat("ghost", instance="i1") == ErrorCode.FENCED_INSTANCE_ID
    reply = again.join(instance="i1")
    assert (reply.error_code, reply.leader) == (0, a)
    assert again.sync(reply.member_id).assignment == b"1"
    assert again.beat(b) == ErrorCode.UNKNOWN_MEMBER_ID
