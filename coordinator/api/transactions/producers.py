"""Requests of a producer to the transaction coordinator: InitProducerId (key 22), AddPartitionsToTxn (24),
AddOffsetsToTxn (25) and EndTxn (26).

A producer id with an epoch identifies duplicates of a producer (KIP-98, KIP-360). With a transactional id, the shard of
that id decides. Brokers of a cluster send AddPartitionsToTxn for many transactions at once.

If a partition does not exist, or the client may not write to it, the whole transaction is refused. Then the shard is
not asked. The shard is never asked about topics without partitions. As on Kafka, an answer names such topics only if
the whole transaction has one error. EndTxn is answered when the decision is durable; the markers follow.
"""

from __future__ import annotations

from typing import Any, Final

from muster.coordinator.api.context import (
    RequestContext,
    add_partitions_comes_from_broker,
    end_txn_raises_epoch,
    transaction_version,
)
from muster.coordinator.api.many_rows import allowed_names, ask_each, until_durable
from muster.coordinator.api.node import PLAIN_ROWS, Node, Respond, in_steps
from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from muster.coordinator.system.jobs import Job, PendingResult
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC, INTERNAL_TOPICS
from muster.coordinator.transactions.commands import PartitionsAsked, TransactionCommand
from muster.coordinator.transactions.init_producer_id import refusal
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from muster.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from muster.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from muster.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

UNKNOWN = -1
"""The value for "no producer id" and for "no epoch"."""


@in_steps
def handle_init_producer_id(
    node: Node, context: RequestContext, request: InitProducerIdRequest
) -> Job[InitProducerIdResponse]:
    """Answer with a new producer id in epoch 0, whatever the old id was. With a transactional id, its shard answers."""
    try:
        _check(node, context, request)
        if request.transactional_id is None:
            drawn = yield from node.topics.drawing_producer_id()
            response = InitProducerIdResponse(producer_id=drawn, producer_epoch=0)
        else:
            later = PendingResult()
            node.transactions.decide(request.transactional_id, TransactionCommand(request, later, context.client))
            return (yield later)  # type: ignore[no-any-return]  # as every answer of a shard
    except ApiError as error:
        return InitProducerIdResponse(error_code=error.error_code, producer_id=UNKNOWN, producer_epoch=UNKNOWN)
    # the block of ids with this id must never be allocated again
    yield from until_durable(node, [response])
    return response


def _check(node: Node, context: RequestContext, request: InitProducerIdRequest) -> None:
    if request.transactional_id is not None:
        if not node.authorizer.allows(
            context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id
        ):
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    elif not (
        node.authorizer.allows(context, Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME)
        or node.authorizer.allows_some(context, Operation.WRITE, ResourceType.TOPIC)
    ):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if request.transactional_id is not None:
        error_code = refusal(request, node.transactions.settings)  # this check precedes the shard, which may be loading
    elif (request.producer_id == UNKNOWN) != (request.producer_epoch == UNKNOWN):
        error_code = ErrorCode.INVALID_REQUEST
    else:
        return
    if error_code:
        raise ApiError(error_code)


_Partitions = dict[str, dict[int, int]]
"""The topics of a transaction, their partitions, and the error of each partition."""

_AT_ONCE: Final = 100
"""How many partitions are looked at in one step."""


def handle_add_partitions_to_txn(
    node: Node, context: RequestContext, request: AddPartitionsToTxnRequest, respond: Respond
) -> None:
    """Let the shard of each transactional id add the partitions. Each partition has a row in the answer.

    The shard answers a client's usual request by itself. Other requests are a job.
    """
    if _is_usual(node, context, request):
        command = TransactionCommand(request, respond, context.client)
        node.transactions.submit(request.transactions[0].transactional_id, command)
    else:
        _add_in_steps(node, context, request, respond)


def _is_usual(node: Node, context: RequestContext, request: AddPartitionsToTxnRequest) -> bool:
    """Whether a client names few partitions, each of them once, which exist and to which the client may write."""
    if add_partitions_comes_from_broker(context.api_version) or len(request.transactions) != 1:
        return False
    (transaction,) = request.transactions
    rows, topics = 0, node.topics.image.by_name
    names = [topic.name for topic in transaction.topics]
    for topic in transaction.topics:
        found, ids = topics.get(topic.name), topic.partitions
        rows += 1 + len(ids)
        if found is None or topic.name in INTERNAL_TOPICS or not ids or rows > PLAIN_ROWS or len(set(ids)) < len(ids):
            return False
        if not (min(ids) >= 0 and max(ids) < found.partitions):
            return False
    if not names or len(set(names)) < len(names) or not transaction.transactional_id:
        return False
    # A refusal is logged by the job, which asks again.
    allows, may_write = node.authorizer.allows, node.authorizer.allowed
    write, kind = Operation.WRITE, ResourceType.TRANSACTIONAL_ID
    if not allows(context, write, kind, transaction.transactional_id, log_denied=False):
        return False
    allowed = may_write(context, write, ResourceType.TOPIC, names, log_denied=False)
    return all(name in allowed for name in names)


@in_steps
def _add_in_steps(
    node: Node, context: RequestContext, request: AddPartitionsToTxnRequest
) -> Job[AddPartitionsToTxnResponse]:
    by_broker = add_partitions_comes_from_broker(context.api_version)
    if by_broker and not node.authorizer.allows(context, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    found: dict[int, AddPartitionsToTxnResult] = {}
    wanted: list[tuple[int, AddPartitionsToTxnTransaction]] = []
    asked: dict[int, _Partitions] = {}
    for place, transaction in enumerate(request.transactions):
        partitions = yield from _partitions_of(transaction)
        if not by_broker and not node.authorizer.allows(
            context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transaction.transactional_id
        ):
            error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            found[place] = yield from _refused(transaction, partitions, error)
        elif (yield from _refuses_some(node, context, partitions, by_broker)):
            partitions = yield from _of_some(partitions)
            found[place] = yield from _refused(transaction, partitions, ErrorCode.OPERATION_NOT_ATTEMPTED)
        elif not transaction.transactional_id:
            found[place] = yield from _refused(transaction, partitions, ErrorCode.INVALID_REQUEST)
        else:
            of_some = yield from _of_some(partitions)
            if len(of_some) < len(partitions) and not transaction.verify_only:
                asked[place] = partitions
            transaction.topics = yield from _topics(of_some)
            wanted.append((place, transaction))
        yield None
    version = transaction_version(by_broker)

    def ask(one: tuple[int, AddPartitionsToTxnTransaction], token: PendingResult) -> None:
        command = TransactionCommand(AddPartitionsToTxnRequest([one[1]]), token, context.client, version)
        node.transactions.submit(one[1].transactional_id, command)

    def take(one: tuple[int, AddPartitionsToTxnTransaction], response: Any) -> None:
        (found[one[0]],) = response.results_by_transaction

    yield from ask_each(wanted, ask, take)
    for place, partitions in asked.items():
        found[place].topic_results = yield from _with_empty(partitions, found[place])
    return AddPartitionsToTxnResponse(results_by_transaction=[found[place] for place in sorted(found)])


def _partitions_of(transaction: AddPartitionsToTxnTransaction) -> Job[_Partitions]:
    partitions: _Partitions = {}
    for topic in transaction.topics:
        rows = partitions.setdefault(topic.name, {})
        if not topic.partitions:
            yield None
        for start in range(0, len(topic.partitions), _AT_ONCE):
            rows.update(dict.fromkeys(topic.partitions[start : start + _AT_ONCE], ErrorCode.NONE))
            yield None
    return partitions


def _of_some(partitions: _Partitions) -> Job[_Partitions]:
    of_some: _Partitions = {}
    for looked_at, (name, rows) in enumerate(partitions.items()):
        if rows:
            of_some[name] = rows
        if not looked_at % _AT_ONCE:
            yield None
    return of_some


def _with_empty(partitions: _Partitions, found: AddPartitionsToTxnResult) -> Job[list[AddPartitionsToTxnTopicResult]]:
    """The rows of the shard's answer and those of topics without partitions, in the order of the request."""
    answered = iter(found.topic_results)
    topics = []
    for name, rows in partitions.items():
        topics.append(next(answered) if rows else AddPartitionsToTxnTopicResult(name, []))
        yield None  # one step for each row that is encoded
    return topics


def _topics(partitions: _Partitions) -> Job[list[AddPartitionsToTxnTopic]]:
    topics: list[AddPartitionsToTxnTopic] = []
    for name, rows in partitions.items():
        topics.append(AddPartitionsToTxnTopic(name, list(rows)))
        if not len(topics) % _AT_ONCE:
            yield None
    return topics


def _refuses_some(node: Node, context: RequestContext, partitions: _Partitions, by_broker: bool) -> Job[bool]:
    """Set the errors of partitions that cannot be in a transaction. Returns whether there are such partitions."""
    is_some_refused = False
    # only brokers may add internal topics
    names = [name for name in partitions if by_broker or name not in INTERNAL_TOPICS]
    allowed: Any = names
    if not by_broker:
        allowed = yield from allowed_names(node, context, Operation.WRITE, ResourceType.TOPIC, names)
    topics = node.topics.image.by_name
    for name, rows in partitions.items():
        there = topics.get(name)
        if not by_broker and (name in INTERNAL_TOPICS or name not in allowed):
            error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        else:
            error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        count = 0 if there is None or error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED else there.partitions
        for looked_at, index in enumerate(rows):
            if not 0 <= index < count:
                rows[index] = error_code
                is_some_refused = True
            if not looked_at % _AT_ONCE:
                yield None
        if not rows:
            yield None
    return is_some_refused


def _refused(
    transaction: AddPartitionsToTxnTransaction, partitions: _Partitions, error_code: int
) -> Job[AddPartitionsToTxnResult]:
    """The row of a refused transaction. Partitions without an error get `error_code`."""
    topics = []
    for name, rows in partitions.items():
        results = []
        for index, own in rows.items():
            results.append(AddPartitionsToTxnPartitionResult(index, own or error_code))
            yield None  # one step for each row that is encoded
        topics.append(AddPartitionsToTxnTopicResult(name, results))
        yield None
    return AddPartitionsToTxnResult(transaction.transactional_id, topics)


def handle_add_offsets_to_txn(
    node: Node, context: RequestContext, request: AddOffsetsToTxnRequest, respond: Respond
) -> None:
    """Add the group's partition of __consumer_offsets to the transaction."""
    transactional_id, allows = request.transactional_id, node.authorizer.allows
    refusal = ErrorCode.NONE
    if not allows(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        refusal = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif not allows(context, Operation.READ, ResourceType.GROUP, request.group_id):
        refusal = ErrorCode.GROUP_AUTHORIZATION_FAILED
    elif not transactional_id:
        refusal = ErrorCode.INVALID_REQUEST
    if refusal != ErrorCode.NONE:
        respond(AddOffsetsToTxnResponse(error_code=refusal))
        return

    partition: int = node.routing.shard(request.group_id).partition

    def added(response: Any) -> None:
        respond(AddOffsetsToTxnResponse(0, response.errors.get((GROUP_OFFSETS_TOPIC, partition), ErrorCode.NONE)))

    asked = PartitionsAsked(
        transactional_id, request.producer_id, request.producer_epoch, False, {GROUP_OFFSETS_TOPIC: (partition,)}
    )
    node.transactions.submit(transactional_id, TransactionCommand(asked, added, context.client))


def handle_end_txn(node: Node, context: RequestContext, request: EndTxnRequest, respond: Respond) -> None:
    """Let the shard of the transactional id end the transaction."""
    transactional_id = request.transactional_id
    if not node.authorizer.allows(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        respond(EndTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    elif not transactional_id:
        respond(EndTxnResponse(error_code=ErrorCode.INVALID_REQUEST))
    else:
        version = transaction_version(end_txn_raises_epoch(context.api_version))
        node.transactions.decide(transactional_id, TransactionCommand(request, respond, context.client, version))
