from __future__ import annotations

import pytest

from muster.coordinator.groups.classic.group import COMPLETING, EMPTY, PREPARING, STABLE
from muster.coordinator.groups.common import events
from muster.protocol.errors import ErrorCode
from tests.coordinator.groups.harness import BOTH, GroupHarness


def joined_at(harness: GroupHarness, token: int, limit_ms: int = 100_000) -> int:
    """The virtual ms until that JoinGroup is answered."""
    for passed in range(0, limit_ms, 100):
        if harness.reply(token) is not None:
            return passed
        harness.advance(100)
    raise AssertionError("not answered")


# ---- the initial delay (KIP-134)


def test_a_single_first_member_waits_for_the_initial_rebalance_delay() -> None:
    harness = GroupHarness(group_initial_rebalance_delay_ms=3_000)
    assert harness.join() is None
    assert joined_at(harness, 1) == 3_000
    assert harness.reply(1).generation_id == 1


def test_each_new_member_extends_the_initial_delay_up_to_the_rebalance_timeout() -> None:
    harness = GroupHarness(group_initial_rebalance_delay_ms=3_000)
    for _ in range(4):
        harness.join(rebalance=10_000)
        harness.advance(2_900)
    assert harness.reply(1).generation_id == 1  # at 10,000 of the 11,600 ms that have passed
    assert len(harness.reply(1).members) == 4


def test_the_initial_delay_ends_at_the_rebalance_timeout_though_members_keep_joining() -> None:
    harness = GroupHarness(group_initial_rebalance_delay_ms=3_000)
    harness.join(rebalance=10_000)
    for at_ms in (1_000, 4_000, 7_000, 9_500):
        harness.advance(at_ms - (harness.now.mono_ms - 10_000))
        harness.join(rebalance=10_000)
    harness.advance(499)
    assert harness.reply(1) is None
    harness.advance(1)
    assert harness.reply(1).generation_id == 1
    assert len(harness.reply(1).members) == 5


def test_a_second_member_extends_the_initial_delay_once() -> None:
    harness = GroupHarness(group_initial_rebalance_delay_ms=3_000)
    harness.join(rebalance=300_000)
    harness.advance(1_000)
    harness.join(rebalance=300_000)
    harness.advance(4_999)
    assert harness.reply(1) is None
    harness.advance(1)
    assert harness.reply(1) is not None


def test_a_shorter_rebalance_timeout_does_not_shorten_the_initial_delay() -> None:
    harness = GroupHarness(group_initial_rebalance_delay_ms=3_000)
    harness.join(rebalance=100)
    harness.join(rebalance=100)
    assert joined_at(harness, 1) == 3_000


def test_a_handed_out_member_id_does_not_extend_the_initial_delay_but_its_join_does() -> None:
    harness = GroupHarness(group_initial_rebalance_delay_ms=3_000)
    harness.join()
    harness.advance(1_000)
    pending = harness.join(needs_id=True).member_id
    harness.advance(2_000)
    assert harness.reply(1) is not None  # the end of the delay waits for no pending id
    assert harness.group().state == COMPLETING
    harness.join(pending)
    assert harness.group().state == PREPARING


def test_a_member_that_joins_again_does_not_extend_the_initial_delay() -> None:
    harness = GroupHarness(group_initial_rebalance_delay_ms=3_000)
    harness.join(instance="i")
    harness.advance(1_000)
    harness.join(instance="i")
    harness.advance(2_000)
    assert harness.reply(2) is not None


def test_every_rebalance_of_an_empty_group_waits_for_the_initial_delay() -> None:
    harness = GroupHarness(group_initial_rebalance_delay_ms=3_000)
    harness.join()
    harness.advance(3_000)
    harness.leave(harness.reply(1).member_id)
    assert (harness.group().state, harness.group().generation) == (EMPTY, 2)
    harness.join()
    harness.advance(2_999)
    assert harness.reply(3) is None
    harness.advance(1)
    assert harness.reply(3).generation_id == 3


def test_a_group_whose_members_leave_in_the_initial_delay_becomes_empty_at_its_end() -> None:
    harness = GroupHarness(group_initial_rebalance_delay_ms=3_000)
    harness.join()
    harness.leave("c-uuid1")
    assert harness.reply(1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.group().state == PREPARING
    harness.advance(3_000)
    assert (harness.group().state, harness.group().generation) == (EMPTY, 1)


# ---- the join phase


def test_a_join_phase_answers_all_members_when_the_last_has_joined() -> None:
    harness = GroupHarness()
    a, b = harness.stable()
    assert harness.join() is None
    assert harness.join(a) is None
    assert harness.beat(b) == ErrorCode.REBALANCE_IN_PROGRESS
    reply = harness.join(b)
    assert (reply.generation_id, reply.leader, list(reply.members)) == (3, a, [])
    assert [one.member_id for one in harness.reply(harness.asked - 2).members] == list(harness.group().members)


def test_a_join_phase_ends_with_the_largest_rebalance_timeout_and_removes_missing_members() -> None:
    harness = GroupHarness()
    a, b, c = harness.stable(count=3)
    harness.group().members[b].rebalance_timeout_ms = 30_000
    for member in (a, b, c):
        harness.group().members[member].session_timeout_ms = 100_000
        harness.beat(member)
    harness.join(a, session=100_000, rebalance=1_000)
    harness.advance(29_999)
    assert harness.reply(harness.asked) is None
    harness.advance(1)
    assert list(harness.group().members) == [a]
    removed = [event.facts for event in harness.events if event.kind == events.MEMBER_REMOVED]
    assert [one["member"].member for one in removed] == [b, c]
    assert {one["cause"] for one in removed} == {events.JOIN_TIMEOUT}


def test_later_joins_do_not_extend_the_join_phase() -> None:
    harness = GroupHarness()
    a, b = harness.stable()
    harness.group().members[b].session_timeout_ms = 100_000
    harness.beat(b)
    harness.join(a, rebalance=5_000, session=100_000)
    harness.advance(4_000)
    harness.join(rebalance=60_000, session=100_000)
    harness.advance(15_999)
    assert harness.group().state == PREPARING
    harness.advance(1)
    assert harness.group().state == COMPLETING
    assert b not in harness.group().members


def test_a_static_member_that_misses_the_join_phase_stays_in_the_group() -> None:
    harness = GroupHarness()
    ids = harness.stable(static=True)
    for member in ids:
        harness.group().members[member].session_timeout_ms = 100_000
        harness.beat(member)
    harness.join(ids[1], instance="i1", session=100_000, protocols=(("range", b"new"),))
    harness.advance(20_000)
    reply = harness.reply(harness.asked)
    assert (reply.leader, len(reply.members)) == (ids[1], 2)
    assert list(harness.group().pending_sync) == ids


@pytest.mark.parametrize("rebalance", [0, 5_000])
def test_a_join_phase_with_only_absent_static_members_waits_for_their_sessions(rebalance: int) -> None:
    harness = GroupHarness()
    ids = harness.completing(static=True, count=2)
    harness.sync(ids[0], {})
    harness.sync(ids[1])
    for member in ids:
        harness.group().members[member].rebalance_timeout_ms = rebalance
    harness.leave(ids[0])
    generation = harness.group().generation
    assert harness.group().state == PREPARING
    harness.advance(9_000)
    assert (harness.group().state, harness.group().generation) == (PREPARING, generation)
    harness.advance(1_000)
    assert (harness.group().state, harness.group().generation) == (EMPTY, generation + 1)


def test_the_leader_stays_if_it_joins_again_and_is_replaced_if_not() -> None:
    harness = GroupHarness()
    a, b = harness.stable()
    harness.join(b, protocols=BOTH)
    assert harness.join(a).leader == a
    harness.sync(a)
    harness.sync(b)
    harness.join(b)  # a follower repeats its JoinGroup
    harness.join(b, protocols=(("range", b"z"),), session=100_000)
    harness.advance(20_000)
    assert harness.group().leader_id == b


def test_the_protocol_is_elected_in_each_generation() -> None:
    harness = GroupHarness()
    a, _ = harness.stable(count=2, protocols=BOTH)
    assert harness.group().protocol_name == "range"
    harness.join(protocols=(("roundrobin", b"only"),))
    harness.join(a, protocols=BOTH)
    reply = harness.join(list(harness.group().members)[1], protocols=BOTH)
    assert reply.protocol_name == "roundrobin"
    assert [one.metadata for one in harness.reply(harness.asked - 1).members] == [b"rr", b"rr", b"only"]


def test_a_join_phase_that_ends_with_members_writes_no_record() -> None:
    harness = GroupHarness()
    harness.join()
    assert harness.group().state == COMPLETING
    assert len(harness.records) == 1  # a member of the new group


def test_the_group_becomes_empty_with_a_new_generation_when_its_last_member_leaves() -> None:
    harness = GroupHarness()
    (a,) = harness.stable(count=1)
    harness.leave(a)
    group = harness.group()
    assert (group.state, group.generation, group.protocol_type, group.protocol_name, group.leader_id) == (
        EMPTY,
        2,
        "consumer",
        None,
        None,
    )
    value = harness.records[-1].value
    assert (value.members, value.leader, value.protocol, value.generation) == ([], None, None, 2)
    assert harness.kinds()[-1] == events.GROUP_EMPTIED
    assert harness.join().generation_id == 3


# ---- sessions


def test_a_silent_member_is_removed_after_its_session_timeout() -> None:
    harness = GroupHarness()
    a, b = harness.stable()
    harness.advance(9_999)
    assert harness.beat(a) == 0
    harness.advance(1)
    assert list(harness.group().members) == [a]
    assert harness.group().state == PREPARING
    assert harness.beat(b) == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.events[-1].facts["trigger"].member == b
    assert harness.events[-1].facts["cause"] == events.SESSION_EXPIRED


def test_a_parked_join_keeps_the_session_alive() -> None:
    harness = GroupHarness()
    a, _ = harness.stable()
    harness.join(a, protocols=BOTH, rebalance=60_000)
    harness.group().join_deadline.due_ms = harness.now.mono_ms + 60_000
    harness.advance(15_000)
    assert a in harness.group().members
    b_gone = harness.reply(harness.asked)
    assert b_gone.error_code == 0  # the other session ended, so all members had joined
    assert harness.group().state == COMPLETING


def test_a_parked_sync_keeps_the_session_alive_and_its_answer_restarts_it() -> None:
    harness = GroupHarness()
    a, b = harness.completing()
    harness.sync(b)
    for _ in range(3):
        harness.advance(5_000)
        harness.beat(a)
    harness.sync(a, {b: b"x"})
    assert b in harness.group().members
    harness.advance(9_999)
    assert b in harness.group().members
    harness.advance(1)
    assert b not in harness.group().members


def test_the_group_waits_five_minutes_for_a_new_member_whatever_its_session_timeout() -> None:
    harness = GroupHarness()
    a, b = harness.stable()
    harness.join(session=1_000, rebalance=1_000_000)
    group = harness.group()
    for _ in range(29):
        group.join_deadline.due_ms = harness.now.mono_ms + 1_000_000
        harness.advance(9_990)
        harness.beat(a)
        harness.beat(b)
    new = next(reversed(group.members))
    assert group.members[new].parked_join is not None
    group.join_deadline.due_ms = harness.now.mono_ms + 1_000_000
    for _ in range(2):
        harness.advance(9_990)
        harness.beat(a)
        harness.beat(b)
    assert new not in group.members
    expired = [one[0] for token, one in harness.replies.items() if getattr(one[0], "error_code", 0) == 25]
    assert [(one.member_id, one.generation_id) for one in expired] == [("", -1)]


def test_an_expired_session_completes_a_join_phase_even_in_its_initial_delay() -> None:
    harness = GroupHarness(group_initial_rebalance_delay_ms=400_000)
    harness.join()
    harness.advance(300_000)
    assert (harness.group().state, harness.group().generation) == (EMPTY, 1)
    assert harness.reply(1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


# ---- the sync phase


def test_a_member_that_does_not_sync_within_the_rebalance_timeout_is_removed() -> None:
    harness = GroupHarness()
    a, b = harness.completing()
    harness.sync(a, {})
    assert harness.group().state == STABLE
    for _ in range(2):
        harness.advance(9_000)
        assert harness.beat(a) == harness.beat(b) == 0
    harness.advance(2_000)
    assert list(harness.group().members) == [a]
    assert harness.group().state == PREPARING
    assert harness.events[-1].facts["cause"] == events.SYNC_TIMEOUT
    assert harness.events[-1].facts["trigger"].member == b


def test_followers_get_rebalance_in_progress_when_the_leader_never_syncs() -> None:
    harness = GroupHarness()
    a, b = harness.completing()
    harness.sync(b)
    token = harness.asked
    for _ in range(2):
        harness.advance(9_000)
        harness.beat(a)
    harness.advance(2_000)
    assert harness.reply(token).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert list(harness.group().members) == [b]
    assert harness.group().leader_id == b


def test_the_sync_timer_stops_when_all_members_have_synced() -> None:
    harness = GroupHarness()
    ids = harness.stable()
    for _ in range(5):
        harness.advance(9_000)
        assert [harness.beat(one) for one in ids] == [0, 0]


def test_a_group_whose_members_never_sync_becomes_empty() -> None:
    harness = GroupHarness()
    harness.join(rebalance=5_000)
    harness.advance(5_000)
    assert (harness.group().state, harness.group().generation) == (EMPTY, 2)


# ---- a rebalance out of CompletingRebalance, and out of Stable


def test_a_rebalance_in_completing_drops_the_assignments_and_answers_parked_syncs() -> None:
    harness = GroupHarness()
    a, b = harness.stable()
    harness.join(a)
    harness.join(b)
    assert harness.group().state == COMPLETING
    harness.sync(b)
    token = harness.asked
    harness.join(a, protocols=BOTH)
    reply = harness.reply(token)
    assert (reply.error_code, reply.assignment, reply.protocol_name) == (27, b"", None)
    assert [one.assignment for one in harness.group().members.values()] == [b"", b""]


def test_a_rebalance_in_stable_keeps_the_old_assignments_visible() -> None:
    harness = GroupHarness()
    a, _ = harness.stable()
    harness.join(a)
    assert [one.assignment for one in harness.group().members.values()] == [b"0", b"1"]
