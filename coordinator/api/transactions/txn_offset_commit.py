"""TxnOffsetCommit (key 28): offsets of a group that are committed together with the transaction of their producer.

The group's partition of __consumer_offsets must be in the transaction: the transaction coordinator is asked. For newer
clients, this request adds the partition. Then the group's shard decides, as for OffsetCommit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.gather import ROWS_AT_ONCE, add_topic, allowed_names, ask_each, in_pieces
from muster.coordinator.api.node import Node, Respond, in_slices
from muster.coordinator.api.transactions.verification import Knows, Wanted, verifying
from muster.coordinator.api.version_rules import txn_commit_adds_partitions, txn_commit_knows_abortable
from muster.coordinator.groups.offsets.txn_commit import TxnCommitCommand, least_bytes, same_for_all
from muster.coordinator.log.errors import LogError
from muster.coordinator.log.producers.verification import Guard
from muster.coordinator.runtime.append_errors import append_error
from muster.coordinator.runtime.group_coordinator.shard import GroupShard
from muster.coordinator.security.authorizer import Operation, ResourceType
from muster.coordinator.state_machine.interface import Producer
from muster.coordinator.system.jobs import Job, PendingResult
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_Topics = dict[str, TxnOffsetCommitResponseTopic]
"""The rows of an answer, by topic. A topic that is named twice has one row."""


def handle_txn_offset_commit(
    node: Node, context: RequestContext, request: TxnOffsetCommitRequest, respond: Respond
) -> None:
    """Write the offsets to the log of the group's shard. (`api.short` does the same for a few of them.)"""
    if not node.short_ways or not _short_way()(node, context, request, respond):
        txn_offset_commit(node, context, request, respond)


@cache
def _short_way() -> Any:
    return import_module("muster.coordinator.api.short.txn_offset_commit").take


@in_slices
def txn_offset_commit(
    node: Node, context: RequestContext, request: TxnOffsetCommitRequest
) -> Job[TxnOffsetCommitResponse]:
    """Write the offsets to the log of the group's shard, then answer. Each partition has its own error."""
    if not node.authorizer.allows(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return same_for_all(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not node.authorizer.allows(context, Operation.READ, ResourceType.GROUP, request.group_id):
        return same_for_all(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    known, answers = yield from _sort_out(node, context, request.topics)
    if known:
        # without valid rows the group is not asked, so that no partition is added to the transaction
        pieces = [_piece(request, topics) for _, topics in in_pieces(known, "partitions")]
        yield from _commit(node, context, request, pieces, answers)
    if sum(len(answer.partitions) for answer in answers.values()) > ROWS_AT_ONCE:
        for answer in answers.values():
            for _ in answer.partitions:
                yield None  # one step for each row that is encoded
    return TxnOffsetCommitResponse(topics=[*answers.values()])


@cache
def knows_of(version: int) -> Knows:
    """What a client with this version knows."""
    return Knows(txn_commit_adds_partitions(version), txn_commit_knows_abortable(version))


def _piece(request: TxnOffsetCommitRequest, topics: list[TxnOffsetCommitRequestTopic]) -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(
        request.transactional_id,
        request.group_id,
        request.producer_id,
        request.producer_epoch,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
        topics,
    )


def _commit(
    node: Node,
    context: RequestContext,
    request: TxnOffsetCommitRequest,
    pieces: Sequence[TxnOffsetCommitRequest],
    answers: _Topics,
) -> Job[None]:
    """Verify once, then ask the shard, some rows in each step. All rows are in one transaction."""
    shard = node.routing.shard(request.group_id)
    producer = Producer(request.producer_id, request.producer_epoch)
    guard, error = yield from _verified(node, context, request.transactional_id, producer, shard, request.group_id)
    if not error and len(pieces) > 1:
        size = sum(least_bytes(request.group_id, topic) for piece in pieces for topic in piece.topics)
        error = ErrorCode.UNKNOWN_SERVER_ERROR if size > shard.most_bytes else 0

    def ask(piece: TxnOffsetCommitRequest, token: PendingResult) -> None:
        if error:
            token(same_for_all(piece, error))
            return
        refusal = shard.append_error(producer, guard)
        shard.submit(TxnCommitCommand(piece, token, context.client, refusal), producer)

    def take(_: TxnOffsetCommitRequest, response: Any) -> None:
        for topic in response.topics:
            add_topic(answers, topic.name, topic)

    if len(pieces) == 1:
        answer = PendingResult()
        ask(pieces[0], answer)
        take(pieces[0], (yield answer))
    else:
        yield from ask_each(pieces, ask, take)


def _verified(
    node: Node, context: RequestContext, transactional_id: str, producer: Producer, shard: GroupShard, group_id: str
) -> Job[tuple[Guard | None, int]]:
    """The guard with which the log accepts the offsets, or the error."""
    if not group_id:
        return None, ErrorCode.INVALID_GROUP_ID
    if not shard.active:
        return None, 0  # the shard itself reports this error
    knows = knows_of(context.api_version)
    wanted = Wanted(GROUP_OFFSETS_TOPIC, shard.partition, shard.runtime.log, -1)
    found = yield from verifying(node, context.client, transactional_id, producer, (wanted,), knows, again=False)
    verdict = found[GROUP_OFFSETS_TOPIC, shard.partition]
    if isinstance(verdict, ApiError | LogError):
        return None, append_error(verdict)
    return verdict, 0


def _in_parts(topics: Sequence[TxnOffsetCommitRequestTopic]) -> Iterator[TxnOffsetCommitRequestTopic]:
    """The topics. A topic with very many rows is divided into several."""
    for topic in topics:
        rows = topic.partitions
        for start in range(0, max(len(rows), 1), ROWS_AT_ONCE):
            is_whole = len(rows) <= ROWS_AT_ONCE
            yield topic if is_whole else TxnOffsetCommitRequestTopic(topic.name, rows[start : start + ROWS_AT_ONCE])


def _sort_out(
    node: Node, context: RequestContext, topics: Sequence[TxnOffsetCommitRequestTopic]
) -> Job[tuple[list[TxnOffsetCommitRequestTopic], _Topics]]:
    """The rows of existing partitions, and the refused rows with their errors."""
    known: list[TxnOffsetCommitRequestTopic] = []
    refused: _Topics = {}
    image = node.topics.image
    names = [topic.name for topic in topics]
    allowed = yield from allowed_names(node, context, Operation.READ, ResourceType.TOPIC, names)
    for topic in _in_parts(topics):
        yield None
        found = image.by_name.get(topic.name)
        count = 0 if found is None else found.partitions
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic.name not in allowed:
            count, error = 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        bad = [
            TxnOffsetCommitResponsePartition(row.partition_index, error)
            for row in topic.partitions
            if not 0 <= row.partition_index < count
        ]
        if bad:
            topic.partitions = [row for row in topic.partitions if 0 <= row.partition_index < count]
            add_topic(refused, topic.name, TxnOffsetCommitResponseTopic(topic.name, bad))
        if topic.partitions:
            known.append(topic)
    return known, refused
