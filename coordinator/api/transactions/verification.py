"""Before a transaction's first records reach a partition, the transaction coordinator says whether the partition is in
the transaction (KIP-890). Without this question, late records could open a transaction that no client ends.

Older clients have added the partition with AddPartitionsToTxn, and the coordinator verifies this. For newer clients the
coordinator adds the partition, and answers when the addition is durable. Produce and TxnOffsetCommit use this module,
which has the errors for each version of both requests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final, NamedTuple

from muster.coordinator.api.context import (
    RequestContext,
    produce_adds_partitions,
    produce_knows_abortable,
    transaction_version,
    txn_commit_adds_partitions,
    txn_commit_knows_abortable,
)
from muster.coordinator.api.node import PLAIN_ROWS, Node
from muster.coordinator.log.errors import LogError
from muster.coordinator.log.producers.append_checks import NOT_NEEDED, VerificationGuard
from muster.coordinator.log.unified_log import UnifiedLog
from muster.coordinator.state_machine.interface import Producer
from muster.coordinator.system.jobs import Job, PendingResult
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.transactions.commands import PartitionErrors, PartitionsAsked, TransactionCommand
from muster.protocol.errors import ErrorCode, error_name


class Knows(NamedTuple):
    """Which parts of KIP-890 a client knows, by the version of its request."""

    adds: bool
    """The server must add the partitions that the client writes to: from Produce 12, TxnOffsetCommit 5 on."""
    knows_abortable: bool
    """The client knows TRANSACTION_ABORTABLE (from Produce 11, TxnOffsetCommit 4 on), not only INVALID_TXN_STATE."""


@cache
def produce_knows(version: int) -> Knows:
    """What the client that sends this version of Produce knows."""
    return Knows(produce_adds_partitions(version), produce_knows_abortable(version))


@cache
def commit_knows(version: int) -> Knows:
    """What the client that sends this version of TxnOffsetCommit knows."""
    return Knows(txn_commit_adds_partitions(version), txn_commit_knows_abortable(version))


NOT_LOADED: Final = ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
"""The verdict for a log whose producers have to be loaded first."""

Verdict = VerificationGuard | ApiError | LogError | None
"""A guard for the append, or the refusal. None: the transaction is open in the log, so no question is needed."""


class Wanted:
    """A partition to which a batch of a transaction is to be appended. `sequence`: -1 for a coordinator's batch."""

    __slots__ = ("log", "partition", "sequence", "topic", "verdict")

    def __init__(self, topic: str, partition: int, log: UnifiedLog, sequence: int, verdict: Verdict) -> None:
        self.topic = topic
        self.partition = partition
        self.log = log
        self.sequence = sequence
        self.verdict = verdict


def verdict_of(log: UnifiedLog, producer: Producer, sequence: int, knows: Knows, now_ms: int) -> Verdict:
    """The verdict from the log about a batch of a transaction. A guard may be used when the coordinator has agreed."""
    if not log.knows_producers:
        return NOT_LOADED
    producer_id, epoch = producer
    try:
        return log.producers.verification(producer_id, epoch, sequence, supports_epoch_bump=knows.adds, now_ms=now_ms)
    except LogError as error:
        return error


class Verification:
    """The question of one request to the transaction coordinator, about partitions whose logs do not have the open
    transaction. `done()` is called when each partition has its verdict.
    """

    __slots__ = ("_context", "_done", "_knows", "_node", "_producer", "_transactional_id", "_waits", "_wanted")

    def __init__(
        self, node: Node, context: RequestContext, transactional_id: str, producer: Producer, knows: Knows,
        wanted: Sequence[Wanted], done: Callable[[], object], *, waits: bool,
    ) -> None:  # fmt: skip
        """`waits`: whether the coordinator is asked again for a while, if the former transaction is still ending. Only
        clients whose partitions the server adds wait. Other clients get the error at once.
        """
        self._node = node
        self._context = context
        self._transactional_id = transactional_id
        self._producer = producer
        self._knows = knows
        self._wanted = wanted
        self._done = done
        self._waits = waits and knows.adds

    def ask(self) -> None:
        """Ask once for all partitions, which are at most `PLAIN_ROWS`. The verdicts have just been made."""
        topics: dict[str, list[int]] = {}
        is_plain = self._knows.adds or self._verifies_all
        for one in self._wanted:
            verdict = one.verdict
            if type(verdict) is VerificationGuard:
                topics.setdefault(one.topic, []).append(one.partition)
            elif verdict is NOT_LOADED:
                is_plain = False
        if not is_plain:
            self._run()
        elif topics:
            self._ask(topics, self)
        else:
            self._done()

    def __call__(self, response: PartitionErrors) -> None:
        """Take the coordinator's answer."""
        try:
            if response.errors:
                self._enter(response)
                if self._is_ending():
                    self._run(was_asked=True)
                    return
            self._done()
        except Exception as error:  # noqa: BLE001  # a bug ends only this connection, not others that are answered now
            self._context.channel.fault(error)

    def _run(self, *, was_asked: bool = False) -> None:
        self._node.run(self._context, lambda _: self._done(), self.asking(was_asked=was_asked))

    def asking(self, *, was_asked: bool = False) -> Job[None]:
        """`ask` in steps: for many partitions, logs whose producers are not loaded, and attempts after the first."""
        if not (self._knows.adds or self._verifies_all):
            for one in self._wanted:
                one.verdict = (yield from _loading(one.log)) or NOT_NEEDED
            return
        machine, settings = self._node.clock.machine, self._node.topics.settings
        began_ms = machine.mono_ms()
        while True:
            if not was_asked:
                yield from self._ask_once()
            was_asked, now_ms = False, machine.mono_ms()
            if not self._is_ending() or now_ms - began_ms >= settings.add_partitions_to_txn_retry_backoff_max_ms:
                return
            later = PendingResult()
            machine.call_at(now_ms + settings.add_partitions_to_txn_retry_backoff_ms, partial(later, None))
            yield later

    def _ask_once(self) -> Job[None]:
        topics: dict[str, list[int]] = {}
        now_ms = self._node.clock.now().wall_ms
        for number, one in enumerate(self._wanted, 1):
            failure = None if one.log.producers.is_loaded else (yield from _loading(one.log))
            one.verdict = failure or verdict_of(one.log, self._producer, one.sequence, self._knows, now_ms)
            if type(one.verdict) is VerificationGuard:
                topics.setdefault(one.topic, []).append(one.partition)
            if not number % PLAIN_ROWS:
                yield None
        if topics:
            answer = PendingResult()
            self._ask(topics, answer)
            self._enter((yield answer))

    @property
    def _verifies_all(self) -> bool:
        return self._node.topics.settings.transaction_partition_verification_enable

    def _ask(self, topics: Mapping[str, Sequence[int]], answer: Callable[[Any], object]) -> None:
        """Ask the transaction coordinator. `answer` gets the `PartitionErrors`."""
        transactional_id, adds, transactions = self._transactional_id, self._knows.adds, self._node.transactions
        asked = PartitionsAsked(transactional_id, *self._producer, not adds, topics)
        if transactional_id and transactions.routing.ready:
            command = TransactionCommand(asked, answer, self._context.client, transaction_version(adds))
            transactions.ask(transactional_id, command)
        else:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE if transactional_id else ErrorCode.INVALID_REQUEST
            answer(PartitionErrors(asked, {(topic, index): error for topic in topics for index in topics[topic]}))

    def _enter(self, response: PartitionErrors) -> None:
        """Make verdicts of the coordinator's errors: errors that the client's version knows."""
        errors = response.errors
        for one in self._wanted if errors else ():
            error = errors.get((one.topic, one.partition))
            if error is None:
                continue
            if error == ErrorCode.PRODUCER_FENCED:
                error = ErrorCode.INVALID_PRODUCER_EPOCH  # producers expect this error from the leader of a partition
            elif error == ErrorCode.TRANSACTION_ABORTABLE and not self._knows.knows_abortable:
                error = ErrorCode.INVALID_TXN_STATE
            one.verdict = ApiError(error)

    def _is_ending(self) -> bool:
        """Whether to ask again, because the former transaction is still ending."""
        return self._waits and any(
            isinstance(one.verdict, ApiError) and one.verdict.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
            for one in self._wanted
        )


def _loading(log: UnifiedLog) -> Job[ApiError | LogError | None]:
    try:
        yield from log.producers.loading()
    except LogError as error:
        return error
    except OSError as error:
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    return None


# ---- Produce

_TRY_AGAIN: Final = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


def as_produce_error(error: ApiError | LogError, knows: Knows) -> ApiError | LogError:
    """The error for a producer. A coordinator's error that producers may not know becomes one with which they retry."""
    code = error.error_code
    if code == ErrorCode.INVALID_TXN_STATE:
        return ApiError(code, "Partition was not added to the transaction")
    if code in _TRY_AGAIN or (code == ErrorCode.CONCURRENT_TRANSACTIONS and not knows.adds):
        what = "Unable to verify the partition has been added to the transaction. Underlying error: "
        return ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, what + error_name(code))
    return ApiError(code)
