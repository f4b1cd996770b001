"""Deletion by clients, for groups of all types: OffsetDelete and DeleteGroups."""

from __future__ import annotations

from muster.coordinator.groups.common import events, records
from muster.coordinator.groups.common.batch_size import is_too_large
from muster.coordinator.groups.common.committed_offsets import Offsets
from muster.coordinator.groups.common.step import Step
from muster.coordinator.state_machine.interface import Command, Record
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from muster.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def delete_offsets(step: Step, command: Command, request: OffsetDeleteRequest) -> None:
    """Answer an OffsetDelete (KIP-496). Topics that a member subscribes to keep their offsets."""
    group = step.state.groups.get(request.group_id)
    if not request.group_id:
        error = ErrorCode.INVALID_GROUP_ID
    else:
        error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.validate_offset_delete()
    if error or group is None:
        step.reply(command.respond, OffsetDeleteResponse(error))
        return
    made: list[Record] = []
    rows = [
        _delete_topic(step, made, request.group_id, topic, is_subscribed=group.subscribes_to(topic.name))
        for topic in request.topics
    ]
    if is_too_large(step, made, sum(len(topic.name) * len(topic.partitions) for topic in request.topics)
                    + len(made) * len(request.group_id)):  # fmt: skip
        step.reply(command.respond, OffsetDeleteResponse(ErrorCode.UNKNOWN_SERVER_ERROR))
        return
    step.record_all(made)
    deleted = {
        row.name: partitions
        for row in rows
        if (partitions := [one.partition_index for one in row.partitions if not one.error_code])
    }
    if deleted:
        step.event(events.OFFSETS_DELETED, request.group_id, cause=events.ASKED, topics=deleted)
    step.reply(command.respond, OffsetDeleteResponse(0, 0, rows))


def _delete_topic(
    step: Step, made: list[Record], group_id: str, topic: OffsetDeleteRequestTopic, *, is_subscribed: bool
) -> OffsetDeleteResponseTopic:
    rows, offsets = [], step.state.offsets
    for one in topic.partitions:
        if is_subscribed:
            rows.append(OffsetDeleteResponsePartition(one.partition_index, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC))
            continue
        if offsets.has(group_id, topic.name, one.partition_index):
            made.append(records.offset_tombstone(group_id, topic.name, one.partition_index))
        rows.append(OffsetDeleteResponsePartition(one.partition_index, 0))
    return OffsetDeleteResponseTopic(topic.name, rows)


def delete_groups(step: Step, command: Command, request: DeleteGroupsRequest) -> None:
    """Answer a DeleteGroups: one row for each name, once.

    Offsets are deleted before their group, so that a replay finds no offsets without a group.
    """
    names, made = dict.fromkeys(request.groups_names), list[Record]()
    errors = [_delete_group(step, made, group_id) for group_id in names]
    if is_too_large(step, made, sum(_texts(step.state.offsets, group_id) for group_id in names)):
        # The offsets of one group are one batch: all of them are deleted or none.
        errors = [ErrorCode.UNKNOWN_SERVER_ERROR] * len(errors)
    else:
        step.record_all(made)
        for group_id, error in zip(names, errors, strict=True):
            if not error:
                step.event(events.GROUP_DELETED, group_id)
    rows = [DeletableGroupResult(group_id, error) for group_id, error in zip(names, errors, strict=True)]
    step.reply(command.respond, DeleteGroupsResponse(0, rows))


def _delete_group(step: Step, made: list[Record], group_id: str) -> int:
    group = step.state.groups.get(group_id)
    error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.validate_delete()
    if not error and group is not None:
        made += [records.offset_tombstone(group_id, *place) for place in step.state.offsets.places(group_id)]
        made += records.tombstones(group)
    return error


def _texts(offsets: Offsets, group_id: str) -> int:
    return len(group_id) + sum(len(group_id) + len(topic) for topic, _ in offsets.places(group_id))
