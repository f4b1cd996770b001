from __future__ import annotations

import pytest

from muster.coordinator.groups.classic.group import COMPLETING, PREPARING, STABLE
from muster.coordinator.groups.common import events
from muster.protocol.errors import ErrorCode
from tests.coordinator.groups.harness import BOTH, Room


def test_the_first_join_needs_no_id_and_is_named_by_the_instance() -> None:
    room = Room()
    reply = room.join(instance="i0", needs_id=True)
    assert (reply.error_code, reply.member_id) == (0, "i0-uuid1")
    assert reply.members[0].group_instance_id == "i0"


def test_back_in_stable_it_keeps_its_assignment_and_nobody_rebalances() -> None:
    room = Room()
    a, b = room.stable(static=True)
    reply = room.join(instance="i1", client="other")
    assert (reply.error_code, reply.generation_id, reply.leader, list(reply.members)) == (0, 2, a, [])
    assert not reply.skip_assignment
    assert reply.member_id not in (a, b)
    assert room.group().state == STABLE
    member = room.group().members[reply.member_id]
    assert (member.assignment, member.client_id, member.instance_id) == (b"1", "c", "i1")
    assert room.sync(reply.member_id).assignment == b"1"
    told = room.events[-1]
    assert told.kind == events.MEMBER_REPLACED
    assert (told.facts["member"].member, told.facts["member"].instance) == (reply.member_id, "i1")
    assert (told.facts["replaced"], told.facts["reason"]) == (b, None)


def test_the_new_id_is_recorded_before_it_is_answered() -> None:
    room = Room()
    room.stable(static=True)
    before = len(room.records)
    new = room.join(instance="i1").member_id
    assert len(room.records) == before + 1
    members = room.records[-1].value.members  # type: ignore[union-attr]  # a group's
    assert [(one.member_id, one.group_instance_id, one.assignment) for one in members][-1] == (new, "i1", b"1")


def test_the_leader_is_told_to_skip_the_assignment() -> None:
    room = Room()
    _, b = room.stable(static=True)
    reply = room.join(instance="i0")
    assert reply.skip_assignment
    assert reply.leader == reply.member_id == room.group().leader_id
    assert {one.member_id for one in reply.members} == {reply.member_id, b}


def test_before_v9_the_leader_is_answered_as_a_follower_of_its_old_self() -> None:
    room = Room()
    a, _ = room.stable(static=True)
    reply = room.join(instance="i0", skip=False)
    assert (reply.leader, list(reply.members), reply.skip_assignment) == (a, [], False)
    assert room.group().leader_id == reply.member_id
    assert room.join(instance="i1", skip=False).leader == reply.member_id


def test_other_metadata_is_taken_over_without_a_rebalance_when_the_vote_stays() -> None:
    room = Room()
    room.stable(static=True, protocols=BOTH)
    reply = room.join(instance="i1", protocols=(("range", b"new"), ("roundrobin", b"new")), session=77, rebalance=78)
    assert reply.generation_id == 2
    member = room.group().members[reply.member_id]
    assert (member.metadata("range"), member.session_timeout_ms, member.rebalance_timeout_ms) == (b"new", 77, 78)


def test_a_turned_vote_rebalances() -> None:
    room = Room()
    a, _ = room.stable(static=True, protocols=BOTH)
    assert room.join(instance="i1", protocols=(("roundrobin", b"x"),)) is None
    assert room.group().state == PREPARING
    token = room.asked
    assert room.join(a, protocols=BOTH).protocol_name == "roundrobin"
    assert room.reply(token).protocol_name == "roundrobin"


def test_back_in_completing_it_always_rebalances_and_fences_the_parked_sync() -> None:
    room = Room()
    _, b = room.completing(static=True)
    room.sync(b)
    token = room.asked
    assert room.join(instance="i1") is None
    assert (room.reply(token).error_code, room.reply(token).assignment) == (ErrorCode.FENCED_INSTANCE_ID, b"")
    assert room.group().state == PREPARING
    assert room.events[-1].facts["cause"] == events.STATIC_MEMBER_BACK


def test_back_in_preparing_it_takes_the_place_and_fences_the_parked_join() -> None:
    room = Room()
    a, b = room.stable(static=True)
    room.join(b, instance="i1", protocols=BOTH)
    token = room.asked
    assert room.join(instance="i1") is None
    fenced = room.reply(token)
    assert (fenced.error_code, fenced.member_id, fenced.generation_id) == (ErrorCode.FENCED_INSTANCE_ID, b, -1)
    assert room.join(a).generation_id == 3
    assert room.group().parked_joins == 0


@pytest.mark.parametrize("instance", ["i1", None])
def test_the_old_incarnation_is_refused_everywhere(instance: str | None) -> None:
    room = Room()
    _, b = room.stable(static=True)
    new = room.join(instance="i1").member_id
    error = ErrorCode.UNKNOWN_MEMBER_ID if instance is None else ErrorCode.FENCED_INSTANCE_ID
    assert room.beat(b, instance=instance) == error
    assert room.sync(b, instance=instance).error_code == error
    assert room.commit(b, 2, instance=instance) == error
    assert room.leave(b, instance=instance).members[0].error_code == error
    assert room.join(b, instance=instance).error_code == error
    assert room.beat(new, instance="i1") == room.beat(new) == 0


def test_a_new_id_each_time() -> None:
    room = Room()
    room.stable(static=True)
    seen = {room.join(instance="i1").member_id for _ in range(5)}
    assert len(seen) == 5
    assert len(room.group().members) == 2


def test_its_session_runs_on_under_the_new_id() -> None:
    room = Room()
    a, _ = room.stable(static=True)
    new = room.join(instance="i1").member_id
    room.advance(9_999)
    room.beat(a)
    room.advance(1)
    assert new not in room.group().members
    assert room.group().static_ids == {"i0": a}


def test_who_had_not_synced_is_still_expected_under_the_new_id() -> None:
    # Kafka expects the old id for ever, and rebalances when the rebalance timeout is over
    room = Room()
    a, b = room.completing(static=True)
    room.sync(a, {b: b"x"})
    new = room.join(instance="i1").member_id
    assert list(room.group().pending_sync) == [new]
    assert room.sync(new).assignment == b"x"
    assert room.group().pending_sync == {}
    for _ in range(3):
        room.advance(9_000)
        assert room.beat(a) == room.beat(new) == 0
    assert room.group().state == STABLE


def test_a_static_member_that_comes_back_too_late_is_a_new_one() -> None:
    room = Room()
    a, _ = room.stable(static=True)
    room.advance(5_000)
    room.beat(a)
    room.advance(5_000)
    assert room.join(a).generation_id == 3
    assert room.join(instance="i1") is None
    assert room.join(a).generation_id == 4
    assert room.group().state == COMPLETING


def test_it_survives_the_server() -> None:
    room = Room()
    a, b = room.stable(static=True)
    again = Room()
    again.asked = 100  # other ids
    for record in room.records:
        again.core.replay([(record.key, record.value)], again.now)
    again.take(again.core.loaded(again.now))
    assert again.beat("ghost", instance="i1") == ErrorCode.FENCED_INSTANCE_ID
    reply = again.join(instance="i1")
    assert (reply.error_code, reply.leader) == (0, a)
    assert again.sync(reply.member_id).assignment == b"1"
    assert again.beat(b) == ErrorCode.UNKNOWN_MEMBER_ID
