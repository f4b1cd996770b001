"""Before the first records of a transaction go into a partition, its coordinator is asked whether the partition is part
of it (KIP-890). Otherwise records that come late, when their transaction has ended, would open one that nobody ends.

Older clients have added the partition themselves, which is verified; for newer ones it is added now. The answer leaves
the coordinator when that is durable. Used by Produce and TxnOffsetCommit: what each version of them hears is here.
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
"""Partitions that are looked at without a pause."""

Place = tuple[str, int]
"""Topic and partition."""


class Knows(NamedTuple):
    """What a client knows of KIP-890, by the version of its request."""

    adds: bool
    """It relies on the server to add the partitions that it writes to: Produce 12, TxnOffsetCommit 5 and later."""
    knows_abortable: bool
    """TRANSACTION_ABORTABLE: Produce 11, TxnOffsetCommit 4 and later; others hear INVALID_TXN_STATE."""


class Wanted(NamedTuple):
    """A partition that a batch of a transaction is for. `sequence`: of the batch; -1 of one of a coordinator."""

    topic: str
    partition: int
    log: Log
    sequence: int


Verified = Mapping[Place, Guard | ApiError | LogError | None]
"""For each partition what to append with (None: the transaction is open there already), or why nothing may be."""


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
    """Ask the coordinator of the id for the partitions in which the transaction is not open yet; for all at once.

    `again`: if the transaction before is just ending, a client whose partitions are added is not told so at once: the
    coordinator is asked again for a while.
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
    """Have the producers of a log at hand; or why that cannot be."""
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
    """The errors of the coordinator, as a client of this kind hears them."""
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
    """Ask the coordinator of the id: `answer` gets its `PartitionErrors`."""
    asked = PartitionsAsked(transactional_id, *producer, not knows.adds, topics)
    command = TransactionCommand(asked, answer, client, transaction_version(knows.adds))
    node.transactions.ask(transactional_id, command)


def heard(error: int, knows: Knows) -> int:
    """An error of the coordinator as a client of this kind is told it."""
    if error == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH  # which producers expect from a partition's leader
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
    """What a producer hears: in place of errors of the coordinator that it may not know one that makes it try again."""
    code = error.error_code
    if code == ErrorCode.INVALID_TXN_STATE:
        return ApiError(code, "Partition was not added to the transaction")
    if code in _TRY_AGAIN or (code == ErrorCode.CONCURRENT_TRANSACTIONS and not knows.adds):
        what = "Unable to verify the partition has been added to the transaction. Underlying error: "
        return ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, what + error_name(code))
    return ApiError(code)
