"""What administrators change in share groups without members: start offsets, and the deletion of states and groups.

The states are changed outside of the core, between two commands. The first command records what is about to happen, and
its answer waits. The second command has the result.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from sys import intern
from typing import Final

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.group import Group
from muster.coordinator.groups.common.state import Step, size_of, with_bytes
from muster.coordinator.groups.share import partition_states, records, states
from muster.coordinator.groups.share.commands import StatesDeleted, StatesUnwanted, StatesWanted
from muster.coordinator.groups.share.group import ShareGroup, share_group
from muster.coordinator.groups.share.states import NamedPartitions, States
from muster.coordinator.state_machine.interface import Command
from muster.protocol.errors import ErrorCode, error_message
from muster.protocol.message import ZERO_UUID
from muster.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from muster.protocol.messages.delete_groups import DeleteGroupsRequest
from muster.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)

NO_OFFSETS: Final = "There is no offset information to delete."
_UNKNOWN_TOPIC: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _refusal(group: Group | None, group_id: str) -> tuple[int, str] | None:
    """Error code and message if the group is no share group without members."""
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found."
    if not isinstance(group, ShareGroup):
        return ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group."
    if group.members:
        return ErrorCode.NON_EMPTY_GROUP, error_message(ErrorCode.NON_EMPTY_GROUP)
    return None


# ---- AlterShareGroupOffsets


def alter(step: Step, command: Command, request: AlterShareGroupOffsetsRequest) -> None:
    """Give partitions new start offsets. As on Kafka, a group that does not exist is created."""
    group_id = request.group_id
    present = step.state.groups.get(group_id)
    refusal = None if present is None else _refusal(present, group_id)
    if refusal is not None:
        step.reply(command.respond, AlterShareGroupOffsetsResponse(0, *refusal))
        return
    offsets: dict[bytes, dict[int, int]] = {}
    new: dict[bytes, NamedPartitions] = {}
    rows = [_alter_topic(step, topic, offsets, new) for topic in request.topics]
    response = AlterShareGroupOffsetsResponse(0, 0, None, rows)
    if not new:
        step.reply(command.respond, response)
        return
    group = present if isinstance(present, ShareGroup) else ShareGroup(intern(group_id))
    made = with_bytes(partition_states.record_of_new(step, group, new))
    if size_of([made.row]) > step.max_bytes:
        step.reply(command.respond, AlterShareGroupOffsetsResponse(0, ErrorCode.UNKNOWN_SERVER_ERROR))
        return
    step.record(made)
    if present is None:
        step.event(events.GROUP_CREATED, group_id)
    recorded = share_group(step.state, group_id)
    assert recorded is not None
    wanted = StatesWanted(group_id, group.epoch, offsets, command=command, response=response)
    partition_states.create(step, recorded, wanted)


def _alter_topic(
    step: Step,
    topic: AlterShareGroupOffsetsRequestTopic,
    offsets: dict[bytes, dict[int, int]],
    new: dict[bytes, NamedPartitions],
) -> AlterShareGroupOffsetsResponseTopic:
    known = step.state.image.by_name.get(topic.topic_name)
    count = 0 if known is None else known.partitions
    its = {one.partition_index: one.start_offset for one in topic.partitions if one.partition_index < count}
    if known is not None:
        new[known.topic_id] = NamedPartitions(topic.topic_name, tuple(sorted(its)))
        if its:
            offsets[known.topic_id] = its
    rows = []
    for one in topic.partitions:
        error = 0 if one.partition_index < count else _UNKNOWN_TOPIC
        message = error_message(error) if error else None
        rows.append(AlterShareGroupOffsetsResponsePartition(one.partition_index, error, message))
    topic_id = ZERO_UUID if known is None else known.topic_id
    return AlterShareGroupOffsetsResponseTopic(topic.topic_name, topic_id, rows)


# ---- DeleteShareGroupOffsets


def delete_offsets(step: Step, command: Command, request: DeleteShareGroupOffsetsRequest) -> None:
    """Delete the states of these topics. The members of the group begin again there."""
    group_id, image = request.group_id, step.state.image
    group = step.state.groups.get(group_id)
    refusal = _refusal(group, group_id)
    if refusal is not None:
        step.reply(command.respond, DeleteShareGroupOffsetsResponse(0, *refusal))
        return
    assert isinstance(group, ShareGroup)
    its = group.states
    response = DeleteShareGroupOffsetsResponse(0, 0, None, [])
    if its is None:
        step.reply(command.respond, response)
        return
    initialized, deleting = dict(its.initialized), set(its.deleting)
    doomed: dict[bytes, Sequence[int]] = {}
    failed = []
    for row in request.topics:
        topic = image.by_name.get(row.topic_name)
        if topic is None:
            message = error_message(_UNKNOWN_TOPIC)
            failed.append(DeleteShareGroupOffsetsResponseTopic(row.topic_name, ZERO_UUID, _UNKNOWN_TOPIC, message))
        elif topic.topic_id in initialized:
            doomed[topic.topic_id] = initialized.pop(topic.topic_id).partitions
            deleting.add(topic.topic_id)
        elif topic.topic_id in deleting:
            doomed[topic.topic_id] = range(topic.partitions)
        else:
            failed.append(DeleteShareGroupOffsetsResponseTopic(row.topic_name, ZERO_UUID, _UNKNOWN_TOPIC, NO_OFFSETS))
    step.record(partition_states.record_of(group_id, States(its.initializing, initialized, deleting), image))
    response.responses = failed
    wanted = StatesUnwanted(command, {group_id: doomed} if doomed else {}, response)
    if not doomed:
        step.reply(command.respond, response)
    elif not _ask(step, wanted):
        offsets_deleted(step, StatesDeleted(wanted, {}))


def offsets_deleted(step: Step, result: StatesDeleted) -> None:
    """Record which states are deleted now, and answer the administrator."""
    (group_id, doomed), response = next(iter(result.wanted.partitions.items())), result.wanted.response
    failures, image = result.failures.get(group_id, {}), step.state.image
    failed, done = list(response.responses), list[DeleteShareGroupOffsetsResponseTopic]()
    for topic_id in doomed:
        topic = image.by_id.get(topic_id)
        name = "" if topic is None else topic.name
        error = next((code for (one, _), (code, _) in failures.items() if one == topic_id), 0)
        row = DeleteShareGroupOffsetsResponseTopic(name, topic_id, error, error_message(error) if error else None)
        (failed if error else done).append(row)
    group = share_group(step.state, group_id)
    if done and group is not None and group.states is not None:
        left = frozenset(group.states.deleting) - {row.topic_id for row in done}
        step.record(partition_states.record_of(group_id, group.states._replace(deleting=left), image))
        deleted = {row.topic_name: sorted(doomed[row.topic_id]) for row in done}
        step.event(events.OFFSETS_DELETED, group_id, cause=events.ASKED, topics=deleted)
    response.responses = [*done, *failed]
    step.reply(result.command.respond, response)


# ---- DeleteGroups


def begin_deletion(step: Step, command: Command, request: DeleteGroupsRequest) -> bool:
    """Ask for the deletion of the states of these groups, if there are any. Returns whether the answer has to wait."""
    doomed: dict[str, Mapping[bytes, Sequence[int]]] = {}
    for group_id in dict.fromkeys(request.groups_names):
        group = share_group(step.state, group_id)
        if group is None or group.members or group.states is None:
            continue
        its = states.doomed(group.states, step.state.image)
        names = {topic_id: named.name for topic_id, named in its.items()}
        step.record(records.states(group_id, States(deleting=frozenset(its)), names))
        if its:
            doomed[group_id] = {topic_id: named.partitions for topic_id, named in its.items()}
    return bool(doomed) and _ask(step, StatesUnwanted(command, doomed))


def _ask(step: Step, request: StatesUnwanted) -> bool:
    """Ask for the deletion of these states. Returns False if nobody keeps states."""
    helpers = step.state.helpers
    if helpers is None or helpers.change_states is None:
        return False
    step.reply(helpers.change_states, request)
    return True


def failed_groups(result: StatesDeleted) -> dict[str, int]:
    """The error code of each group whose states could not all be deleted."""
    return {group_id: next(iter(failures.values()))[0] for group_id, failures in result.failures.items() if failures}


# ---- topics


def forget_topics(step: Step, topic_ids: Collection[bytes]) -> None:
    """After topics were deleted, remove them from the states of all groups. Their states are deleted elsewhere."""
    if not topic_ids:
        return
    for group in list(step.state.groups.values()):
        its = group.states if isinstance(group, ShareGroup) else None
        if its is None:
            continue
        initializing, initialized = (
            {topic_id: named for topic_id, named in some.items() if topic_id not in topic_ids}
            for some in (its.initializing, its.initialized)
        )
        left = States(initializing, initialized, frozenset(its.deleting).difference(topic_ids))
        if left != its:
            step.record(partition_states.record_of(group.group_id, left, step.state.image))
