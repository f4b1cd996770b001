"""AddPartitionsToTxn: partitions become part of a transaction, which begins with the first ones. Or it is only asked
whether they are (verify_only, KIP-890). AddOffsetsToTxn is the same with a partition of `__consumer_offsets`.
"""

from __future__ import annotations

from collections.abc import Callable

from muster.coordinator.transactions import events, size, timeouts
from muster.coordinator.transactions.commands import TransactionCommand
from muster.coordinator.transactions.partition_order import with_more
from muster.coordinator.transactions.states import ADDED, ENDING, ONGOING
from muster.coordinator.transactions.step import Step
from muster.coordinator.transactions.transaction import Partitions, Transaction
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

_ErrorOf = Callable[[str, int], int]
"""The error of one partition."""


def handle(step: Step, command: TransactionCommand, request: AddPartitionsToTxnRequest) -> None:
    """Answer an AddPartitionsToTxn: each of its transactions by itself."""
    left = step.most_bytes - size.HEADER
    rows = []
    for asked in request.transactions:
        if asked.verify_only:
            error, error_of = _verify(step, asked)
        else:
            error, used = _add(step, command, asked, left)
            left -= used
            error_of = _same(error)
        step.refused(command, asked.transactional_id, asked.producer_id, asked.producer_epoch, error)
        rows.append(_result(asked, error_of))
    step.reply(command.respond, AddPartitionsToTxnResponse(0, ErrorCode.NONE, rows))


def _add(step: Step, command: TransactionCommand, asked: AddPartitionsToTxnTransaction, left: int) -> tuple[int, int]:
    """Add what is not there yet: the error, and how many of the bytes that are `left` its record may take."""
    if not asked.transactional_id:
        return ErrorCode.INVALID_REQUEST, 0
    one = step.state.transactions.get(asked.transactional_id)
    if one is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING, 0
    if one.state in ENDING:
        return ErrorCode.CONCURRENT_TRANSACTIONS, 0
    if error := _not_the_producer(one, asked):
        return error, 0
    is_open = one.state == ONGOING
    if sum(len(topic.partitions) for topic in asked.topics) > size.MOST_PARTITIONS:
        return ErrorCode.UNKNOWN_SERVER_ERROR, 0
    more = _not_there(one.partitions, asked)
    if is_open and not more:
        return ErrorCode.NONE, 0
    if one.partition_count + sum(map(len, more.values())) > size.MOST_PARTITIONS:
        return ErrorCode.UNKNOWN_SERVER_ERROR, 0
    partitions = with_more(one.partitions, ((topic.name, topic.partitions) for topic in asked.topics))
    used = size.of_record(asked.transactional_id, partitions)
    if used > left:
        # alone it would be too large for Kafka too; with others of one request it may come again
        is_alone_too_large = used > step.most_bytes - size.HEADER
        error = ErrorCode.UNKNOWN_SERVER_ERROR if is_alone_too_large else ErrorCode.CONCURRENT_TRANSACTIONS
        return error, 0
    step.change(
        one,
        ADDED,
        partitions=partitions,
        start_ms=one.start_ms if is_open else step.now.wall_ms,
        version=command.client_transaction_version,
    )
    if not is_open:
        timeouts.watch(step)
        step.event(
            events.BEGUN,
            one,
            start_ms=one.start_ms,
            timeout_ms=one.timeout_ms,
            client_id=command.client.client_id,
            host=command.client.host,
        )
    step.event(events.PARTITIONS_ADDED, one, topics=more, start_ms=one.start_ms, partitions=one.partition_count)
    return ErrorCode.NONE, used


def _not_there(present: Partitions, asked: AddPartitionsToTxnTransaction) -> dict[str, list[int]]:
    """What is asked for and not part of the transaction yet."""
    more: dict[str, dict[int, None]] = {}
    for topic in asked.topics:
        there = present.get(topic.name, ())
        new = dict.fromkeys(one for one in topic.partitions if one not in there)
        if new:
            more.setdefault(topic.name, {}).update(new)
    return {topic: list(ids) for topic, ids in more.items()}


def _verify(step: Step, asked: AddPartitionsToTxnTransaction) -> tuple[int, _ErrorOf]:
    """Say of each partition whether it is part of the open transaction: the error of all, and the one of each."""
    one = step.state.transactions.get(asked.transactional_id)
    error: int
    if not asked.transactional_id:
        error = ErrorCode.INVALID_REQUEST
    elif one is None:
        error = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    elif not (error := _not_the_producer(one, asked)):
        if one.state not in ENDING:
            present = one.partitions
            return (
                error,
                lambda topic, partition: (
                    ErrorCode.NONE if partition in present.get(topic, ()) else ErrorCode.TRANSACTION_ABORTABLE
                ),
            )
        error = ErrorCode.CONCURRENT_TRANSACTIONS
    return error, _same(error)


def _not_the_producer(one: Transaction, asked: AddPartitionsToTxnTransaction) -> int:
    if asked.producer_id != one.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return ErrorCode.NONE if asked.producer_epoch == one.producer_epoch else ErrorCode.PRODUCER_FENCED


def _same(error: int) -> _ErrorOf:
    return lambda _topic, _partition: error


def _result(asked: AddPartitionsToTxnTransaction, error_of: _ErrorOf) -> AddPartitionsToTxnResult:
    topics = [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [
                AddPartitionsToTxnPartitionResult(partition, error_of(topic.name, partition))
                for partition in topic.partitions
            ],
        )
        for topic in asked.topics
    ]
    return AddPartitionsToTxnResult(asked.transactional_id, topics)
