"""What is deleted, of groups of all types: OffsetDelete, DeleteGroups, and the offsets of topics that were deleted."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from muster.coordinator.core.interface import Command, Record
from muster.coordinator.groups.common import events, records
from muster.coordinator.groups.common.batch_size import is_too_large
from muster.coordinator.groups.common.committed_offsets import Offsets, Packed, topic_id_of
from muster.coordinator.groups.common.image import TopicsChanged
from muster.coordinator.groups.common.step import Step
from muster.protocol.errors import ErrorCode
from muster.protocol.message import ZERO_UUID
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
    """Answer a DeleteGroups: one row for each name, once. Offsets are deleted before their group, so that a replay
    finds none without a group.
    """
    names, made = dict.fromkeys(request.groups_names), list[Record]()
    errors = [_delete_group(step, made, group_id) for group_id in names]
    if is_too_large(step, made, sum(_texts(step.state.offsets, group_id) for group_id in names)):
        # those of one partition are one batch: all of them or none
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


def change_topics(step: Step, command: TopicsChanged) -> None:
    """Take over the next image; offsets of deleted topics are deleted, also if a new topic has the name."""
    state = step.state
    gone = command.image.gone_since(state.image)
    state.image = command.image
    if gone:
        _delete_topics_offsets(step, gone, frozenset(gone.values()))


def delete_offsets_of_deleted_topics(step: Step) -> None:
    """The groups are loaded: delete the offsets of deleted topics if the tombstones were not written then.

    Only of topics that are known to have been deleted: a log that was copied here from another cluster has offsets of
    topics that this server does not know.
    """
    image = step.state.image
    if image.deleted:
        _delete_topics_offsets(step, image.deleted, frozenset(image.deleted.values()) - image.by_name.keys())


def _delete_topics_offsets(step: Step, gone: Mapping[bytes, str], names: Collection[str]) -> None:
    """Delete what was committed for the topics of these ids, and under these names without an id (as Kafka's
    onTopicsDeleted does): also what was committed in transactions that are open, which never have an id.
    """
    offsets = step.state.offsets
    touched = frozenset(gone.values())

    def is_doomed(topic: str, value: Packed) -> bool:
        topic_id = topic_id_of(value)
        return topic_id in gone if topic_id != ZERO_UUID else topic in names

    for group_id, topics in list(offsets.groups()):
        for topic in [name for name in topics if name in touched]:
            doomed = [partition for partition, value in topics[topic].items() if is_doomed(topic, value)]
            _delete(step, group_id, topic, doomed)
    # those that are committed too have gone with them
    for group_id in list(offsets.pending.producers):
        doomed_of: dict[str, list[int]] = {}
        for topic, partition in list(offsets.pending.producers[group_id]):
            pending = offsets.pending_at(group_id, topic, partition) if topic in touched else ()
            if any(is_doomed(topic, one) for one in pending):
                doomed_of.setdefault(topic, []).append(partition)
        for topic, doomed in doomed_of.items():
            _delete(step, group_id, topic, doomed)


def _delete(step: Step, group_id: str, topic: str, partitions: list[int]) -> None:
    for partition in partitions:
        step.record(records.offset_tombstone(group_id, topic, partition))
    if partitions:
        deleted = {topic: sorted(partitions)}
        step.event(events.OFFSETS_DELETED, group_id, cause=events.TOPIC_DELETED, topics=deleted)
