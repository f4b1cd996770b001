from __future__ import annotations

import pytest

from muster.coordinator.groups.classic import join
from muster.coordinator.groups.classic.group import COMPLETING, DEAD, EMPTY, PREPARING, STABLE, STATES
from muster.coordinator.groups.classic.join import (
    DECISIONS,
    MAX_METADATA_BYTES,
    SENDERS,
    CheckedJoin,
    JoinCommand,
    sender_of,
)
from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import MemberFacts, Trigger
from muster.coordinator.state_machine.interface import Client
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.join_group import JoinGroupRequest
from tests.coordinator.groups.harness import BOTH, RANGE, GroupHarness


def test_the_join_table_has_a_decision_for_every_sender_and_state() -> None:
    assert set(DECISIONS) == {(sender, state) for sender in SENDERS for state in STATES if state != DEAD}
    assert set(DECISIONS.values()) - {join.IMPOSSIBLE} == set(join._ACTIONS) | set(join._REFUSALS)


# ---- checks, in Kafka's order


def test_the_empty_group_id_is_refused() -> None:
    reply = GroupHarness().join("ghost", group="")
    assert (reply.error_code, reply.member_id) == (ErrorCode.INVALID_GROUP_ID, "ghost")


@pytest.mark.parametrize(("session", "error"), [(5, 26), (6, 0), (100, 0), (101, 26)])
def test_the_session_timeout_has_inclusive_bounds(session: int, error: int) -> None:
    harness = GroupHarness(group_min_session_timeout_ms=6, group_max_session_timeout_ms=100)
    assert harness.join(session=session).error_code == error


def test_the_session_timeout_is_checked_before_the_group_exists() -> None:
    reply = GroupHarness(group_max_session_timeout_ms=100).join("ghost", session=101)
    assert (reply.error_code, reply.member_id) == (ErrorCode.INVALID_SESSION_TIMEOUT, "ghost")


def test_a_member_id_does_not_create_a_group() -> None:
    harness = GroupHarness()
    reply = harness.join("ghost", instance="i")
    assert (reply.error_code, reply.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "ghost")
    assert (harness.records, harness.core.state.groups) == ([], {})


def test_a_refused_join_shows_nothing_of_the_group() -> None:
    reply = GroupHarness().join("ghost")
    assert (reply.generation_id, reply.leader, list(reply.members)) == (-1, "", [])
    assert (reply.protocol_type, reply.protocol_name, reply.skip_assignment) == (None, None, False)


@pytest.mark.parametrize(
    ("kind", "protocols"),
    [("connect", RANGE), ("consumer", (("sticky", b""),)), ("consumer", ()), ("", RANGE)],
)
def test_protocols_must_fit_those_of_the_members(kind: str, protocols: tuple[tuple[str, bytes], ...]) -> None:
    harness = GroupHarness()
    a, _ = harness.stable()
    assert harness.join(kind=kind, protocols=protocols).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    reply = harness.join(a, kind=kind, protocols=protocols)
    assert (reply.error_code, reply.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, a)
    assert harness.group().state == STABLE


@pytest.mark.parametrize(("kind", "protocols"), [("", RANGE), ("consumer", ())])
def test_an_empty_group_takes_any_protocol_type_and_protocols_unless_they_are_empty(
    kind: str, protocols: tuple[tuple[str, bytes], ...]
) -> None:
    harness = GroupHarness()
    assert harness.join(kind=kind, protocols=protocols).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert harness.join(kind="whatever").error_code == 0


def test_a_refused_first_join_still_creates_the_group() -> None:
    harness = GroupHarness()
    harness.join(kind="")
    assert (harness.group().state, harness.group().generation, len(harness.records)) == (EMPTY, 0, 1)
    assert harness.kinds() == [events.GROUP_CREATED, events.REQUEST_REFUSED]


# ---- the sender


def test_the_sender_of_a_join_is_classified_by_its_ids_and_protocols() -> None:
    harness = GroupHarness()
    leader, follower = harness.stable()
    static = harness.join(instance="i", settle=False) or next(reversed(harness.group().members))
    pending = harness.join(needs_id=True).member_id

    def who(member: str, instance: str | None = None, *, needs_id: bool = True, protocols: object = RANGE) -> str:
        request = JoinGroupRequest("g", 1, 1, member, instance)
        command = JoinCommand(request, 0, Client("c", "/h"), "x", needs_id, True)
        return sender_of(harness.group(), CheckedJoin(command, request, protocols))

    assert who("") == join.NEEDS_ID
    assert who("", needs_id=False) == join.NEW
    assert who("", "new") == join.NEW
    assert who("", "i") == join.STATIC_BACK
    assert who(pending) == join.PENDING
    assert who(pending, "i") == join.PENDING_STATIC
    assert who(leader, "i") == join.FENCED
    assert who(leader, "new") == join.UNKNOWN
    assert who("ghost") == join.UNKNOWN
    assert who(leader) == join.LEADER
    assert who(follower) == join.FOLLOWER
    assert who(static, "i") == who(static) == join.FOLLOWER
    assert who(leader, protocols=BOTH) == join.CHANGED


# ---- the table, row by row: Empty, PreparingRebalance, CompletingRebalance, Stable


def in_state(state: str, **kwargs: object) -> tuple[GroupHarness, list[str]]:
    harness = GroupHarness()
    if state == EMPTY:
        (member,) = harness.stable(count=1)
        harness.leave(member)
        assert harness.group().state == EMPTY
        return harness, [member, member]
    if state == PREPARING:
        ids = harness.stable(**kwargs)
        harness.join(ids[0])
        assert harness.group().state == PREPARING
        return harness, ids
    ids = harness.completing(**kwargs) if state == COMPLETING else harness.stable(**kwargs)
    return harness, ids


ALIVE = [EMPTY, PREPARING, COMPLETING, STABLE]


@pytest.mark.parametrize("state", ALIVE)
def test_row_a_a_member_id_is_handed_out_at_once_and_the_state_stays(state: str) -> None:
    harness, _ = in_state(state)
    before = len(harness.records)
    reply = harness.join(needs_id=True, client="me")
    assert reply.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert reply.member_id == f"me-uuid{harness.asked}"
    assert (reply.generation_id, reply.protocol_name) == (-1, None)
    assert (harness.group().state, list(harness.group().pending)) == (state, [reply.member_id])
    assert len(harness.records) == before


@pytest.mark.parametrize("state", ALIVE)
@pytest.mark.parametrize("instance", [None, "new"])
def test_rows_b_and_c_a_new_member_is_added_and_waits(state: str, instance: str | None) -> None:
    harness, ids = in_state(state)
    reply = harness.join(instance=instance, client="me", settle=False)
    assert reply is None
    assert harness.group().state == PREPARING
    new = next(reversed(harness.group().members))
    assert new == f"{instance or 'me'}-uuid{harness.asked}"
    assert harness.group().static_ids == ({} if instance is None else {instance: new})
    if state != EMPTY:
        for member in ids:
            harness.join(member)
    harness.settle()
    assert harness.group().state == COMPLETING


@pytest.mark.parametrize("state", [PREPARING, COMPLETING])
def test_row_d_a_static_member_that_returns_during_a_rebalance_waits_for_its_end(state: str) -> None:
    harness, ids = in_state(state, static=True)
    generation = harness.group().generation
    assert harness.join(instance="i1") is None or state == PREPARING
    new = harness.group().static_ids["i1"]
    assert new != ids[1]
    if state == COMPLETING:
        harness.join(ids[0])
    assert (harness.group().state, harness.group().generation) == (COMPLETING, generation + 1)
    assert set(harness.group().members) == {ids[0], new}


@pytest.mark.parametrize("state", ALIVE)
def test_row_e_a_join_with_a_handed_out_id_becomes_a_member(state: str) -> None:
    harness, _ = in_state(state)
    new = harness.join(needs_id=True).member_id
    harness.join(new, settle=False)
    assert harness.group().state == PREPARING
    assert new in harness.group().members
    assert harness.group().pending == {}


@pytest.mark.parametrize("state", ALIVE)
def test_row_f_an_unknown_id_is_refused(state: str) -> None:
    harness, _ = in_state(state)
    reply = harness.join("ghost")
    assert (reply.error_code, reply.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "ghost")
    assert harness.group().state == state


@pytest.mark.parametrize("state", [COMPLETING, STABLE])
def test_row_g_a_follower_that_joins_again_unchanged_gets_the_current_generation(state: str) -> None:
    harness, (leader, follower) = in_state(state)
    reply = harness.join(follower, session=77, rebalance=78)
    assert (reply.error_code, reply.generation_id, reply.leader) == (0, 2, leader)
    assert (reply.protocol_type, reply.protocol_name, list(reply.members)) == ("consumer", "range", [])
    assert not reply.skip_assignment
    assert harness.group().state == state
    member = harness.group().members[follower]
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (10_000, 20_000)


def test_rows_g_and_i_a_follower_that_joins_again_in_a_join_phase_waits_with_its_new_settings() -> None:
    harness, (leader, follower) = in_state(PREPARING)
    assert harness.join(follower, session=77, rebalance=78, protocols=BOTH).error_code == 0
    member = harness.group().members[follower]
    assert (member.session_timeout_ms, member.rebalance_timeout_ms, member.protocols) == (77, 78, BOTH)
    assert harness.group().leader_id == leader


def test_row_h_a_leader_that_joins_again_before_it_has_assigned_gets_the_current_generation() -> None:
    harness, (leader, _) = in_state(COMPLETING)
    reply = harness.join(leader)
    assert (reply.error_code, reply.generation_id, len(reply.members)) == (0, 2, 2)
    assert harness.group().state == COMPLETING


def test_row_h_a_leader_that_joins_again_in_stable_begins_a_rebalance() -> None:
    harness, (leader, _) = in_state(STABLE)
    assert harness.join(leader, reason="topics changed") is None
    assert harness.group().state == PREPARING
    assert harness.events[-1].facts["cause"] == events.LEADER_REJOINED
    assert harness.events[-1].facts["trigger"].reason == "topics changed"


@pytest.mark.parametrize("state", [COMPLETING, STABLE])
@pytest.mark.parametrize("which", [0, 1])
def test_row_i_changed_metadata_begins_a_rebalance(state: str, which: int) -> None:
    harness, ids = in_state(state)
    assert harness.join(ids[which], protocols=(("range", b"other"),)) is None
    assert harness.group().state == PREPARING
    assert harness.events[-1].facts["cause"] == events.METADATA_CHANGED


def test_row_i_another_order_of_protocols_begins_a_rebalance() -> None:
    harness = GroupHarness()
    _, follower = harness.stable(protocols=BOTH)
    assert harness.join(follower, protocols=BOTH[::-1]) is None


@pytest.mark.parametrize("state", [PREPARING, COMPLETING, STABLE])
def test_row_j_a_join_with_another_members_instance_id_is_fenced(state: str) -> None:
    harness, _ = in_state(state, static=True)
    reply = harness.join("ghost", instance="i1")
    assert (reply.error_code, reply.member_id) == (ErrorCode.FENCED_INSTANCE_ID, "ghost")
    assert harness.group().state == state


def test_a_join_with_a_handed_out_id_and_an_instance_id_is_refused() -> None:
    harness = GroupHarness()
    new = harness.join(needs_id=True).member_id
    reply = harness.join(new, instance="i")
    assert (reply.error_code, reply.member_id) == (ErrorCode.UNKNOWN_SERVER_ERROR, "")
    assert harness.join(new).error_code == 0


# ---- group.max.size


def test_a_full_group_refuses_a_new_member_and_forgets_its_id() -> None:
    harness = GroupHarness(group_max_size=2)
    harness.stable()
    pending = harness.join(needs_id=True)
    assert pending.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert pending.member_id == ""
    assert harness.group().pending == {}


def test_member_ids_are_handed_out_beyond_the_group_size_but_a_join_with_them_is_refused() -> None:
    harness = GroupHarness(group_max_size=2)
    (a,) = harness.stable(count=1)
    b, c = (harness.join(needs_id=True).member_id for _ in "bc")
    harness.join(b)
    harness.join(a)
    reply = harness.join(c)
    assert (reply.error_code, reply.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert harness.group().pending == {}
    # Kafka does not check whether the group waited only for that member
    assert harness.group().state == PREPARING


def test_in_a_join_phase_the_first_members_to_join_fill_the_group() -> None:
    harness = GroupHarness()
    a, b, c = harness.stable(count=3)
    small = GroupHarness(group_max_size=2)
    for record in harness.records:
        small.core.replay([(record.key, record.value)], small.now)
    small.collect(small.core.loaded(small.now))
    assert small.group().state == PREPARING
    assert small.join(c) is None
    assert small.join(b) is None
    assert small.join(c) is None  # it has joined already
    assert small.join(a).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert list(small.group().members) == [b, c]
    assert small.events[-1].kind == events.MEMBER_REMOVED
    assert (small.events[-1].facts["member"].member, small.events[-1].facts["cause"]) == (a, events.GROUP_FULL)
    assert small.beat(a) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_refuses_even_its_own_static_member() -> None:
    harness = GroupHarness(group_max_size=2)
    harness.stable(static=True)
    assert harness.join(instance="i0").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_members_with_more_metadata_than_fits_into_the_leaders_answer_are_refused() -> None:
    harness = GroupHarness()
    half = MAX_METADATA_BYTES // 2
    (a,) = harness.stable(count=1)
    harness.join(protocols=[("range", b"x" * half), ("other", b"x" * 10)])
    harness.join(a, protocols=[("range", b"a" * half)])
    assert harness.group().support.metadata_bytes == 2 * half
    assert harness.join(protocols=[("range", b"x")]).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert harness.join(a, protocols=[("range", b"b" * half)]) is None, "it brings no more than it had"
    assert harness.group().support.metadata_bytes == 2 * half
    harness.leave(a)
    assert harness.group().support.metadata_bytes == half


def test_a_member_may_join_again_in_a_full_group() -> None:
    harness = GroupHarness(group_max_size=2)
    _, b = harness.stable()
    assert harness.join(b).error_code == 0


# ---- events


def test_the_event_of_a_join_says_who_joined_and_why() -> None:
    harness = GroupHarness()
    harness.join(client="me", reason="because")
    joined, began = harness.events[1:3]
    wall_ms = harness.now.wall_ms
    assert joined == (
        events.MEMBER_JOINED,
        "g",
        {
            "member": MemberFacts(
                "me-uuid1", None, "me", "/10.0.0.1", 10_000, 20_000, (("range", b"r"),), wall_ms, None, None, b""
            ),
            "protocol_type": "consumer",
            "reason": "because",
        },
    )
    assert began.facts == {
        "cause": events.NEW_MEMBER,
        "trigger": Trigger("me-uuid1", None, "me", "/10.0.0.1", "because"),
        "generation": 0,
        "members": 1,
        "state": EMPTY,
    }
