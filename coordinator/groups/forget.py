"""Offsets and groups that go: OffsetDelete, DeleteGroups, and the offsets of topics that were deleted."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from muster.coordinator.groups import events, records
from muster.coordinator.groups.image import TopicsChanged
from muster.coordinator.groups.interface import Command, Record
from muster.coordinator.groups.offsets import Offsets, topic_id_of
from muster.coordinator.groups.room import is_too_large
from muster.coordinator.groups.turn import Turn
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


def delete_offsets(turn: Turn, command: Command, request: OffsetDeleteRequest) -> None:
    """Answer an OffsetDelete (KIP-496). Topics that a member subscribes to keep their offsets."""
    group = turn.state.groups.get(request.group_id)
    if not request.group_id:
        error = ErrorCode.INVALID_GROUP_ID
    else:
        error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.validate_offset_delete()
    if error or group is None:
        turn.reply(command.token, OffsetDeleteResponse(error))
        return
    made: list[Record] = []
    rows = [
        _delete_topic(turn, made, request.group_id, topic, is_subscribed=group.subscribes_to(topic.name))
        for topic in request.topics
    ]
    if is_too_large(turn.state, made, sum(len(topic.name) * len(topic.partitions) for topic in request.topics)
                    + len(made) * len(request.group_id)):  # fmt: skip
        turn.reply(command.token, OffsetDeleteResponse(ErrorCode.UNKNOWN_SERVER_ERROR))
        return
    for record in made:
        turn.record(record)
    deleted = {
        row.name: partitions
        for row in rows
        if (partitions := [one.partition_index for one in row.partitions if not one.error_code])
    }
    if deleted:
        turn.event(events.OFFSETS_DELETED, request.group_id, cause=events.ASKED, topics=deleted)
    turn.reply(command.token, OffsetDeleteResponse(0, 0, rows))


def _delete_topic(
    turn: Turn, made: list[Record], group_id: str, topic: OffsetDeleteRequestTopic, *, is_subscribed: bool
) -> OffsetDeleteResponseTopic:
    rows = []
    for one in topic.partitions:
        if is_subscribed:
            rows.append(OffsetDeleteResponsePartition(one.partition_index, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC))
            continue
        if one.partition_index in turn.state.offsets.partitions(group_id, topic.name):
            made.append(records.offset_tombstone(group_id, topic.name, one.partition_index))
        rows.append(OffsetDeleteResponsePartition(one.partition_index, 0))
    return OffsetDeleteResponseTopic(topic.name, rows)


def delete_groups(turn: Turn, command: Command, request: DeleteGroupsRequest) -> None:
    """Answer a DeleteGroups: one row for each name, once. Offsets go before their group, so that replay finds no
    orphans.
    """
    names, made = dict.fromkeys(request.groups_names), list[Record]()
    errors = [_delete_group(turn, made, group_id) for group_id in names]
    if is_too_large(turn.state, made, sum(_texts(turn.state.offsets, group_id) for group_id in names)):
        # those of one partition are one batch: all of them or none
        errors = [ErrorCode.UNKNOWN_SERVER_ERROR] * len(errors)
    else:
        for record in made:
            turn.record(record)
        for group_id, error in zip(names, errors, strict=True):
            if not error:
                turn.event(events.GROUP_DELETED, group_id)
    rows = [DeletableGroupResult(group_id, error) for group_id, error in zip(names, errors, strict=True)]
    turn.reply(command.token, DeleteGroupsResponse(0, rows))


def _delete_group(turn: Turn, made: list[Record], group_id: str) -> int:
    group = turn.state.groups.get(group_id)
    error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.validate_delete()
    if not error and group is not None:
        for topic, partitions in turn.state.offsets.topics(group_id).items():
            made += [records.offset_tombstone(group_id, topic, partition) for partition in partitions]
        made += records.tombstones(group)
    return error


def _texts(offsets: Offsets, group_id: str) -> int:
    topics = offsets.topics(group_id).items()
    return len(group_id) + sum(len(rows) * (len(group_id) + len(topic)) for topic, rows in topics)


def change_topics(turn: Turn, command: TopicsChanged) -> None:
    """Take over the next image; offsets of topics that are no more are forgotten, also when their name is taken
    again.
    """
    state = turn.state
    gone = command.image.gone_since(state.image)
    state.image = command.image
    if gone:
        _forget_topics(turn, gone, frozenset(gone.values()))


def forget_deleted_topics(turn: Turn) -> None:
    """The groups are loaded: forget the offsets of topics whose end was written when that of their offsets was not.

    Only of topics that are known to have been deleted: a log that was brought here from elsewhere has offsets of topics
    that this server has never heard of.
    """
    image = turn.state.image
    if image.deleted:
        _forget_topics(turn, image.deleted, frozenset(image.deleted.values()) - image.by_name.keys())


def _forget_topics(turn: Turn, gone: Mapping[bytes, str], names: Collection[str]) -> None:
    """Forget what was committed for the topics of these ids, and under these names without an id (as Kafka's
    onTopicsDeleted does).
    """
    offsets = turn.state.offsets
    touched = frozenset(gone.values())
    for group_id, topics in list(offsets.groups()):
        for topic in [name for name in topics if name in touched]:
            doomed = []
            for partition, value in topics[topic].items():
                topic_id = topic_id_of(value)
                if topic_id in gone if topic_id != ZERO_UUID else topic in names:
                    doomed.append(partition)
            for partition in doomed:
                turn.record(records.offset_tombstone(group_id, topic, partition))
            if doomed:
                deleted = {topic: sorted(doomed)}
                turn.event(events.OFFSETS_DELETED, group_id, cause=events.TOPIC_DELETED, topics=deleted)
