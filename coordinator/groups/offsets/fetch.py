"""OffsetFetch: the committed offsets of groups. An unknown group or partition has offset -1, without an error."""

from __future__ import annotations

from muster.coordinator.groups.common.committed_offsets import Offsets, Packed, metadata_of, position_of, topic_id_of
from muster.coordinator.groups.common.state import State, Step
from muster.coordinator.state_machine.interface import Command
from muster.protocol.errors import ErrorCode
from muster.protocol.message import ZERO_UUID
from muster.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from muster.protocol.shapes.offset_fetch import failed_group


def handle(step: Step, command: Command, request: OffsetFetchRequest) -> None:
    """Answer an OffsetFetch with one row for each requested group, in the request's order, with duplicates."""
    state, stable = step.state, request.require_stable
    rows = [_fetch_group(state, group, stable) for group in request.groups]
    step.reply(command.respond, OffsetFetchResponse(groups=rows))


def _fetch_group(state: State, group: OffsetFetchRequestGroup, stable: bool) -> OffsetFetchResponseGroup:
    group_id, topics, offsets = group.group_id, group.topics, state.offsets
    present = state.groups.get(group_id)
    error = 0 if present is None else present.validate_fetch(group.member_id, group.member_epoch)
    if error:
        return failed_group(group, error)
    if topics is None:
        committed = offsets.topics(group_id).items()
        topics = [OffsetFetchRequestTopics(name, ZERO_UUID, list(partitions)) for name, partitions in committed]
    return OffsetFetchResponseGroup(group_id, [_fetch_topic(offsets, group_id, topic, stable) for topic in topics], 0)


def _fetch_topic(
    offsets: Offsets, group_id: str, topic: OffsetFetchRequestTopics, stable: bool
) -> OffsetFetchResponseTopics:
    rows = []
    committed = offsets.partitions(group_id, topic.name)
    for partition in topic.partition_indexes:
        value = committed.get(partition)
        if value is not None and _is_of_another_topic(value, topic.topic_id):
            value = None
        rows.append(_row(offsets, group_id, topic.name, partition, value, stable))
    return OffsetFetchResponseTopics(topic.name, topic.topic_id, rows)


def _is_of_another_topic(value: Packed, topic_id: bytes) -> bool:
    """Whether the offset belongs to a deleted topic of the same name. False when one of the two ids is unknown."""
    return topic_id != ZERO_UUID and topic_id_of(value) not in (ZERO_UUID, topic_id)


def _row(
    offsets: Offsets, group_id: str, topic: str, partition: int, value: Packed | None, stable: bool
) -> OffsetFetchResponsePartitions:
    if stable and offsets.is_unstable(group_id, topic, partition):
        return OffsetFetchResponsePartitions(partition, -1, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)
    if value is None:
        return OffsetFetchResponsePartitions(partition, -1, -1, "", 0)
    offset, leader_epoch = position_of(value)
    return OffsetFetchResponsePartitions(partition, offset, leader_epoch, metadata_of(value), 0)
