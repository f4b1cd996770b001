"""A static member that returns (KIP-345): its new incarnation replaces the old one, which is fenced.

Its stored assignment, its leadership, and the client id and host of the old connection stay, as on Kafka.
"""

from __future__ import annotations

from muster.coordinator.groups.classic import history, records
from muster.coordinator.groups.classic.group import ClassicGroup
from muster.coordinator.groups.classic.join_command import JoinCommand
from muster.coordinator.groups.classic.member import Member
from muster.coordinator.groups.classic.parked_requests import answer_join, has_joined, join_refusal, restart_session
from muster.coordinator.groups.classic.rebalance import present
from muster.coordinator.groups.common import batch_size
from muster.coordinator.groups.common.shared_values import Protocols
from muster.coordinator.groups.common.step import Step
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.group_records.group_metadata import GroupMetadataValue
from muster.protocol.messages.join_group import JoinGroupRequest
from muster.protocol.messages.sync_group import SyncGroupResponse


def is_too_large(
    step: Step, group: ClassicGroup, request: JoinGroupRequest, member_id: str, protocols: Protocols
) -> bool:
    """Whether the group's record would exceed its limit, with the instance under that id."""
    record = records.group_metadata(group)
    old_id = group.static_ids[request.group_instance_id or ""]
    chosen = next((data for name, data in protocols if name == group.protocol_name), b"")
    assert isinstance(record.value, GroupMetadataValue)
    for one in record.value.members:
        if one.member_id == old_id:
            one.member_id, one.subscription = member_id, chosen
    if record.value.leader == old_id:
        record.value.leader = member_id
    shares = sum(len(one.assignment) for one in group.members.values())
    return batch_size.is_too_large(step, [record], records.texts(group) + len(member_id) + len(chosen) + shares)


def replace(step: Step, group: ClassicGroup, request: JoinGroupRequest, member_id: str, protocols: Protocols) -> Member:
    """The instance continues under `member_id`, with the settings of `request`.

    Parked requests of the old incarnation are fenced at once.
    """
    instance_id = request.group_instance_id or ""
    old_id = group.static_ids[instance_id]
    member = group.members[old_id]
    answer_join(step, group, member, join_refusal(old_id, ErrorCode.FENCED_INSTANCE_ID))
    if member.parked_sync is not None:
        step.reply(member.parked_sync, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
        member.parked_sync = None
    group.rename(instance_id, member_id)
    member.is_new = False
    restart_session(step, member)  # by the old session timeout: Kafka sets the new one only after this
    has_joined(step, member)
    group.update(member, protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
    history.replaced(step, group, member, old_id, request.reason)
    return member


def answer_in_place(step: Step, group: ClassicGroup, command: JoinCommand, member: Member, old_leader: str) -> None:
    """The vote has the same winner, so no rebalance is needed: record the new id, answer with the present generation.

    From v9 on the leader's answer says that it must skip the assignment (KIP-814). An older version has no field for
    that. The leader then gets a follower's answer, with the id that led before this request.
    """
    step.record(records.group_metadata(group))
    leads = command.supports_skip_assignment and member.member_id == group.leader_id
    response = present(group, member, full=leads)
    response.skip_assignment = leads
    if not command.supports_skip_assignment:
        response.leader = old_leader
    step.reply(command.respond, response)
