"""One partition of a topic under one leader: appending what producers send and reading what was appended. Another
leader, or the same with a new epoch, has another `Partition`; the one before then refuses everything.

Sits between the handlers and the log: checks a batch, keeps the producers' state, wakes waiting readers. Decides
nothing about topics, parses no request, waits for nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from muster.coordinator.log import BatchHeader, Log
from muster.coordinator.log.records.compression import Allowed
from muster.coordinator.log.records.markers import EndMarker
from muster.coordinator.state_machine.interface import Now
from muster.coordinator.system.jobs import Job, at_once
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.validation import Batch, Checked, checked
from muster.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from muster.coordinator.log.producers.state import Producers
    from muster.coordinator.log.producers.verification import Guard
    from muster.coordinator.log.segments.transaction_index import AbortedTransaction

NO_EPOCH = -1
"""A request that does not say which leader epoch it knows."""


class Appended(NamedTuple):
    """Where a batch went, or had gone already when it is a duplicate."""

    base_offset: int
    end_offset: int
    """The offset after its last record: durable when the log is durable up to here."""
    log_append_time_ms: int
    """-1 when the topic keeps the time of creation."""


class Partition:
    """A partition and its log. `log` is the very log that a shard of the same index works on. `closed`: the partition
    is gone, or has another leader: every append is refused with `refusal`.
    """

    __slots__ = ("_forget", "_waiting", "closed", "index", "leader_epoch", "log", "refusal", "topic", "topic_id")

    def __init__(self, topic: str, topic_id: bytes, index: int, leader_epoch: int, log: Log) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.leader_epoch = leader_epoch
        self.log = log
        self.closed = False
        self.refusal: int = ErrorCode.NONE
        self._waiting: dict[object, Callable[[Partition], object]] = {}
        self._forget = log.on_append(self._advanced)

    def use_log(self, log: Log) -> None:
        """Use the log that was opened again after the old one went offline. Waiting readers keep waiting."""
        self._forget()
        self.log = log
        self._forget = log.on_append(self._advanced)
        self._advanced()

    # -- appending

    def check(self, batch: Batch, header: BatchHeader, now: Now) -> Callable[[Allowed], Checked]:
        """What checks the one batch of a client's row (Produce v3+), in any thread, and says what `append` takes;
        `header` comes from `only_batch`. Raises `ApiError`; what is returned raises that too, or a `BatchError`.
        """
        return partial(checked, batch, header, self.log.config, now.wall_ms, f"{self.topic}-{self.index}")

    def loading_producers(self) -> Job[None]:
        """A job after which all that asks for the state of producers takes no time: appends of producers with an id,
        reads of committed records, markers. Without it they may read the whole log at once. Raises an error of the log.
        """
        producers = self.log.producers
        if not producers.is_loaded:
            yield from producers.loading()

    def append(self, batch: Batch, header: BatchHeader, now: Now, guard: Guard | None = None) -> Appended:
        """Append a batch of a client that was checked. `guard`: of `log.producers.verification`, for a batch of a
        transaction.

        Raises `ApiError`, or an error of the log; each has an `error_code`.
        """
        if self.closed:
            raise ApiError(self.refusal)
        log = self.log
        if header.producer_id >= 0:
            seen = log.producers.check(header, guard)
            if seen is not None:
                return Appended(seen.base_offset, seen.last_offset + 1, seen.timestamp_ms)
        result = log.append(self.leader_epoch, batch, wall_ms=now.wall_ms)
        return Appended(result.base_offset, result.last_offset + 1, result.log_append_time_ms)

    def append_marker(self, marker: EndMarker, now: Now) -> Appended:
        """End a producer's transaction in this partition. Raises as `append` does: INVALID_PRODUCER_EPOCH,
        TRANSACTION_COORDINATOR_FENCED.
        """
        if self.closed:
            raise ApiError(self.refusal)
        result = self.log.append_marker(self.leader_epoch, marker, wall_ms=now.wall_ms)
        return Appended(result.base_offset, result.last_offset + 1, result.log_append_time_ms)

    def expire_producers(self, now: Now, after_ms: int) -> None:
        """Forget producers that have been silent for `after_ms`."""
        at_once(self.expiring_producers(now, after_ms))

    def expiring_producers(self, now: Now, after_ms: int) -> Job[None]:
        """The same, in slices."""
        if self.log.knows_producers:
            yield from self.log.producers.expiring(now.wall_ms, after_ms)

    # -- reading

    def producers(self) -> Producers:
        """The state of each producer (DescribeProducers)."""
        return self.log.producers.producers

    def last_stable_offset(self) -> int:
        """The offset that readers of committed records may read up to: no transaction is open below it."""
        return self.log.producers.last_stable_offset(self.log.durable_offset)

    def read(self, offset: int, max_bytes: int, min_one_message: bool, up_to: int) -> bytes:
        """Records from `offset` on, as they stand in the log, possibly ending in part of a batch. `up_to`: only below
        that offset, which is the last stable one for readers of committed records. Raises OffsetOutOfRange of the log.
        """
        return self.log.read(offset, max_bytes, min_one_message=min_one_message, up_to=up_to)

    def aborted_at_hand(self, offset: int, records: bytes) -> list[AbortedTransaction] | None:
        """Which transactions a reader of committed records must skip in what was read, if that is known without a look
        into a file and little, as it is nearly always; None: ask `aborted`.
        """
        return self.log.producers.aborted_at_hand(offset, len(records)) if records else []

    def aborted(self, offset: int, records: bytes) -> Job[list[AbortedTransaction]]:
        """A job that finds the same, however much it is."""
        producers = self.log.producers
        if not records or not producers.has_aborted:
            return []
        return (yield from producers.aborted_in(offset, len(records)))

    def check_leader_epoch(self, epoch: int) -> None:
        """Does the client know this leader? Raises `ApiError`: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH (KIP-320)."""
        if epoch == NO_EPOCH or epoch == self.leader_epoch:
            return
        if epoch < self.leader_epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
        raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """The greatest known leader epoch not above `epoch`, and where it ends; (-1, -1) when unknown (KIP-101).

        The log notes an epoch with its first record: until then the present one begins, and ends, where the log ends.
        """
        log = self.log
        if epoch == self.leader_epoch:
            return epoch, log.end_offset
        noted = log.leader_epoch
        if epoch != NO_EPOCH and epoch < self.leader_epoch and (noted < epoch or noted < 0):
            return epoch if noted < 0 else noted, log.end_offset
        return log.epoch_end_offset(epoch)

    def epoch_for_offset(self, offset: int) -> int:
        """The leader epoch under which `offset` was appended, or will be if it is the next; -1 when unknown."""
        return self.leader_epoch if offset >= self.log.end_offset else self.log.epoch_for_offset(offset)

    def delete_records(self, before: int) -> int:
        """Delete what lies before an offset (-1: everything); returns the new start of the log.

        Raises `ApiError`: POLICY_VIOLATION for a compacted topic; OffsetOutOfRange of the log.
        """
        if "delete" not in self.log.config.cleanup_policy and "compact" in self.log.config.cleanup_policy:
            raise ApiError(ErrorCode.POLICY_VIOLATION)
        if before < -1:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        return self.log.delete_records_before(self.log.durable_offset if before == -1 else before)

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

    def close(self, refusal: int = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) -> None:
        """The partition is deleted, or has another leader: waiting readers are told, and its log is not watched any
        more.
        """
        self.refuse(refusal)
        self.wake()

    def refuse(self, refusal: int) -> None:
        """Refuse everything from now on; waiting readers are not told yet."""
        self.closed, self.refusal = True, refusal
        self._forget()
        self._forget = _nothing  # no cycle stays of a partition that is closed

    def wake(self) -> None:
        """Tell waiting readers that the partition is `closed`."""
        self._advanced()
        self._waiting.clear()


def _nothing() -> None:
    pass
