"""AddPartitionsToTxn: partitions become part of a transaction. The first partitions begin the transaction.

With verify_only (KIP-890) the request only checks whether partitions are part of the transaction. AddOffsetsToTxn adds
a partition of `__consumer_offsets`. The server's own check before a transaction's first batch follows the same rules.

Kafka keeps the partitions in a HashSet<TopicPartition>, and groups them in a HashMap by topic for the record.
`with_more` has the same order, up to `MAX_ORDERED` partitions. In a larger transaction new partitions are last.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Sized
from functools import lru_cache
from typing import Final, NamedTuple

from muster.assignors.java_order import DEFAULT_CAPACITY, capacity_of_copy, spread
from muster.coordinator.state_machine.interface import HEADER
from muster.coordinator.transactions import events, timeouts
from muster.coordinator.transactions.commands import PartitionErrors, PartitionsAsked, TransactionCommand
from muster.coordinator.transactions.state import Step
from muster.coordinator.transactions.transaction import (
    ADDED,
    ENDING,
    ONGOING,
    Partitions,
    SharedPartitions,
    Transaction,
)
from muster.protocol.errors import ErrorCode
from muster.protocol.hashing import java_string_hash
from muster.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

MAX_ORDERED: Final = 1_000
"""Partitions beyond this number are not put into Kafka's order. At this limit, the sort takes some 2 ms."""

_hash_of_topic = lru_cache(maxsize=1_000)(java_string_hash)


def with_more(
    present: Mapping[str, Collection[int]], more: Iterable[tuple[str, Iterable[int]]]
) -> dict[str, dict[int, None]]:
    """The partitions of `present` and `more`, by topic, in their order in the record that adds `more`."""
    added: dict[str, dict[int, None]] = {}
    for topic, partitions in more:
        added.setdefault(topic, {}).update(dict.fromkeys(partitions))
    merged = {topic: dict.fromkeys(partitions) for topic, partitions in present.items()}
    before, count = _count(merged), _count(added)
    if before + count > MAX_ORDERED:
        for topic, ids in added.items():
            merged.setdefault(topic, {}).update(ids)
        return merged
    for topic, partition in _in_set(_each(added), _buckets_for(count)):
        merged.setdefault(topic, {})[partition] = None
    count = _count(merged)
    if count == 1:
        return merged
    # Java's computeIfAbsent inserts a topic with its first partition, at the head of the topic's bucket.
    ordered: dict[str, dict[int, None]] = {}
    for topic, partition in _in_set(_each(merged), max(capacity_of_copy(before), _buckets_for(count))):
        ordered.setdefault(topic, {})[partition] = None
    if len(ordered) == 1:
        return ordered
    mask = _buckets_for(len(ordered)) - 1
    topics = list(reversed(ordered))
    topics.sort(key=lambda topic: spread(_hash_of_topic(topic)) & mask)
    return {topic: ordered[topic] for topic in topics}


def _in_set(partitions: Iterable[tuple[str, int]], buckets: int) -> list[tuple[str, int]]:
    mask = buckets - 1
    return sorted(partitions, key=lambda one: spread(_hash_of_topic(one[0]) + 31 * (31 + one[1])) & mask)


def _each(partitions: Mapping[str, Collection[int]]) -> Iterable[tuple[str, int]]:
    return ((topic, partition) for topic, ids in partitions.items() for partition in ids)


def _count(partitions: Mapping[str, Collection[int]]) -> int:
    return sum(map(len, partitions.values()))


def _buckets_for(count: int) -> int:
    buckets = DEFAULT_CAPACITY
    while count * 4 > buckets * 3:
        buckets *= 2
    return buckets


MAX_PARTITIONS: Final = 50_000
"""The largest number of partitions of one transaction, which take some 30 ms to add."""
_A_RECORD: Final = 160
"""An upper bound for the bytes of a record without the transactional id and the partitions."""
_A_TOPIC: Final = 12
_A_PARTITION: Final = 4


def of_record(transactional_id: str, partitions_size: int) -> int:
    """An upper bound for the bytes of a transaction's record whose partitions take `partitions_size` bytes."""
    return _A_RECORD + 4 * len(transactional_id) + partitions_size


def of_partitions(partitions: Mapping[str, Sized]) -> int:
    """An upper bound for the bytes of the partitions in a record."""
    return sum([_A_TOPIC + 4 * len(topic) + _A_PARTITION * len(ids) for topic, ids in partitions.items()])


_Decision = tuple[int, Partitions | None]
"""An error for all partitions; or NONE and the partitions of the open transaction: only these get no error."""


_NO_ERROR: Final[_Decision] = (ErrorCode.NONE, None)


def _error_of(decision: _Decision, topic: str, partition: int) -> int:
    error, present = decision
    if present is None or partition in present.get(topic, ()):
        return error
    return ErrorCode.TRANSACTION_ABORTABLE


def handle(step: Step, command: TransactionCommand, request: AddPartitionsToTxnRequest) -> None:
    """Answer an AddPartitionsToTxn: a refused transaction does not refuse the request's other transactions."""
    left = step.max_bytes - HEADER
    rows = []
    for row in request.transactions:
        topics: dict[str, list[int]] = {}
        for topic in row.topics:
            topics.setdefault(topic.name, []).extend(topic.partitions)
        asked = PartitionsAsked(row.transactional_id, row.producer_id, row.producer_epoch, row.verify_only, topics)
        decision, used = _decide(step, command, asked, left)
        left -= used
        rows.append(_result(row, decision))
    step.reply(command.respond, AddPartitionsToTxnResponse(0, ErrorCode.NONE, rows))


def handle_one(step: Step, command: TransactionCommand, asked: PartitionsAsked) -> None:
    """Answer the server's check before a transaction's first batch."""
    decision, _ = _decide(step, command, asked, step.max_bytes - HEADER)
    errors: dict[tuple[str, int], int] = {}
    if decision != _NO_ERROR:
        errors = {place: error for place in asked.all_with(0) if (error := _error_of(decision, *place))}
    step.reply(command.respond, PartitionErrors(asked, errors))


def _decide(step: Step, command: TransactionCommand, asked: PartitionsAsked, left: int) -> tuple[_Decision, int]:
    """Add the partitions, or only check them. Returns the errors, and how many bytes the record takes of `left`."""
    used, present = 0, None
    if asked.verify_only:
        error, present = _verify(step, asked)
    else:
        error, used = _add(step, command, asked, left)
    if error:
        step.refused(command, asked.transactional_id, asked.producer_id, asked.producer_epoch, error)
    return (error, present), used


def _add(step: Step, command: TransactionCommand, asked: PartitionsAsked, left: int) -> tuple[int, int]:
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
    addition = _addition(one.partitions, asked.topics)
    if addition is None:
        return ErrorCode.UNKNOWN_SERVER_ERROR, 0
    new, partitions, count, names_size = addition
    if is_open and not new:
        return ErrorCode.NONE, 0
    used = of_record(asked.transactional_id, names_size)
    if used > left:
        # A transaction that is too large alone is refused, as on Kafka. If earlier transactions of the request left too
        # few bytes, the client may send this transaction again.
        is_alone_too_large = used > step.max_bytes - HEADER
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
    step.event(events.PARTITIONS_ADDED, one, topics=new, start_ms=one.start_ms, partitions=count)
    return ErrorCode.NONE, used


class _Addition(NamedTuple):
    """The partitions of a transaction after an addition. Many transactions share this object: never change it."""

    new: Mapping[str, Sequence[int]]
    """The requested partitions that the transaction did not have."""
    partitions: Partitions
    """All partitions of the transaction, in their order in the record."""
    total: int
    """The number of all partitions."""
    size: int
    """The bytes of all partitions in the record."""


_Key = tuple[tuple[str, tuple[int, ...]], ...]
"""Partitions by topic, both in the order of the request or the record."""
FEW: Final = 8
"""Results of at most this many partitions are cached: most transactions add the same few partitions."""


def _addition(present: Partitions, asked: Mapping[str, Sequence[int]]) -> _Addition | None:
    count = sum(map(len, present.values())) + sum(map(len, asked.values()))
    if count <= FEW:
        return _of_few(_key(present), _key(asked))
    if count > MAX_PARTITIONS:
        is_too_much = sum(map(len, asked.values())) > MAX_PARTITIONS
        if is_too_much or count - _in_both(present, asked) > MAX_PARTITIONS:
            return None
    return _added(present, asked)


def _key(partitions: Mapping[str, Collection[int]]) -> _Key:
    return tuple([(topic, tuple(ids)) for topic, ids in partitions.items()])


@lru_cache(maxsize=1_000)
def _of_few(present: _Key, asked: _Key) -> _Addition:
    new, partitions, total, size = _added(dict(present), dict(asked))
    return _Addition(SharedPartitions(new), SharedPartitions(partitions), total, size)


def _added(present: Partitions, asked: Mapping[str, Sequence[int]]) -> _Addition:
    partitions = with_more(present, asked.items())
    count = sum(map(len, partitions.values()))
    return _Addition(_not_there(present, asked), partitions, count, of_partitions(partitions))


def _in_both(present: Partitions, asked: Mapping[str, Sequence[int]]) -> int:
    """How many of the requested partitions are present already, or are requested twice."""
    new = _not_there(present, asked)
    return sum(map(len, asked.values())) - sum(map(len, new.values()))


def _not_there(present: Partitions, topics: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    more: dict[str, list[int]] = {}
    for topic, ids in topics.items():
        there = present.get(topic, ())
        new = dict.fromkeys([one for one in ids if one not in there])
        if new:
            more[topic] = list(new)
    return more


def _verify(step: Step, asked: PartitionsAsked) -> _Decision:
    if not asked.transactional_id:
        return ErrorCode.INVALID_REQUEST, None
    one = step.state.transactions.get(asked.transactional_id)
    if one is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING, None
    if error := _not_the_producer(one, asked):
        return error, None
    if one.state in ENDING:
        return ErrorCode.CONCURRENT_TRANSACTIONS, None
    return ErrorCode.NONE, one.partitions


def _not_the_producer(one: Transaction, asked: PartitionsAsked) -> int:
    if asked.producer_id != one.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return ErrorCode.NONE if asked.producer_epoch == one.producer_epoch else ErrorCode.PRODUCER_FENCED


def _result(asked: AddPartitionsToTxnTransaction, decision: _Decision) -> AddPartitionsToTxnResult:
    error, present = decision
    topics = []
    for topic in asked.topics:
        if present is None:
            rows = [AddPartitionsToTxnPartitionResult(partition, error) for partition in topic.partitions]
        else:
            rows = [
                AddPartitionsToTxnPartitionResult(partition, _error_of(decision, topic.name, partition))
                for partition in topic.partitions
            ]
        topics.append(AddPartitionsToTxnTopicResult(topic.name, rows))
    return AddPartitionsToTxnResult(asked.transactional_id, topics)
