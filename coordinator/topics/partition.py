"""One partition of a topic that this node leads: appending what producers send and reading what was appended.

Sits between the handlers and the log: checks a batch, keeps the producers' state, wakes waiting readers. Decides
nothing about topics, parses no request, waits for nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from muster.coordinator.groups.interface import Now
from muster.coordinator.log import Log, validate_produce
from muster.coordinator.topics.history import ProducerHistory
from muster.coordinator.topics.producers import AbortedTransaction, Producers
from muster.coordinator.topics.refusal import Refused
from muster.coordinator.topics.validation import as_stored, check_batch
from muster.protocol.errors import ErrorCode

NO_EPOCH = -1
"""A request that does not say which leader epoch it knows."""


class Appended(NamedTuple):
    """Where a batch went, or had gone already when it is a duplicate."""

    base_offset: int
    end_offset: int
    """The offset after its last record: durable when the log is durable up to here."""
    log_append_time_ms: int
    """-1 when the topic keeps the time of creation."""


class Read(NamedTuple):
    """Records of a partition as they stand in the log, possibly ending in part of a batch."""

    records: bytes
    aborted: list[AbortedTransaction] | None
    """For readers of committed records: the aborted transactions among them."""


class Partition:
    """A partition and its log. `log` is the very log that a shard of the same index works on."""

    __slots__ = ("_forget", "_waiting", "closed", "history", "index", "leader_epoch", "log", "topic", "topic_id")

    def __init__(self, topic: str, topic_id: bytes, index: int, leader_epoch: int, log: Log) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.leader_epoch = leader_epoch
        self.log = log
        self.history = ProducerHistory(log)
        self.closed = False
        self._waiting: dict[object, Callable[[Partition], object]] = {}
        self._forget = log.on_append(self._advanced)
        log.begin_epoch(leader_epoch)

    def use_log(self, log: Log) -> None:
        """Go on with the log that was opened anew after the old one went offline; nobody who waits is forgotten."""
        self._forget()
        self.log = log
        self.history = ProducerHistory(log)
        self._forget = log.on_append(self._advanced)
        log.begin_epoch(self.leader_epoch)
        self._advanced()

    # -- appending

    def append(
        self, batch: bytes | bytearray | memoryview, now: Now, *, allow_zstd: bool = True, transactional: bool = False
    ) -> Appended:
        """Append one batch of a client (Produce v3+).

        `transactional`: the request names a transactional id. Raises `Refused`, or a `BatchError` or `LogOffline` of
        the log; each has an `error_code`.
        """
        log = self.log
        config = log.config
        header = validate_produce(batch, max_message_bytes=config.max_message_bytes, allow_zstd=allow_zstd)
        if header.size < len(batch):
            # as Kafka: part of another batch behind the one is dropped
            batch = memoryview(batch)[: header.size]
        check_batch(batch, header, config, now, f"{self.topic}-{self.index}")
        if header.producer_id >= 0:
            if header.is_transactional:
                raise self._no_transaction(header.producer_id, transactional)
            seen = self.history.current().check(
                header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence
            )
            if seen is not None:
                return Appended(seen.base_offset, seen.last_offset + 1, seen.timestamp_ms)
        result = log.append(self.leader_epoch, as_stored(batch, header, config), wall_ms=now.wall_ms)
        self.history.appended(header, result.base_offset)
        return Appended(result.base_offset, result.last_offset + 1, result.log_append_time_ms)

    def _no_transaction(self, producer_id: int, transactional: bool) -> Refused:
        """Why a batch of a transaction is refused: nobody began one here."""
        if not transactional:
            return Refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return Refused(
            ErrorCode.INVALID_TXN_STATE,
            f"The partition {self.topic}-{self.index} is in no transaction of producer {producer_id}",
        )

    def expire_producers(self, now: Now, after_ms: int) -> None:
        """Forget producers that have been silent for `after_ms`."""
        if self.history.loaded:
            self.history.current().expire(now.wall_ms, after_ms)

    # -- reading

    @property
    def high_watermark(self) -> int:
        """The offset that readers may read up to."""
        return self.log.durable_offset

    @property
    def producers(self) -> Producers:
        """The state of the producers at the log's end."""
        return self.history.current()

    def last_stable_offset(self) -> int:
        """The offset that readers of committed records may read up to: no transaction is open below it."""
        open_from = self.history.current().first_open_offset()
        high_watermark = self.log.durable_offset
        return high_watermark if open_from is None else min(open_from, high_watermark)

    def read(self, offset: int, max_bytes: int, min_one_message: bool, committed: bool) -> Read:
        """Records from `offset` on; raises OffsetOutOfRange of the log."""
        log = self.log
        if not committed:
            return Read(log.read(offset, max_bytes, min_one_message=min_one_message, up_to=log.durable_offset), None)
        stable = self.last_stable_offset()
        records = log.read(offset, max_bytes, min_one_message=min_one_message, up_to=stable)
        return Read(records, self.history.current().aborted_between(offset, stable) if records else [])

    def check_leader_epoch(self, epoch: int) -> None:
        """Does the client know this leader? Raises `Refused`: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH (KIP-320)."""
        if epoch == NO_EPOCH or epoch == self.leader_epoch:
            return
        if epoch < self.leader_epoch:
            raise Refused(ErrorCode.FENCED_LEADER_EPOCH)
        raise Refused(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def delete_records(self, before: int) -> int:
        """Delete what lies before an offset (-1: everything); returns the new start of the log.

        Raises `Refused`: POLICY_VIOLATION for a compacted topic; OffsetOutOfRange of the log.
        """
        if "delete" not in self.log.config.cleanup_policy and "compact" in self.log.config.cleanup_policy:
            raise Refused(ErrorCode.POLICY_VIOLATION)
        if before < -1:
            raise Refused(ErrorCode.OFFSET_OUT_OF_RANGE)
        start = self.log.delete_records_before(self.log.durable_offset if before == -1 else before)
        self.history.forget_before(start)
        return start

    # -- waiting

    def wait(self, token: object, grew: Callable[[Partition], object]) -> None:
        """Call `grew(partition)` each time more can be read, and once when the partition goes, until `stop_waiting`."""
        self._waiting[token] = grew

    def stop_waiting(self, token: object) -> None:
        """No more calls for `token`."""
        self._waiting.pop(token, None)

    def _advanced(self) -> None:
        if self._waiting:
            for grew in list(self._waiting.values()):
                grew(self)

    def close(self) -> None:
        """The partition is gone: those who wait are told, and nothing is heard of its log any more."""
        self.closed = True
        self._forget()
        self._advanced()
        self._waiting.clear()
