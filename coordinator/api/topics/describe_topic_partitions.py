"""DescribeTopicPartitions: topics and their partitions in pages (KIP-966)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import Final

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.many_rows import NO_LIMIT, AnswerSize
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.security.authorizer import Operation, ResourceType, authorized_operations
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.cluster_image import NO_BROKER
from muster.coordinator.topics.names import INTERNAL_TOPICS, name_fault
from muster.coordinator.topics.open_topics import Topic
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

_SORTED_AT_ONCE: Final = 100
"""The most topic names that one step sorts. The authorizer is asked about each name."""
_ROW_BYTES: Final = 40


@in_steps
def handle_describe_topic_partitions(
    node: Node, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> Job[DescribeTopicPartitionsResponse]:
    """Answer with the named topics (or all) by name, from the cursor up to the limit of partitions."""
    cursor = request.cursor
    asked: dict[str, None] = {}
    for wanted in request.topics:
        asked[wanted.name] = None
        yield None
    if cursor is not None and (cursor.partition_index < 0 or (asked and cursor.topic_name not in asked)):
        return (yield from _refuse_all(request))
    first = "" if cursor is None else cursor.topic_name
    runs, refused = yield from _sorted(node, context, asked or (topic.name for topic in node.topics.open.walk()), first)
    limit = max(min(request.response_partition_limit, node.topics.settings.max_request_partition_size_limit), 1)
    response = DescribeTopicPartitionsResponse()
    rows = response.topics = list[DescribeTopicPartitionsResponseTopic]()
    answer_size = AnswerSize(node, context, NO_LIMIT)
    for row in _page(node, context, merge(*runs), cursor, limit, response):
        rows.append(row)
        answer_size.add(_ROW_BYTES * (1 + len(row.partitions)) + len(row.name or ""))
        yield answer_size.pause()
    if request.topics:  # without named topics, the answer does not mention refused topics
        for name in refused:
            rows.append(_refused(name))
            yield None
    return response


def _refuse_all(request: DescribeTopicPartitionsRequest) -> Job[DescribeTopicPartitionsResponse]:
    """Refuse the whole request. Each topic of the request has its row, also a repeated topic, as on Kafka."""
    refused = []
    for topic in request.topics:
        refused.append(DescribeTopicPartitionsResponseTopic(ErrorCode.INVALID_REQUEST, topic.name))
        yield None
    return DescribeTopicPartitionsResponse(topics=refused)


def _sorted(
    node: Node, context: RequestContext, names: Iterable[str], first: str
) -> Job[tuple[list[list[str]], list[str]]]:
    """The names from `first` on, in sorted lists to be merged; and the names that the client may not describe."""
    left, runs = iter(names), list[list[str]]()
    refused: list[str] = []
    while some := [*islice(left, _SORTED_AT_ONCE)]:
        run = [name for name in some if name >= first]
        allowed = node.authorizer.allowed(context, Operation.DESCRIBE, ResourceType.TOPIC, run)
        runs.append(sorted(name for name in run if name in allowed))
        refused += (name for name in run if name not in allowed)
        yield None
    return runs, refused


def _refused(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)


def _page(
    node: Node,
    context: RequestContext,
    names: Iterable[str],
    cursor: DescribeTopicPartitionsRequestCursor | None,
    left: int,
    response: DescribeTopicPartitionsResponse,
) -> Iterator[DescribeTopicPartitionsResponseTopic]:
    """The rows of one page. `response` gets the cursor of the next page."""
    for name in names:
        topic = node.topics.by_name.get(name)
        if not left:
            response.next_cursor = DescribeTopicPartitionsResponseCursor(name, 0)
            return
        operations = authorized_operations(node.authorizer, context, ResourceType.TOPIC, name)
        if topic is None:
            yield _missing(name, operations)
            continue
        start = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        rows = _partitions(node, topic, start, start + left)
        yield DescribeTopicPartitionsResponseTopic(0, name, topic.topic_id, topic.internal, rows, operations)
        left -= len(rows)
        if start + len(rows) < len(topic.partitions):
            response.next_cursor = DescribeTopicPartitionsResponseCursor(name, start + len(rows))
            return


def _missing(name: str, operations: int) -> DescribeTopicPartitionsResponseTopic:
    error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name_fault(name) is None else ErrorCode.INVALID_TOPIC_EXCEPTION
    internal = name in INTERNAL_TOPICS
    return DescribeTopicPartitionsResponseTopic(
        error_code, name, is_internal=internal, topic_authorized_operations=operations
    )


def _partitions(node: Node, topic: Topic, start: int, end: int) -> list[DescribeTopicPartitionsResponsePartition]:
    rows, cluster = [], node.cluster
    leaders = cluster.leaders[topic.name]
    for index, state in enumerate(topic.state.partitions[start:end], start):
        leader, replicas = leaders[index], state.replicas
        online = leader.broker_id != NO_BROKER and topic.is_online(index)
        # a leader that was found dead a moment ago is not named; another leader follows soon
        is_alive = online and (cluster.is_whole or cluster.is_alive(leader.broker_id))
        rows.append(
            DescribeTopicPartitionsResponsePartition(
                0 if is_alive else ErrorCode.LEADER_NOT_AVAILABLE,
                index,
                leader.broker_id if is_alive else NO_BROKER,
                leader.epoch,
                replicas,
                state.isr if online else (),
                (),
                (),
                cluster.unavailable(replicas) if online else replicas,
            )
        )
    return rows
