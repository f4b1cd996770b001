"""Cores with a deliberate fault, one rule each: they prove that each checker can fail.

`MUTANTS`: name -> (the checker that finds it, how to break the core).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest

from muster.coordinator.groups import core
from muster.coordinator.groups.classic import group as classic
from muster.coordinator.groups.classic import join, rebalance, records, sessions
from muster.coordinator.groups.classic.member import SESSION
from muster.coordinator.groups.classic.sessions import SUCCESS
from muster.coordinator.groups.common import committed_offsets as offsets
from muster.coordinator.groups.offsets import commit
from muster.protocol.errors import ErrorCode

Break = Callable[[pytest.MonkeyPatch], None]
_Group: Final = classic.ClassicGroup


def everybody_leads(patch: pytest.MonkeyPatch) -> None:
    """Each member is answered that it is the leader."""
    present = rebalance.present

    def alone(group: Any, member: Any, *, full: bool) -> Any:
        response = present(group, member, full=full)
        response.leader = member.member_id
        return response

    patch.setattr(rebalance, "present", alone)


def anybody_assigns(patch: pytest.MonkeyPatch) -> None:
    """The first SyncGroup counts as the leader's."""
    handle = rebalance.sync_group

    def first(step: Any, command: Any, request: Any, group: Any) -> None:
        known = group.state == "CompletingRebalance" and request.member_id in group.members
        leader = group.leader_id if known else None
        if known:
            group.leader_id = request.member_id
        handle(step, command, request, group)
        if known and group.leader_id == request.member_id:
            group.leader_id = leader

    patch.setitem(core.MEMBER_REQUESTS[rebalance.SyncGroupRequest], _Group, first)


def the_same_share_for_all(patch: pytest.MonkeyPatch) -> None:
    """All members get the share of the first member that the leader named."""
    _assign = rebalance._assign

    def alike(step: Any, group: Any, command: Any, assignments: dict[str, bytes]) -> None:
        share = next(iter(assignments.values()), b"")
        _assign(step, group, command, dict.fromkeys(group.members, share))

    patch.setattr(rebalance, "_assign", alike)


def everybody_its_own_protocol(patch: pytest.MonkeyPatch) -> None:
    """Each member is answered the protocol that it prefers."""
    present = rebalance.present

    def own(group: Any, member: Any, *, full: bool) -> Any:
        response = present(group, member, full=full)
        response.protocol_name = member.protocols[0][0]
        return response

    patch.setattr(rebalance, "present", own)


def votes_for_what_not_all_offer(patch: pytest.MonkeyPatch) -> None:
    """The protocol that the first member prefers wins, whoever offers it."""
    patch.setattr(_Group, "vote", lambda group: next(iter(group.members.values())).protocols[0][0])


def generations_go_back(patch: pytest.MonkeyPatch) -> None:
    """Sometimes a round makes an earlier generation."""
    begin = _Group.begin_generation

    def back(group: Any) -> None:
        begin(group)
        group.generation -= 2 * (group.generation % 4 == 0)

    patch.setattr(_Group, "begin_generation", back)


def generations_jump_when_deserted(patch: pytest.MonkeyPatch) -> None:
    """The generation of a group that becomes Empty grows by two."""
    begin = _Group.begin_generation

    def jump(group: Any) -> None:
        begin(group)
        group.generation += not group.members

    patch.setattr(_Group, "begin_generation", jump)


def no_barrier(patch: pytest.MonkeyPatch) -> None:
    """A round ends with the first member that joins."""
    patch.setattr(_Group, "has_everyone", property(lambda group: group.parked_joins > 0))


def pending_ids_do_not_count(patch: pytest.MonkeyPatch) -> None:
    """No round waits for an id that was handed out."""
    patch.setattr(_Group, "has_everyone", property(lambda group: group.parked_joins == len(group.members)))


def the_quickest_members_timeout(patch: pytest.MonkeyPatch) -> None:
    """A round waits for the shortest rebalance timeout of its members, not for the longest."""
    least = property(lambda group: min((one.rebalance_timeout_ms for one in group.members.values()), default=0))
    patch.setattr(_Group, "rebalance_timeout_ms", least)


def a_quarter_of_the_session(patch: pytest.MonkeyPatch) -> None:
    """After an answer a session lasts a quarter of its time."""

    def restart(step: Any, member: Any) -> None:
        step.state.deadlines.set(member, step.now.mono_ms + member.session_timeout_ms // 4)

    for module in (rebalance, join):
        patch.setattr(module, "restart_session", restart)


def the_old_incarnation_lives(patch: pytest.MonkeyPatch) -> None:
    """A heartbeat of a replaced static member is answered as if it were a member."""
    _heartbeats_ignore(patch, ErrorCode.FENCED_INSTANCE_ID)


def heartbeats_keep_quiet(patch: pytest.MonkeyPatch) -> None:
    """A heartbeat is not answered REBALANCE_IN_PROGRESS."""
    _heartbeats_ignore(patch, ErrorCode.REBALANCE_IN_PROGRESS)


def _heartbeats_ignore(patch: pytest.MonkeyPatch, error: int) -> None:
    for kind, answer in core.HEARTBEATS.items():
        patch.setitem(core.HEARTBEATS, kind, partial(_lenient, answer, error))


def _lenient(answer: Any, error: int, *of: Any) -> Any:
    response = answer(*of)
    return SUCCESS if response.error_code == error else response


def leavers_stay(patch: pytest.MonkeyPatch) -> None:
    """A member that leaves by instance is answered so, and stays in the group."""
    patch.setattr(sessions, "drop_member", lambda step, group, member_id: group.members.get(member_id))


def answered_twice(patch: pytest.MonkeyPatch) -> None:
    """The token of a parked SyncGroup is kept when it is answered."""
    answer = rebalance.answer_syncs

    def again(step: Any, group: Any, error: int) -> None:
        tokens = {member.member_id: member.parked_sync for member in group.members.values()}
        answer(step, group, error)
        for member in group.members.values():
            member.parked_sync = tokens[member.member_id]

    for module in (rebalance, rebalance):
        patch.setattr(module, "answer_syncs", again)


def lesser_offsets_are_dropped(patch: pytest.MonkeyPatch) -> None:
    """A commit of a lesser offset is acknowledged, and not kept."""
    put = offsets.Offsets.put

    def keep(own: Any, group_id: str, topic: str, partition: int, packed: Any) -> None:
        known = own.get(group_id, topic, partition)
        if known is None or known.offset < offsets.unpack(packed).offset:
            put(own, group_id, topic, partition, packed)

    patch.setattr(offsets.Offsets, "put", keep)


def commits_are_not_written(patch: pytest.MonkeyPatch) -> None:
    """Every other commit changes the state, and has no record."""
    record_all = commit.Step.record_all

    def forget(step: Any, made: Any) -> None:
        record_all(step, made)
        step.records = [one for one in step.records if not getattr(one.key, "partition", 0) % 2]

    patch.setattr(commit.Step, "record_all", forget)


def assignments_are_not_loaded(patch: pytest.MonkeyPatch) -> None:
    """A load forgets the members' assignments."""
    restore = records._restore

    def forget(group: Any, value: Any, shared: Any) -> None:
        new = not group.members
        restore(group, value, shared)
        for member in group.members.values() if new else ():
            member.assignment = b""

    patch.setattr(records, "_restore", forget)


def _deadlines_are_missed(patch: pytest.MonkeyPatch, kind: str) -> None:
    patch.setitem(core.DEADLINES, kind, lambda step, group, deadline: None)


def sessions_never_end(patch: pytest.MonkeyPatch) -> None:
    """A silent member stays for ever."""
    _deadlines_are_missed(patch, SESSION)


def join_deadlines_are_missed(patch: pytest.MonkeyPatch) -> None:
    """A round waits for members that do not join, unless they are removed otherwise."""
    _deadlines_are_missed(patch, classic.JOIN_PHASE)


def sync_deadlines_are_missed(patch: pytest.MonkeyPatch) -> None:
    """The group waits for a leader that does not sync."""
    _deadlines_are_missed(patch, classic.SYNC_PHASE)


def the_replaced_request_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A JoinGroup that another JoinGroup of the same member replaced is never answered."""
    patch.setattr(rebalance, "_abandon", lambda step, member, respond, response: None)


def resigning_forgets(patch: pytest.MonkeyPatch) -> None:
    """No parked request is answered when the core is given up."""
    patch.setitem(core.UNLOADED, _Group, lambda group, error: [])


def unused_ids_are_kept(patch: pytest.MonkeyPatch) -> None:
    """Every round waits for an id that was never used."""
    _deadlines_are_missed(patch, rebalance.PENDING)


def rounds_take_their_time(patch: pytest.MonkeyPatch) -> None:
    """A running round ends with its timeout, never before."""
    patch.setattr(rebalance, "complete_if_joined", lambda step, group, cut_delay=False: None)


def trips(patch: pytest.MonkeyPatch) -> None:
    """A needed decision is missing in the table."""
    patch.setattr(
        join, "DECISIONS", {pair: what for pair, what in join.DECISIONS.items() if pair != (join.CHANGED, "Stable")}
    )


MUTANTS: Final[dict[str, tuple[str, Break]]] = {
    one.__name__: (checker, one)
    for checker, broken in {
        "OneLeader": (everybody_leads, anybody_assigns),
        "OneOwner": (the_same_share_for_all,),
        "OneProtocol": (everybody_its_own_protocol, votes_for_what_not_all_offer),
        "GenerationsGrow": (generations_go_back, generations_jump_when_deserted),
        "Barrier": (no_barrier, pending_ids_do_not_count, the_quickest_members_timeout),
        "RoundsEnd": (unused_ids_are_kept, rounds_take_their_time),
        "RebalanceAnnounced": (heartbeats_keep_quiet,),
        "NobodyRemoved": (a_quarter_of_the_session,),
        "FencedStayOut": (the_old_incarnation_lives, leavers_stay),
        "AnsweredOnce": (answered_twice,),
        "CommitsShown": (lesser_offsets_are_dropped,),
        "ReplayTheSame": (commits_are_not_written, assignments_are_not_loaded),
        "NobodyStuck": (sessions_never_end,),
        "AnswersInTime": (
            join_deadlines_are_missed,
            sync_deadlines_are_missed,
            the_replaced_request_is_forgotten,
            resigning_forgets,
        ),
        "KeyError": (trips,),
    }.items()
    for one in broken
}
