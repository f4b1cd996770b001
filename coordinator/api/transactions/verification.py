"""Before the first records of a transaction are appended to a partition, the transaction coordinator is asked. It says
whether the partition is in the transaction (KIP-890). Otherwise late records could arrive after the end of their
transaction. They would open a transaction that no client ends.

Older clients have added the partition themselves, which is verified. For newer clients the partition is added now. The
coordinator answers when this is durable. Produce and TxnOffsetCommit use this module. It has the errors for each
version of both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from muster.coordinator.api.node import Node
from muster.coordinator.api.version_rules import transaction_version
from muster.coordinator.log.errors import LogError
from muster.coordinator.log.interfaces import Log
from muster.coordinator.log.producers.verification import NOT_NEEDED, Guard
from muster.coordinator.state_machine.interface import Client, Producer
from muster.coordinator.system.jobs import Job, PendingResult
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.transactions.commands import PartitionErrors, PartitionsAsked, TransactionCommand
from muster.protocol.errors import ErrorCode, error_name

ROWS_AT_ONCE: Final = 50
"""So many partitions are checked without a pause."""

Place = tuple[str, int]
"""Topic and partition."""


class Knows(NamedTuple):
    """What a client knows of KIP-890, by the version of its request."""

    adds: bool
    """The client relies on the server to add the partitions that it writes to: Produce 12, TxnOffsetCommit 5
    and later.
    """
    knows_abortable: bool
    """The client knows TRANSACTION_ABORTABLE: Produce 11, TxnOffsetCommit 4 and later. Others get INVALID_TXN_STATE."""


class Wanted(NamedTuple):
    """A partition that a batch of a transaction is for. `sequence`: the sequence of the batch, or -1 for a batch that a
    coordinator writes.
    """

    topic: str
    partition: int
    log: Log
    sequence: int


Verified = Mapping[Place, Guard | ApiError | LogError | None]
"""For each partition, the guard to append with, or the refusal. None means that the transaction is already
open there.
"""


def verifying(
    node: Node,
    client: Client,
    transactional_id: str,
    producer: Producer,
    wanted: Sequence[Wanted],
    knows: Knows,
    *,
    again: bool,
) -> Job[Verified]:
    """Ask the transaction coordinator once for all partitions in which the transaction is not open yet.

    `again`: whether to ask the coordinator again for a while if the transaction before is just ending. This is for
    clients whose partitions are added. Without it, they get the error at once.
    """
    if not (knows.adds or node.topics.settings.transaction_partition_verification_enable):
        trusted: dict[Place, Guard | ApiError | LogError | None] = {}
        for one in wanted:
            failure = yield from _loading(one.log)
            trusted[one.topic, one.partition] = failure or NOT_NEEDED
        return trusted
    began_ms = node.clock.machine.mono_ms()
    while True:
        found = yield from _ask_once(node, client, transactional_id, producer, wanted, knows)
        if not (again and knows.adds and _is_ending(found)):
            return found
        settings, now_ms = node.topics.settings, node.clock.machine.mono_ms()
        if now_ms - began_ms >= settings.add_partitions_to_txn_retry_backoff_max_ms:
            return found
        later = PendingResult()
        node.clock.machine.call_at(now_ms + settings.add_partitions_to_txn_retry_backoff_ms, partial(later, None))
        yield later


def _ask_once(
    node: Node, client: Client, transactional_id: str, producer: Producer, wanted: Sequence[Wanted], knows: Knows
) -> Job[Verified]:
    found: dict[Place, Guard | ApiError | LogError | None] = {}
    topics: dict[str, list[int]] = {}
    many, now_ms = len(wanted) > ROWS_AT_ONCE, node.clock.now().wall_ms
    for topic, index, log, sequence in wanted:
        if many:
            yield None
        failure = None if log.producers.is_loaded else (yield from _loading(log))
        if failure is not None:
            found[topic, index] = failure
            continue
        try:
            guard = log.producers.verification(*producer, sequence, supports_epoch_bump=knows.adds, now_ms=now_ms)
        except LogError as error:
            found[topic, index] = error
            continue
        found[topic, index] = guard
        if guard is not None:
            topics.setdefault(topic, []).append(index)
    if topics:
        errors = yield from _ask(node, client, transactional_id, producer, topics, knows)
        for place, code in errors.items():
            found[place] = ApiError(code)
    return found


def _loading(log: Log) -> Job[ApiError | LogError | None]:
    """Load the producers of a log. Returns the error if that fails."""
    try:
        yield from log.producers.loading()
    except LogError as error:
        return error
    except OSError as error:
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    return None


def _ask(
    node: Node,
    client: Client,
    transactional_id: str,
    producer: Producer,
    topics: Mapping[str, list[int]],
    knows: Knows,
) -> Job[dict[Place, int]]:
    """The errors of the coordinator, as a client of this kind knows them."""
    if not transactional_id or not node.transactions.routing.ready:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE if transactional_id else ErrorCode.INVALID_REQUEST
        return {(topic, index): error for topic in topics for index in topics[topic]}
    answer = PendingResult()
    question(node, client, transactional_id, producer, topics, knows, answer)
    response: PartitionErrors = yield answer
    return {place: heard(error, knows) for place, error in response.errors.items()}


def question(
    node: Node,
    client: Client,
    transactional_id: str,
    producer: Producer,
    topics: Mapping[str, Sequence[int]],
    knows: Knows,
    answer: Callable[[Any], object],
) -> None:
    """Ask the transaction coordinator. `answer` gets its `PartitionErrors`."""
    asked = PartitionsAsked(transactional_id, *producer, not knows.adds, topics)
    command = TransactionCommand(asked, answer, client, transaction_version(knows.adds))
    node.transactions.ask(transactional_id, command)


def heard(error: int, knows: Knows) -> int:
    """An error of the coordinator, as a client of this kind knows it."""
    if error == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH  # producers expect this error from the leader of a partition
    if error == ErrorCode.TRANSACTION_ABORTABLE and not knows.knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return error


def _is_ending(found: Verified) -> bool:
    return any(
        isinstance(one, ApiError) and one.error_code == ErrorCode.CONCURRENT_TRANSACTIONS for one in found.values()
    )


# ---- Produce

_TRY_AGAIN: Final = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


def as_produce_error(error: ApiError | LogError, knows: Knows) -> ApiError | LogError:
    """The error for a producer. An error of the coordinator that the producer may not know is replaced by one that
    makes it retry.
    """
    code = error.error_code
    if code == ErrorCode.INVALID_TXN_STATE:
        return ApiError(code, "Partition was not added to the transaction")
    if code in _TRY_AGAIN or (code == ErrorCode.CONCURRENT_TRANSACTIONS and not knows.adds):
        what = "Unable to verify the partition has been added to the transaction. Underlying error: "
        return ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, what + error_name(code))
    return ApiError(code)
