"""StreamsGroupDescribe: what administrators see of streams groups. Nothing changes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple, cast

from muster.assignors.java_order import sort_strings, string_order
from muster.coordinator.groups.common.state import Step
from muster.coordinator.groups.streams.group import MemberOffsets, StreamsGroup
from muster.coordinator.groups.streams.internal_topics import ConfiguredSubtopology, InternalTopic
from muster.coordinator.groups.streams.member import Description, Position
from muster.coordinator.groups.streams.target import ASSIGNOR
from muster.coordinator.groups.streams.tasks import NO_TASKS, Tasks
from muster.coordinator.state_machine.interface import Command
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.group_records import streams_group_topology as record
from muster.protocol.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)

A_MEMBER: Final = 300
"""Estimated bytes of a member without its tasks in an answer."""
A_TASK: Final = 5
"""Estimated bytes of a task in an answer."""


class DescribeCommand(Command):
    """A StreamsGroupDescribe. The core answers with `Snapshot`s; outside the core `member_row` makes rows of them."""

    __slots__ = ()


class Snapshot(NamedTuple):
    """A member at one moment, in values that do not change."""

    member_id: str
    description: Description
    position: Position
    target: Tasks
    offsets: MemberOffsets

    def size(self) -> int:
        """An estimate of the member's bytes in an answer."""
        kinds = (*self.position.assigned, *self.target, *self.offsets)
        tasks = sum([len(its) for kind in kinds for its in kind.values()])
        return A_MEMBER + A_TASK * tasks + sum([len(key) + len(value) for key, value in self.description.client_tags])


def handle(step: Step, command: Command, request: StreamsGroupDescribeRequest) -> None:
    """Answer a StreamsGroupDescribe with one row for each requested name, in the request's order, with duplicates."""
    rows = [_describe(step, group_id) for group_id in request.group_ids]
    if not isinstance(command, DescribeCommand):
        for row in rows:
            row.members = [member_row(one) for one in cast("list[Snapshot]", row.members)]
    step.reply(command.respond, StreamsGroupDescribeResponse(0, rows))


def _describe(step: Step, group_id: str) -> DescribedGroup:
    group = step.state.groups.get(group_id)
    if not isinstance(group, StreamsGroup):
        message = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a streams group."
        return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, message, group_id)
    topology = _topology(group)
    if topology is None:
        return DescribedGroup(ErrorCode.UNKNOWN_SERVER_ERROR, None, group_id)
    members = [
        Snapshot(
            one,
            group.members[one].description,
            group.members[one].position,
            group.targets.get(one, NO_TASKS),
            group.offsets.get(one, ({}, {})),
        )
        for one in group.member_ids()
    ]
    row = DescribedGroup(0, None, group_id, group.state, group.epoch, group.assignment_epoch, topology)
    row.members, row.assignor_name = cast("list[Member]", members), ASSIGNOR.name
    return row


def _topology(group: StreamsGroup) -> Topology | None:
    """The topology, with the partition counts of internal topics if they are decided. None without a topology."""
    configured = group.configured
    if configured is not None and configured.status is None:
        rows = [_configured(name, one) for name, one in configured.subtopologies.items()]
        return Topology(configured.topology_epoch, rows)
    if group.topology is None:
        return None
    subtopologies = group.topology.subtopologies
    return Topology(group.topology.epoch, [_sent(subtopologies[name]) for name in sort_strings(subtopologies)])


def _configured(name: str, one: ConfiguredSubtopology) -> Subtopology:
    return Subtopology(
        name,
        sort_strings(one.source_topics),
        sort_strings(one.repartition_sinks),
        _internal(one.changelogs),
        _internal(one.repartition_sources),
    )


def _internal(topics: Mapping[str, InternalTopic]) -> list[TopicInfo]:
    made = []
    for name in sort_strings(topics):
        _, partitions, replication_factor, configs = topics[name]
        rows = [KeyValue(key, configs[key]) for key in string_order(configs)]
        made.append(TopicInfo(name, partitions, replication_factor, rows))
    return made


def _sent(one: record.Subtopology) -> Subtopology:
    return Subtopology(
        one.subtopology_id,
        sort_strings(one.source_topics),
        sort_strings(one.repartition_sink_topics),
        _infos(one.state_changelog_topics),
        _infos(one.repartition_source_topics),
    )


def _infos(topics: Iterable[record.TopicInfo]) -> list[TopicInfo]:
    by_name = {topic.name: topic for topic in topics}
    made = []
    for name in sort_strings(by_name):
        topic = by_name[name]
        rows = [KeyValue(one.key, one.value) for one in topic.topic_configs]
        made.append(TopicInfo(name, topic.partitions, topic.replication_factor, rows))
    return made


def member_row(one: Snapshot) -> Member:
    """A member as a row of the answer."""
    its, tags = one.description, dict(one.description.client_tags)
    sums, ends = one.offsets
    return Member(
        one.member_id,
        one.position.epoch,
        its.instance_id,
        its.rack_id,
        its.client_id,
        its.client_host,
        its.topology_epoch,
        its.process_id,
        None if its.endpoint is None else Endpoint(*its.endpoint),
        [KeyValue(key, tags[key]) for key in string_order(tags)],
        _offsets(sums),
        _offsets(ends),
        Assignment(*map(_tasks, one.position.assigned)),
        Assignment(*map(_tasks, one.target)),
    )


def _tasks(tasks: Mapping[str, Collection[int]]) -> list[TaskIds]:
    return [TaskIds(name, sorted(tasks[name])) for name in sort_strings(tasks)]


def _offsets(offsets: Mapping[str, Mapping[int, int]]) -> list[TaskOffset]:
    return [
        TaskOffset(name, one, offsets[name][one]) for name in sort_strings(offsets) for one in sorted(offsets[name])
    ]
