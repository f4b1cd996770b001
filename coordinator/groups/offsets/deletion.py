"""Deletion in groups of all types: OffsetDelete, DeleteGroups, and the offsets of deleted topics.

Offsets of deleted topics are deleted, as in Kafka's `onTopicsDeleted`. All groups are checked in slices, so that
requests need not wait. Until the check, clients still see the old offsets. A new topic may have the name of a deleted
topic. A transactional commit has no topic id, so it looks like an old offset of that name. So such commits are refused
until their group was checked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Final, NamedTuple

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.committed_offsets import Offsets, Packed, topic_id_of
from muster.coordinator.groups.common.image import TopicsChanged
from muster.coordinator.groups.common.state import State, Step, is_too_large, offset_tombstone, tombstones
from muster.coordinator.state_machine.deadlines import Due
from muster.coordinator.state_machine.interface import Command, Record
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
    """Answer an OffsetDelete (KIP-496). Offsets of topics that a member subscribes to are not deleted."""
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
            made.append(offset_tombstone(group_id, topic.name, one.partition_index))
        rows.append(OffsetDeleteResponsePartition(one.partition_index, 0))
    return OffsetDeleteResponseTopic(topic.name, rows)


def delete_groups(
    step: Step, command: Command, request: DeleteGroupsRequest, failed: Mapping[str, int] = MappingProxyType({})
) -> None:
    """Answer a DeleteGroups with one row for each name, without duplicates. Offsets are deleted before their group.

    `failed`: the errors of groups that cannot be deleted now.
    """
    names, made = dict.fromkeys(request.groups_names), list[Record]()
    errors = [failed.get(group_id) or _delete_group(step, made, group_id) for group_id in names]
    if is_too_large(step, made, sum(_texts(step.state.offsets, group_id) for group_id in names)):
        # All tombstones of a request are one batch: either everything is deleted, or nothing.
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
    error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.deletion_error()
    if not error and group is not None:
        made += [offset_tombstone(group_id, *place) for place in step.state.offsets.places(group_id)]
        made += tombstones(group)
    return error


def _texts(offsets: Offsets, group_id: str) -> int:
    return len(group_id) + sum(len(group_id) + len(topic) for topic, _ in offsets.places(group_id))


TOPIC_DELETION: Final = "topic deletion"
"""The kind of the deadline of the next slice."""
SLICE: Final = 500
"""The work of one slice, half a millisecond for each shard. Each group, and each checked offset, counts 1."""
REMOVE: Final = 10
"""Each written record counts this much, in addition to the check of its offset."""
CHUNK: Final = 50
"""The number of offsets of one topic that are checked together."""
SLICE_AFTER_MS: Final = 1


class _DeletedTopics:
    """Deleted topics. `topics`: names by id. `names`: offsets without an id under these names are deleted too."""

    __slots__ = ("names", "topics", "touched")

    def __init__(self, topics: Mapping[bytes, str], names: Collection[str]) -> None:
        self.topics = topics
        self.names = frozenset(names)
        self.touched = frozenset(topics.values())

    def has(self, topic: str, value: Packed) -> bool:
        topic_id = topic_id_of(value)
        return topic_id in self.topics if topic_id != ZERO_UUID else topic in self.names


class _OffsetsToCheck(NamedTuple):
    """Some offsets to check. `is_pending`: of open transactions. `topic` None: the group has no more offsets."""

    group_id: str
    topic: str | None = None
    partitions: Sequence[int] = ()
    is_pending: bool = False


class TopicDeletion(Due):
    """The progress of the check of all groups, and the deadline of the next slice. A load begins a new check."""

    __slots__ = ("gone", "next", "waiting", "walk")

    kind = TOPIC_DELETION

    def __init__(self, state: State, gone: _DeletedTopics) -> None:
        super().__init__("")
        self.next: _DeletedTopics | None = None
        """Topics that were deleted since the check began. All groups are checked again for these topics."""
        self.begin(state, gone)

    def begin(self, state: State, gone: _DeletedTopics) -> None:
        """Search all groups for offsets of these topics."""
        self.gone = gone
        self.waiting = state.offsets.group_ids()
        """The groups that were not checked yet."""
        self.walk = _walk(state, gone, list(self.waiting))

    def refuses(self, group_id: str, topics: Iterable[str]) -> bool:
        """Whether the group may still have old offsets without a topic id under one of these names."""
        names: Collection[str] = self.gone.names if group_id in self.waiting else ()
        later: Collection[str] = self.next.names if self.next is not None else ()
        return any(topic in names or topic in later for topic in topics)


def change_topics(step: Step, command: TopicsChanged) -> None:
    """Replace the image, and delete offsets of deleted topics, even if a new topic has the same name."""
    state = step.state
    gone = command.image.gone_since(state.image)
    state.image = command.image
    if gone:
        _begin(step, _DeletedTopics(gone, gone.values()))


def delete_offsets_of_deleted_topics(step: Step) -> None:
    """After a load, delete offsets of deleted topics that have no tombstone yet. A log that was copied from another
    cluster may have offsets of topics that this server never had. Such offsets stay.
    """
    image = step.state.image
    if image.deleted:
        _begin(step, _DeletedTopics(image.deleted, frozenset(image.deleted.values()) - image.by_name.keys()))


def on_topic_deletion_deadline(step: Step, _: object, deletion: TopicDeletion) -> None:
    """Check the next slice."""
    _slice(step, deletion)


def _begin(step: Step, gone: _DeletedTopics) -> None:
    deletion: TopicDeletion | None = step.state.topic_deletion
    if deletion is None:
        deletion = step.state.topic_deletion = TopicDeletion(step.state, gone)
        _slice(step, deletion)
    else:
        before = deletion.next
        deletion.next = (
            gone if before is None else _DeletedTopics({**before.topics, **gone.topics}, before.names | gone.names)
        )


def _walk(state: State, gone: _DeletedTopics, group_ids: list[str]) -> Iterator[_OffsetsToCheck]:
    """All offsets that may have to be deleted. Pending offsets come first. An offset that is committed meanwhile comes
    again later.
    """
    offsets, touched = state.offsets, gone.touched
    for group_id in group_ids:
        places = iter(list(offsets.pending.transactions_of.get(group_id, ())))
        while some := [*islice(places, CHUNK)]:
            yield _OffsetsToCheck(group_id, "")  # an item that counts as work, but checks nothing
            of_topic: dict[str, list[int]] = {}
            for topic, partition in some:
                if topic in touched:
                    of_topic.setdefault(topic, []).append(partition)
            for topic, partitions in of_topic.items():
                yield _OffsetsToCheck(group_id, topic, partitions, is_pending=True)
        topics = offsets.topics(group_id)
        names = touched if len(touched) < len(topics) else list(topics)
        for name in names:
            known = list(offsets.partitions(group_id, name)) if name in touched else ()
            for at in range(0, len(known) or 1, CHUNK):
                yield _OffsetsToCheck(group_id, name, known[at : at + CHUNK])
        yield _OffsetsToCheck(group_id)


def _slice(step: Step, deletion: TopicDeletion) -> None:
    budget, doomed, group_id = SLICE, dict[str, list[int]](), ""
    for some in deletion.walk:
        group_id, before = some.group_id, len(step.records)
        if some.topic is not None:
            _check_offsets(step, deletion.gone, some, doomed)
        else:
            del deletion.waiting[group_id]
            _report(step, group_id, doomed)
        budget -= 1 + len(some.partitions) + REMOVE * (len(step.records) - before)
        if budget <= 0:
            break
    else:
        if deletion.next is None:
            step.state.topic_deletion = None
            return
        deletion.begin(step.state, deletion.next)
        deletion.next = None
    _report(step, group_id, doomed)
    step.state.deadlines.set(deletion, step.now.mono_ms + SLICE_AFTER_MS)


def _check_offsets(step: Step, gone: _DeletedTopics, some: _OffsetsToCheck, doomed: dict[str, list[int]]) -> None:
    offsets, group_id, topic = step.state.offsets, some.group_id, some.topic or ""
    for partition in some.partitions:
        if some.is_pending:
            is_gone = any(gone.has(topic, one) for one in offsets.pending.at((group_id, (topic, partition))))
        else:
            value = offsets.partitions(group_id, topic).get(partition)
            is_gone = value is not None and gone.has(topic, value)
        if is_gone:
            step.record(offset_tombstone(group_id, topic, partition))
            doomed.setdefault(topic, []).append(partition)


def _report(step: Step, group_id: str, doomed: dict[str, list[int]]) -> None:
    for topic, partitions in doomed.items():
        deleted = {topic: sorted(partitions)}
        step.event(events.OFFSETS_DELETED, group_id, cause=events.TOPIC_DELETED, topics=deleted)
    doomed.clear()
