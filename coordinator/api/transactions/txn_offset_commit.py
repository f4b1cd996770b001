"""TxnOffsetCommit (key 28): offsets of a group that are committed together with the transaction of their producer.

The transaction coordinator is asked whether the group's partition of __consumer_offsets is in the transaction. For
newer clients, the coordinator adds the partition. Then the group's shard decides, as for OffsetCommit.

A request of at most `PLAIN_ROWS` rows is handled within its call. A job gives more rows to the shard, in pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from muster.coordinator.api.context import RequestContext, txn_offsets_by_topic_id
from muster.coordinator.api.many_rows import add_topic, ask_each, in_pieces
from muster.coordinator.api.node import PLAIN_ROWS, Node, Respond
from muster.coordinator.api.transactions.verification import (
    NOT_LOADED,
    Knows,
    Verdict,
    Verification,
    Wanted,
    commit_knows,
    verdict_of,
)
from muster.coordinator.groups.offsets.txn_commit import TxnCommitCommand, least_bytes, same_for_all
from muster.coordinator.log.errors import LogError
from muster.coordinator.log.producers.append_checks import VerificationGuard
from muster.coordinator.log.unified_log import UnifiedLog
from muster.coordinator.runtime.group_coordinator.shard import GroupShard
from muster.coordinator.runtime.replies import append_error
from muster.coordinator.security.authorizer import Operation, ResourceType
from muster.coordinator.state_machine.interface import Producer
from muster.coordinator.system.jobs import Job, PendingResult
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message, copied
from muster.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_Topics = dict[tuple[str, bytes], TxnOffsetCommitResponseTopic]
"""The rows of an answer, by name and id of their topic. A topic that is named twice has one row."""


def handle_txn_offset_commit(
    node: Node, context: RequestContext, request: TxnOffsetCommitRequest, respond: Respond
) -> TxnOffsetCommitResponse | None:
    """Write the offsets to the log of the group's shard, then answer. Each partition has its own error."""
    if not node.authorizer.allows(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return same_for_all(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not node.authorizer.allows(context, Operation.READ, ResourceType.GROUP, request.group_id):
        return same_for_all(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    rows = len(request.topics)
    for topic in request.topics:
        rows += len(topic.partitions)
    commit = _Commit(node, context, request, respond)
    if rows > PLAIN_ROWS:
        node.run(context, respond, commit.in_steps())
        return None
    return commit.run()


class _Commit:
    __slots__ = (
        "_answers", "_context", "_is_whole", "_log", "_node", "_producer", "_request", "_respond", "_shard", "_wanted",
    )  # fmt: skip

    _wanted: Wanted
    """The group's partition of __consumer_offsets, for the question to the transaction coordinator."""

    def __init__(self, node: Node, context: RequestContext, request: TxnOffsetCommitRequest, respond: Respond) -> None:
        self._node = node
        self._context = context
        self._request = request
        self._respond = respond
        self._producer = Producer(request.producer_id, request.producer_epoch)
        self._shard: GroupShard = node.routing.shard(request.group_id)
        self._log: UnifiedLog | None = None
        """The log that is asked for the transaction. None when the shard was not active."""
        self._answers: _Topics = {}
        self._is_whole = True
        """Whether the shard's response is the answer, because no row is refused before, and no topic is named twice."""

    # ---- requests that are handled within their call

    def run(self) -> TxnOffsetCommitResponse | None:
        request, shard = self._request, self._shard
        known = request.topics = self._existing(request.topics)
        if not known:
            # without rows the group is not asked, and no partition is added to the transaction
            return self._response()
        if not request.group_id:
            self._answer(same_for_all(request, ErrorCode.INVALID_GROUP_ID))
        elif not shard.active:
            self._commit(None)  # the shard itself reports this error
        else:
            log = self._log = shard.runtime.log
            knows = commit_knows(self._context.api_version)
            verdict = verdict_of(log, self._producer, -1, knows, self._node.clock.now().wall_ms)
            if verdict is None:
                self._commit(None)
            else:
                self._verification(knows, verdict).ask()
        return None

    def _verified(self) -> None:
        if not self._context.channel.closed:
            verdict = self._wanted.verdict
            if isinstance(verdict, ApiError | LogError):
                self._answer(same_for_all(self._request, append_error(verdict)))
            else:
                self._commit(verdict)

    def _commit(self, guard: VerificationGuard | None) -> None:
        self._submit(self._request, guard, self._respond if self._is_whole else self._answer)

    def _answer(self, response: Message | None) -> None:
        self._add(self._request, response)
        self._respond(self._response())

    # ---- in steps

    def in_steps(self) -> Job[TxnOffsetCommitResponse]:
        """`run` for a request of many rows. All rows are in one transaction, so the coordinator is asked once."""
        request, shard = self._request, self._shard
        pieces: list[TxnOffsetCommitRequest] = []
        size = 0
        for _, topics in in_pieces(request.topics, "partitions"):
            known = self._existing(topics)
            if known:
                piece = copied(request)
                piece.topics = known
                pieces.append(piece)
                size += sum(least_bytes(request.group_id, topic) for topic in known)
            yield None
        guard: VerificationGuard | None = None
        error = 0
        if pieces and not request.group_id:
            error = ErrorCode.INVALID_GROUP_ID
        elif pieces and shard.active:
            yield from self._verification(commit_knows(self._context.api_version), NOT_LOADED).asking()
            verdict = self._wanted.verdict
            if isinstance(verdict, ApiError | LogError):
                error = append_error(verdict)
            else:
                guard = verdict
        if not error and len(pieces) > 1 and size > shard.max_bytes:
            error = ErrorCode.UNKNOWN_SERVER_ERROR

        def ask(piece: TxnOffsetCommitRequest, token: PendingResult) -> None:
            if error:
                token(same_for_all(piece, error))
            else:
                self._submit(piece, guard, token)

        yield from ask_each(pieces, ask, self._add)
        for answer in self._answers.values():
            for _ in answer.partitions:
                yield None  # one step for each row that is encoded
        return self._response()

    # ---- both

    def _existing(self, topics: Sequence[TxnOffsetCommitRequestTopic]) -> list[TxnOffsetCommitRequestTopic]:
        """The rows of existing partitions that the client may commit. The answer gets all other rows, with errors."""
        known: list[TxnOffsetCommitRequestTopic] = []
        image = self._node.topics.image
        by_id = txn_offsets_by_topic_id(self._context.api_version)
        if by_id:
            for topic in topics:
                named = image.by_id.get(topic.topic_id)
                if named is not None:
                    topic.name = named.name
        names = [topic.name for topic in topics]
        if len(names) > 1 and len(set(names)) < len(names):
            self._is_whole = False
        allowed = self._node.authorizer.allowed(self._context, Operation.READ, ResourceType.TOPIC, names)
        for topic in topics:
            name = topic.name
            found = image.by_name.get(name)
            count = 0
            if found is not None and name in allowed:
                topic.topic_id, count = found.topic_id, found.partitions
            for row in topic.partitions:
                if not 0 <= row.partition_index < count:
                    self._refuse(topic, count, _error_of(name, by_id, name in allowed))
                    break
            if topic.partitions:
                known.append(topic)
        return known

    def _refuse(self, topic: TxnOffsetCommitRequestTopic, count: int, error: int) -> None:
        bad = [
            TxnOffsetCommitResponsePartition(row.partition_index, error)
            for row in topic.partitions
            if not 0 <= row.partition_index < count
        ]
        topic.partitions = [row for row in topic.partitions if 0 <= row.partition_index < count]
        key = topic.name, topic.topic_id
        add_topic(self._answers, key, TxnOffsetCommitResponseTopic(*key, bad))
        self._is_whole = False

    def _verification(self, knows: Knows, verdict: Verdict) -> Verification:
        shard = self._shard
        log = self._log = shard.runtime.log
        self._wanted = Wanted(GROUP_OFFSETS_TOPIC, shard.partition, log, -1, verdict)
        return Verification(
            self._node, self._context, self._request.transactional_id, self._producer, knows, (self._wanted,),
            self._verified, waits=False,
        )  # fmt: skip

    def _submit(self, piece: TxnOffsetCommitRequest, guard: VerificationGuard | None, respond: Respond) -> None:
        shard, producer = self._shard, self._producer
        runtime = shard.runtime
        if runtime.core is not None and runtime.log is not self._log:
            # The log was read again meanwhile, and does not know the guard. INVALID_TXN_STATE would end the producer.
            respond(same_for_all(piece, ErrorCode.NOT_COORDINATOR))
            return
        refusal = shard.append_error(producer, guard)
        if shard.figures is not None:
            respond = shard.figures.commits.counting(piece.group_id, respond)
        runtime.submit(
            TxnCommitCommand(
                piece, respond, self._context.client, refusal, txn_offsets_by_topic_id(self._context.api_version)
            ),
            producer,
        )

    def _add(self, _: TxnOffsetCommitRequest, response: Any) -> None:
        for topic in response.topics:
            add_topic(self._answers, (topic.name, topic.topic_id), topic)

    def _response(self) -> TxnOffsetCommitResponse:
        return TxnOffsetCommitResponse(topics=[*self._answers.values()])


def _error_of(name: str, by_id: bool, is_allowed: bool) -> int:
    """The error of a row that is not known. Only a client that may read a topic learns whether it exists."""
    if by_id and not name:
        return ErrorCode.UNKNOWN_TOPIC_ID
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED
