from __future__ import annotations

import pytest

from muster.coordinator.groups.classic.group import COMPLETING, EMPTY, PREPARING, STABLE
from muster.coordinator.groups.common import events
from muster.protocol.errors import ErrorCode
from tests.coordinator.groups.harness import BOTH, Room


def joined_at(room: Room, token: int, limit_ms: int = 100_000) -> int:
    """The virtual ms that pass until the answer to that JoinGroup."""
    for passed in range(0, limit_ms, 100):
        if room.reply(token) is not None:
            return passed
        room.advance(100)
    raise AssertionError("not answered")


# ---- the initial delay (KIP-134)


def test_a_lone_member_waits_for_one_delay() -> None:
    room = Room(group_initial_rebalance_delay_ms=3_000)
    assert room.join() is None
    assert joined_at(room, 1) == 3_000
    assert room.reply(1).generation_id == 1


def test_each_member_that_comes_prolongs_the_delay_up_to_the_rebalance_timeout() -> None:
    room = Room(group_initial_rebalance_delay_ms=3_000)
    for _ in range(4):
        room.join(rebalance=10_000)
        room.advance(2_900)
    assert room.reply(1).generation_id == 1  # at 10,000 of the 11,600 ms that have passed
    assert len(room.reply(1).members) == 4


def test_a_member_in_each_window_ends_at_the_rebalance_timeout() -> None:
    room = Room(group_initial_rebalance_delay_ms=3_000)
    room.join(rebalance=10_000)
    for at_ms in (1_000, 4_000, 7_000, 9_500):
        room.advance(at_ms - (room.now.mono_ms - 10_000))
        room.join(rebalance=10_000)
    room.advance(499)
    assert room.reply(1) is None
    room.advance(1)
    assert room.reply(1).generation_id == 1
    assert len(room.reply(1).members) == 5


def test_the_delay_is_prolonged_once_when_a_second_member_comes() -> None:
    room = Room(group_initial_rebalance_delay_ms=3_000)
    room.join(rebalance=300_000)
    room.advance(1_000)
    room.join(rebalance=300_000)
    room.advance(4_999)
    assert room.reply(1) is None
    room.advance(1)
    assert room.reply(1) is not None


def test_the_delay_is_not_cut_by_a_shorter_rebalance_timeout() -> None:
    room = Room(group_initial_rebalance_delay_ms=3_000)
    room.join(rebalance=100)
    room.join(rebalance=100)
    assert joined_at(room, 1) == 3_000


def test_an_id_handed_out_does_not_prolong_the_delay_but_its_use_does() -> None:
    room = Room(group_initial_rebalance_delay_ms=3_000)
    room.join()
    room.advance(1_000)
    pending = room.join(needs_id=True).member_id
    room.advance(2_000)
    assert room.reply(1) is not None  # the end of the delay waits for no pending id
    assert room.group().state == COMPLETING
    room.join(pending)
    assert room.group().state == PREPARING


def test_a_member_that_asks_again_does_not_prolong_the_delay() -> None:
    room = Room(group_initial_rebalance_delay_ms=3_000)
    room.join(instance="i")
    room.advance(1_000)
    room.join(instance="i")
    room.advance(2_000)
    assert room.reply(2) is not None


def test_every_rebalance_out_of_empty_waits() -> None:
    room = Room(group_initial_rebalance_delay_ms=3_000)
    room.join()
    room.advance(3_000)
    room.leave(room.reply(1).member_id)
    assert (room.group().state, room.group().generation) == (EMPTY, 2)
    room.join()
    room.advance(2_999)
    assert room.reply(3) is None
    room.advance(1)
    assert room.reply(3).generation_id == 3


def test_a_group_deserted_in_its_initial_delay_is_empty_when_the_delay_is_over() -> None:
    room = Room(group_initial_rebalance_delay_ms=3_000)
    room.join()
    room.leave("c-uuid1")
    assert room.reply(1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.group().state == PREPARING
    room.advance(3_000)
    assert (room.group().state, room.group().generation) == (EMPTY, 1)


# ---- the join phase


def test_it_is_a_barrier() -> None:
    room = Room()
    a, b = room.stable()
    assert room.join() is None
    assert room.join(a) is None
    assert room.beat(b) == ErrorCode.REBALANCE_IN_PROGRESS
    reply = room.join(b)
    assert (reply.generation_id, reply.leader, list(reply.members)) == (3, a, [])
    assert [one.member_id for one in room.reply(room.asked - 2).members] == list(room.group().members)


def test_it_ends_with_the_rebalance_timeout_of_the_slowest_and_removes_who_has_not_come() -> None:
    room = Room()
    a, b, c = room.stable(count=3)
    room.group().members[b].rebalance_timeout_ms = 30_000
    for member in (a, b, c):
        room.group().members[member].session_timeout_ms = 100_000
        room.beat(member)
    room.join(a, session=100_000, rebalance=1_000)
    room.advance(29_999)
    assert room.reply(room.asked) is None
    room.advance(1)
    assert list(room.group().members) == [a]
    removed = [event.facts for event in room.events if event.kind == events.MEMBER_REMOVED]
    assert [one["member"].member for one in removed] == [b, c]
    assert {one["cause"] for one in removed} == {events.JOIN_TIMEOUT}


def test_later_joins_do_not_prolong_it() -> None:
    room = Room()
    a, b = room.stable()
    room.group().members[b].session_timeout_ms = 100_000
    room.beat(b)
    room.join(a, rebalance=5_000, session=100_000)
    room.advance(4_000)
    room.join(rebalance=60_000, session=100_000)
    room.advance(15_999)
    assert room.group().state == PREPARING
    room.advance(1)
    assert room.group().state == COMPLETING
    assert b not in room.group().members


def test_a_static_member_stays_though_it_has_not_come() -> None:
    room = Room()
    ids = room.stable(static=True)
    for member in ids:
        room.group().members[member].session_timeout_ms = 100_000
        room.beat(member)
    room.join(ids[1], instance="i1", session=100_000, protocols=(("range", b"new"),))
    room.advance(20_000)
    reply = room.reply(room.asked)
    assert (reply.leader, len(reply.members)) == (ids[1], 2)
    assert list(room.group().pending_sync) == ids


@pytest.mark.parametrize("rebalance", [0, 5_000])
def test_when_nobody_comes_but_static_members_are_there_it_waits_for_their_sessions(rebalance: int) -> None:
    room = Room()
    ids = room.completing(static=True, count=2)
    room.sync(ids[0], {})
    room.sync(ids[1])
    for member in ids:
        room.group().members[member].rebalance_timeout_ms = rebalance
    room.leave(ids[0])
    generation = room.group().generation
    assert room.group().state == PREPARING
    room.advance(9_000)
    assert (room.group().state, room.group().generation) == (PREPARING, generation)
    room.advance(1_000)
    assert (room.group().state, room.group().generation) == (EMPTY, generation + 1)


def test_the_leader_stays_when_it_comes_and_is_replaced_when_it_does_not() -> None:
    room = Room()
    a, b = room.stable()
    room.join(b, protocols=BOTH)
    assert room.join(a).leader == a
    room.sync(a)
    room.sync(b)
    room.join(b)  # a follower's repetition
    room.join(b, protocols=(("range", b"z"),), session=100_000)
    room.advance(20_000)
    assert room.group().leader_id == b


def test_the_protocol_is_voted_for_each_generation() -> None:
    room = Room()
    a, _ = room.stable(count=2, protocols=BOTH)
    assert room.group().protocol_name == "range"
    room.join(protocols=(("roundrobin", b"only"),))
    room.join(a, protocols=BOTH)
    reply = room.join(list(room.group().members)[1], protocols=BOTH)
    assert reply.protocol_name == "roundrobin"
    assert [one.metadata for one in room.reply(room.asked - 1).members] == [b"rr", b"rr", b"only"]


def test_nothing_is_written_when_it_ends_with_members() -> None:
    room = Room()
    room.join()
    assert room.group().state == COMPLETING
    assert len(room.records) == 1  # of the new group


def test_the_last_member_gone_the_group_is_empty_with_one_generation_more() -> None:
    room = Room()
    (a,) = room.stable(count=1)
    room.leave(a)
    group = room.group()
    assert (group.state, group.generation, group.protocol_type, group.protocol_name, group.leader_id) == (
        EMPTY,
        2,
        "consumer",
        None,
        None,
    )
    value = room.records[-1].value
    assert (value.members, value.leader, value.protocol, value.generation) == ([], None, None, 2)  # type: ignore[union-attr]  # a group's
    assert room.kinds()[-1] == events.GROUP_EMPTIED
    assert room.join().generation_id == 3


# ---- sessions


def test_a_silent_member_is_removed_after_its_session_timeout() -> None:
    room = Room()
    a, b = room.stable()
    room.advance(9_999)
    assert room.beat(a) == 0
    room.advance(1)
    assert list(room.group().members) == [a]
    assert room.group().state == PREPARING
    assert room.beat(b) == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.events[-1].facts["trigger"].member == b
    assert room.events[-1].facts["cause"] == events.SESSION_EXPIRED


def test_a_parked_request_is_a_sign_of_life() -> None:
    room = Room()
    a, _ = room.stable()
    room.join(a, protocols=BOTH, rebalance=60_000)
    room.group().join_deadline.due_ms = room.now.mono_ms + 60_000
    room.advance(15_000)
    assert a in room.group().members
    b_gone = room.reply(room.asked)
    assert b_gone.error_code == 0  # the other one's session ended, so everyone was there
    assert room.group().state == COMPLETING


def test_a_parked_sync_is_a_sign_of_life_and_its_answer_begins_the_session_anew() -> None:
    room = Room()
    a, b = room.completing()
    room.sync(b)
    for _ in range(3):
        room.advance(5_000)
        room.beat(a)
    room.sync(a, {b: b"x"})
    assert b in room.group().members
    room.advance(9_999)
    assert b in room.group().members
    room.advance(1)
    assert b not in room.group().members


def test_a_new_member_is_waited_for_five_minutes_whatever_its_session() -> None:
    room = Room()
    a, b = room.stable()
    room.join(session=1_000, rebalance=1_000_000)
    group = room.group()
    for _ in range(29):
        group.join_deadline.due_ms = room.now.mono_ms + 1_000_000
        room.advance(9_990)
        room.beat(a)
        room.beat(b)
    new = next(reversed(group.members))
    assert group.members[new].parked_join is not None
    group.join_deadline.due_ms = room.now.mono_ms + 1_000_000
    for _ in range(2):
        room.advance(9_990)
        room.beat(a)
        room.beat(b)
    assert new not in group.members
    expired = [one[0] for token, one in room.replies.items() if getattr(one[0], "error_code", 0) == 25]
    assert [(one.member_id, one.generation_id) for one in expired] == [("", -1)]  # type: ignore[attr-defined]  # a JoinGroup's


def test_a_session_that_ends_completes_a_join_phase_even_in_its_initial_delay() -> None:
    room = Room(group_initial_rebalance_delay_ms=400_000)
    room.join()
    room.advance(300_000)
    assert (room.group().state, room.group().generation) == (EMPTY, 1)
    assert room.reply(1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


# ---- the sync phase


def test_who_has_not_synced_within_the_rebalance_timeout_is_removed() -> None:
    room = Room()
    a, b = room.completing()
    room.sync(a, {})
    assert room.group().state == STABLE
    for _ in range(2):
        room.advance(9_000)
        assert room.beat(a) == room.beat(b) == 0
    room.advance(2_000)
    assert list(room.group().members) == [a]
    assert room.group().state == PREPARING
    assert room.events[-1].facts["cause"] == events.SYNC_TIMEOUT
    assert room.events[-1].facts["trigger"].member == b


def test_when_the_leader_never_syncs_the_others_are_told_to_join_again() -> None:
    room = Room()
    a, b = room.completing()
    room.sync(b)
    token = room.asked
    for _ in range(2):
        room.advance(9_000)
        room.beat(a)
    room.advance(2_000)
    assert room.reply(token).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert list(room.group().members) == [b]
    assert room.group().leader_id == b


def test_the_sync_timer_is_off_when_everybody_has_synced() -> None:
    room = Room()
    ids = room.stable()
    for _ in range(5):
        room.advance(9_000)
        assert [room.beat(one) for one in ids] == [0, 0]


def test_a_group_where_nobody_syncs_is_empty_in_the_end() -> None:
    room = Room()
    room.join(rebalance=5_000)
    room.advance(5_000)
    assert (room.group().state, room.group().generation) == (EMPTY, 2)


# ---- a rebalance out of CompletingRebalance, and out of Stable


def test_out_of_completing_assignments_go_and_parked_syncs_are_answered() -> None:
    room = Room()
    a, b = room.stable()
    room.join(a)
    room.join(b)
    assert room.group().state == COMPLETING
    room.sync(b)
    token = room.asked
    room.join(a, protocols=BOTH)
    reply = room.reply(token)
    assert (reply.error_code, reply.assignment, reply.protocol_name) == (27, b"", None)
    assert [one.assignment for one in room.group().members.values()] == [b"", b""]


def test_out_of_stable_assignments_stay_to_be_seen() -> None:
    room = Room()
    a, _ = room.stable()
    room.join(a)
    assert [one.assignment for one in room.group().members.values()] == [b"0", b"1"]
