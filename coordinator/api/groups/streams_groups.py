"""StreamsGroupHeartbeat (key 88), StreamsGroupDescribe (89) and StreamsGroupTopologyDescriptionUpdate (93): KIP-1071.

A heartbeat of an application whose internal topics are missing creates them, with the permissions of its client.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.groups import protocols
from muster.coordinator.api.groups.describing import (
    DescribeApi,
    described,
    may_describe,
    snapshots_of,
    with_members,
)
from muster.coordinator.api.groups.membership import answered_by_the_group
from muster.coordinator.api.many_rows import AnswerSize
from muster.coordinator.api.node import Node, Respond, in_steps
from muster.coordinator.groups.streams.describe import DescribeCommand, member_row
from muster.coordinator.groups.streams.heartbeat import HeartbeatCommand
from muster.coordinator.groups.streams.internal_topics import MISSING_INTERNAL_TOPICS, InternalTopic
from muster.coordinator.runtime.group_coordinator.error_responses import refuse
from muster.coordinator.security.authorizer import Operation, ResourceType, may_create_topic
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.creation import NewTopic
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.features import STREAMS
from muster.coordinator.topics.names import INTERNAL_TOPICS, name_fault
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    Subtopology,
)
from muster.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from muster.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)

_A_TOPIC: Final = 40
"""Estimated bytes of a topic in an answer."""
MAX_TOPICS: Final = 2_000
"""The most topics of a topology."""
MAX_PARTS: Final = 10_000
"""The most subtopologies, topics, configs and places in copartition groups of a topology."""
MAX_ERRORS: Final = 3
"""At most this many failed creations are named in an answer."""
_READ: Final = Operation.READ
_GROUP: Final = ResourceType.GROUP
_NOT_STORED: Final = 1
"""The status of a topology's description when nobody has stored one. Only a plugin of Kafka stores descriptions."""
_NO_PLUGIN: Final = "The broker has no streams group topology description plugin configured."


def is_served(node: Node) -> bool:
    """Whether the configuration and `streams.version` enable streams groups."""
    return protocols.is_served(node, "streams", STREAMS)


def handle_streams_group_heartbeat(
    node: Node, context: RequestContext, request: StreamsGroupHeartbeatRequest, respond: Respond
) -> None:
    """Let a member join, send a heartbeat, or leave. The client must be allowed to describe the topics it names."""
    if not is_served(node):
        respond(refuse(request, ErrorCode.UNSUPPORTED_VERSION))
    elif not node.authorizer.allows(context, _READ, _GROUP, request.group_id):
        respond(refuse(request, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    elif request.topology is not None:
        job = _submit_if_valid(node, context, request, respond)
        node.job_queue.run(job, answered_by_the_group, context.channel)
    else:
        _submit(node, context, request, respond)


def _submit(node: Node, context: RequestContext, request: StreamsGroupHeartbeatRequest, respond: Respond) -> None:
    command = HeartbeatCommand(request, respond, context.client, context.api_version)
    # not the command itself: a cycle of objects would stay in memory
    command.respond = partial(_answered, node, context, command.missing, respond)
    node.routing.shard(request.group_id).runtime.submit(command)


def _answered(
    node: Node, context: RequestContext, missing: Mapping[str, InternalTopic], respond: Respond, response: Any
) -> None:
    if missing and not response.error_code:
        node.job_queue.run(_created(node, context, missing, response), respond, context.channel)
    else:
        respond(response)


def _submit_if_valid(
    node: Node, context: RequestContext, request: StreamsGroupHeartbeatRequest, respond: Respond
) -> Job[None]:
    names = yield from _topics_of(request)
    if len(names) > MAX_TOPICS or _parts(request) > MAX_PARTS:
        text = f"The topology has more than {MAX_TOPICS} topics, or more than {MAX_PARTS} topics, configs and places."
        respond(StreamsGroupHeartbeatResponse(0, ErrorCode.STREAMS_INVALID_TOPOLOGY, text))
        return
    forbidden = [name for name in names if name in INTERNAL_TOPICS]
    invalid = [name for name in names if name_fault(name) is not None]
    if forbidden:
        text = f"Use of Kafka internal topics {','.join(forbidden)} in a Kafka Streams topology is prohibited."
        respond(StreamsGroupHeartbeatResponse(0, ErrorCode.STREAMS_INVALID_TOPOLOGY, text))
    elif invalid:
        text = f"Topic names {','.join(invalid)} are not valid topic names."
        respond(StreamsGroupHeartbeatResponse(0, ErrorCode.STREAMS_INVALID_TOPOLOGY, text))
    elif (yield from may_describe(node, context, names)):
        _submit(node, context, request, respond)
    else:
        respond(refuse(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED))


def _topics_of(request: StreamsGroupHeartbeatRequest) -> Job[list[str]]:
    """All topics of the topology, once each."""
    names: dict[str, None] = {}
    assert request.topology is not None
    for row in request.topology.subtopologies:
        names.update(dict.fromkeys(row.source_topics))
        names.update(dict.fromkeys(row.repartition_sink_topics))
        for topics in (row.repartition_source_topics, row.state_changelog_topics):
            names.update(dict.fromkeys([topic.name for topic in topics]))
        yield None
    return list(names)


def _parts(request: StreamsGroupHeartbeatRequest) -> int:
    """The number of subtopologies, of topics with their configs, and of places in copartition groups."""
    assert request.topology is not None
    count = 0
    for row in request.topology.subtopologies:
        count += 1 + len(row.source_topics) + len(row.repartition_sink_topics)
        for topics in (row.repartition_source_topics, row.state_changelog_topics):
            count += sum([1 + len(topic.topic_configs) for topic in topics])
        for group in row.copartition_groups:
            count += 1 + len(group.source_topics) + len(group.repartition_source_topics)
    return count


def _created(
    node: Node, context: RequestContext, missing: Mapping[str, InternalTopic], response: StreamsGroupHeartbeatResponse
) -> Job[StreamsGroupHeartbeatResponse]:
    """Create the missing internal topics. The answer says which topics could not be created, and why."""
    forbidden = [name for name in missing if not may_create_topic(node.authorizer, context, name)]
    if forbidden:
        _add_detail(response, f"Unauthorized to CREATE on topics {', '.join(forbidden)}.")
        return response
    failed = []
    for topic in missing.values():
        configs: dict[str, str | None] = dict(topic.configs)
        wanted = NewTopic(
            topic.name, node.draw_uuid(), topic.partitions, topic.replication_factor or -1, configs=configs
        )
        try:
            yield from node.topics.creating(wanted)
        except ApiError as error:
            if error.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                failed.append(f"{topic.name} ({error.message})")
    if failed:
        more = f" and {len(failed) - MAX_ERRORS} more" if len(failed) > MAX_ERRORS else ""
        _add_detail(response, f"Creation failed: {', '.join(failed[:MAX_ERRORS])}{more}.")
    return response


def _add_detail(response: StreamsGroupHeartbeatResponse, text: str) -> None:
    for status in response.status or ():
        if status.status_code == MISSING_INTERNAL_TOPICS:
            status.status_detail += f"; {text}"


@in_steps
def handle_streams_group_describe(
    node: Node, context: RequestContext, request: StreamsGroupDescribeRequest
) -> Job[StreamsGroupDescribeResponse]:
    """Describe streams groups: see `described`."""
    answer_size = AnswerSize(node, context)

    def filled(row: DescribedGroup) -> Job[DescribedGroup]:
        snapshots = snapshots_of(row)
        names = [] if row.topology is None else list(dict.fromkeys(_names(row.topology.subtopologies or ())))
        if not (yield from may_describe(node, context, names)):
            text = "The described group uses topics that the client is not authorized to describe."
            return DescribedGroup(ErrorCode.TOPIC_AUTHORIZATION_FAILED, text, row.group_id)
        if request.include_topology_description and not row.error_code:
            row.topology_description_status = _NOT_STORED
        return (yield from with_members(row, snapshots, member_row, _DESCRIBE, answer_size))

    return described(node, context, request, _DESCRIBE, answer_size, filled, is_served=is_served(node))


def _names(rows: Iterable[Subtopology]) -> Iterable[str]:
    for row in rows:
        yield from row.source_topics
        yield from row.repartition_sink_topics
        yield from [topic.name for topic in row.repartition_source_topics]
        yield from [topic.name for topic in row.state_changelog_topics]


def _size(row: DescribedGroup) -> int:
    """An estimate of the bytes of a group's topology in an answer."""
    topology = row.topology
    return 0 if topology is None else sum([_A_TOPIC + len(name) for name in _names(topology.subtopologies or ())])


_DESCRIBE: Final = DescribeApi(
    StreamsGroupDescribeRequest, StreamsGroupDescribeResponse, DescribedGroup, DescribeCommand, _size
)


def handle_streams_group_topology_description_update(
    node: Node, context: RequestContext, request: StreamsGroupTopologyDescriptionUpdateRequest, respond: Respond
) -> None:
    """Refuse a description of a topology, as Kafka without the plugin that keeps descriptions."""
    response = StreamsGroupTopologyDescriptionUpdateResponse(0, ErrorCode.UNSUPPORTED_VERSION, _NO_PLUGIN)
    if not is_served(node):
        response.error_message = None
    elif not node.authorizer.allows(context, _READ, _GROUP, request.group_id):
        response.error_code, response.error_message = ErrorCode.GROUP_AUTHORIZATION_FAILED, None
    respond(response)
