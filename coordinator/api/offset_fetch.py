"""OffsetFetch (key 9): the committed positions of one or several groups, named or all.

Groups are asked one by one at their shards. Topic ids (v10) become names on the way in and ids again on the way out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from muster.coordinator.api.context import GROUP, TOPIC, Operation, RequestContext, Resource, authorize
from muster.coordinator.api.gather import Gather
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.groups.image import TopicsImage
from muster.coordinator.groups.interface import Command
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from muster.protocol.shapes import topics
from muster.protocol.shapes.offset_fetch import failed_group


def handle_offset_fetch(node: Node, context: RequestContext, request: OffsetFetchRequest, respond: Respond) -> None:
    """One row per group, in the order of the request; a group's error stands in its row."""

    def answer(rows: list[OffsetFetchResponseGroup]) -> None:
        respond(OffsetFetchResponse(groups=rows))

    gather = Gather(len(request.groups), answer)
    for index, group in enumerate(request.groups):
        _fetch(node, context, group, request.require_stable, gather.part(index))


def _fetch(
    node: Node,
    context: RequestContext,
    group: OffsetFetchRequestGroup,
    require_stable: bool,
    done: Callable[[Any], None],
) -> None:
    if not authorize(context, Operation.DESCRIBE, Resource(GROUP, group.group_id)):
        done(failed_group(group, ErrorCode.GROUP_AUTHORIZATION_FAILED))
        return
    image = node.topics.image
    refused: list[OffsetFetchResponseTopics] = []
    if group.topics is not None:
        group.topics, refused = _sort_out(context, image, group.topics)
        finish = partial(_finish_named, refused, done)
    else:
        by_id = topics.by_id(context.api_key, context.api_version)
        finish = partial(_finish_all, context, image if by_id else None, done)
    request = OffsetFetchRequest(groups=[group], require_stable=require_stable)
    node.routing.shard(group.group_id).submit(Command(request, finish, context.client))


def _sort_out(
    context: RequestContext, image: TopicsImage, asked: Sequence[OffsetFetchRequestTopics]
) -> tuple[list[OffsetFetchRequestTopics], list[OffsetFetchResponseTopics]]:
    """The topics that may be asked for, by name, and the refused ones. A name that no topic has may be asked for."""
    known: list[OffsetFetchRequestTopics] = []
    refused: list[OffsetFetchResponseTopics] = []
    by_id = topics.by_id(context.api_key, context.api_version)
    for topic in asked:
        if by_id:
            found = image.by_id.get(topic.topic_id)
            if found is None:
                refused.append(_refuse(topic, ErrorCode.UNKNOWN_TOPIC_ID))
                continue
            topic.name = found.name
        if authorize(context, Operation.DESCRIBE, Resource(TOPIC, topic.name)):
            known.append(topic)
        else:
            refused.append(_refuse(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    return known, refused


def _refuse(topic: OffsetFetchRequestTopics, error_code: int) -> OffsetFetchResponseTopics:
    rows = [OffsetFetchResponsePartitions(index, -1, -1, "", error_code) for index in topic.partition_indexes]
    return OffsetFetchResponseTopics(topic.name, topic.topic_id, rows)


def _finish_named(refused: list[OffsetFetchResponseTopics], done: Callable[[Any], None], response: Message) -> None:
    """The group's own rows first, then the refused ones (KafkaApis.fetchOffsetsForGroup)."""
    row = _only_row(response)
    if refused and row.error_code == ErrorCode.NONE:
        row.topics = [*row.topics, *refused]
    done(row)


def _finish_all(
    context: RequestContext, image: TopicsImage | None, done: Callable[[Any], None], response: Message
) -> None:
    """All of a group's offsets that the principal may see; with an image: under their ids, less deleted topics."""
    row = _only_row(response)
    seen = [topic for topic in row.topics if authorize(context, Operation.DESCRIBE, Resource(TOPIC, topic.name))]
    if image is not None:
        seen = [topic for topic in seen if topic.name in image.by_name]
        for topic in seen:
            topic.topic_id = image.by_name[topic.name].topic_id
    row.topics = seen
    done(row)


def _only_row(response: Message) -> OffsetFetchResponseGroup:
    assert isinstance(response, OffsetFetchResponse)
    row: OffsetFetchResponseGroup = response.groups[0]
    return row
