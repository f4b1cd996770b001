"""One partition of a topic under one leader: appends records of producers, and reads them.

Another leader, or a new epoch of the same leader, has another `Partition`. The old object then refuses everything. A
partition checks batches, keeps the producers' state, and wakes waiting readers, but never waits and parses no request.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import TYPE_CHECKING

from muster.coordinator.log import AppendResult, BatchHeader, FilePart, UnifiedLog
from muster.coordinator.log.records.compression import Allowed
from muster.coordinator.log.records.markers import EndMarker
from muster.coordinator.state_machine.interface import Now
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.validation import Batch, Checked, checked
from muster.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from muster.coordinator.log.producers.append_checks import VerificationGuard
    from muster.coordinator.log.producers.state import Producers
    from muster.coordinator.log.segments.transaction_index import AbortedTransaction

NO_EPOCH = -1


class Partition:
    """A partition and its log. A `closed` partition (deleted, or with a new leader) answers calls with `refusal`."""

    __slots__ = ("_forget", "_waiting", "closed", "index", "leader_epoch", "log", "refusal", "topic", "topic_id")

    def __init__(self, topic: str, topic_id: bytes, index: int, leader_epoch: int, log: UnifiedLog) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.leader_epoch = leader_epoch
        self.log = log
        self.closed = False
        self.refusal: int = ErrorCode.NONE
        self._waiting: dict[object, Callable[[Partition], object]] = {}
        self._forget = log.on_append(self._advanced)

    def use_log(self, log: UnifiedLog) -> None:
        """Use the log that was opened again after a failure. Waiting readers keep waiting."""
        self._forget()
        self.log = log
        self._forget = log.on_append(self._advanced)
        self._advanced()

    # -- appending

    def check(self, batch: Batch, header: BatchHeader, now: Now, limits: Allowed) -> Checked:
        """Check a client's batch, with the header of `only_batch`, in any thread. Raises `ApiError`, `BatchError`."""
        return checked(batch, header, self.log.config, now.wall_ms, self.topic, self.index, limits)

    def loading_producers(self) -> Job[None]:
        """A job that loads the state of producers, so that no append has to. Raises an error of the log."""
        producers = self.log.producers
        if not producers.is_loaded:
            yield from producers.loading()

    def append(
        self, batch: Batch, header: BatchHeader, now: Now, guard: VerificationGuard | None = None
    ) -> AppendResult:
        """Append a checked batch of a client, with its guard. Raises `ApiError`, or an error of the log."""
        if self.closed:
            raise ApiError(self.refusal)
        log = self.log
        if header.producer_id >= 0:
            seen = log.producers.check(header, guard)
            if seen is not None:
                return AppendResult(seen.base_offset, seen.last_offset, seen.timestamp_ms, log.start_offset)
        return log.append(self.leader_epoch, batch, wall_ms=now.wall_ms)

    def append_marker(self, marker: EndMarker, now: Now) -> AppendResult:
        """End a producer's transaction in this partition. Raises as `append` does."""
        if self.closed:
            raise ApiError(self.refusal)
        return self.log.append_marker(self.leader_epoch, marker, wall_ms=now.wall_ms)

    def expiring_producers(self, now: Now, after_ms: int) -> Job[None]:
        """A job that forgets producers that wrote nothing for `after_ms`."""
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
        """Return records from `offset` up to `up_to`; the last batch may be cut off. Raises OffsetOutOfRange."""
        return self.log.read(offset, max_bytes, min_one_message=min_one_message, up_to=up_to)

    def read_for_socket(self, offset: int, max_bytes: int, min_one_message: bool, up_to: int) -> bytes | FilePart:
        """Like `read`, but large records may be a part of a file, which only the socket reads, and at once."""
        return self.log.read_for_socket(offset, max_bytes, min_one_message, up_to)

    def aborted_in_memory(self, offset: int, records: Sized) -> list[AbortedTransaction] | None:
        """Return the aborted transactions in `records`. None, which is rare: call `aborted`, which reads files."""
        return self.log.producers.aborted_in_memory(offset, len(records)) if records else []

    def aborted(self, offset: int, records: Sized) -> Job[list[AbortedTransaction]]:
        """A job that finds the aborted transactions in `records`, however many they are."""
        producers = self.log.producers
        if not records or not producers.has_aborted:
            return []
        return (yield from producers.aborted_in(offset, len(records)))

    def check_leader_epoch(self, epoch: int) -> None:
        """Check the client's leader epoch (KIP-320). Raises `ApiError`: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH."""
        if epoch == NO_EPOCH or epoch == self.leader_epoch:
            return
        if epoch < self.leader_epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
        raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """Return the greatest known leader epoch not above `epoch`, and its end; (-1, -1) when unknown (KIP-101).

        The log notes an epoch with the first record. Until then the present epoch is at the end of the log.
        """
        log = self.log
        if epoch == self.leader_epoch:
            return epoch, log.end_offset
        noted = log.leader_epoch
        if epoch != NO_EPOCH and epoch < self.leader_epoch and (noted < epoch or noted < 0):
            return epoch if noted < 0 else noted, log.end_offset
        return log.epochs.end_offset(epoch, log.end_offset)

    def epoch_for_offset(self, offset: int) -> int:
        """Return the leader epoch of the record at `offset`, or of the next record; -1 when unknown."""
        return self.leader_epoch if offset >= self.log.end_offset else self.log.epochs.epoch_of(offset)

    def delete_records(self, before: int) -> int:
        """Delete the records before an offset (-1: all); return the new start. Raises `ApiError`, OffsetOutOfRange."""
        if "delete" not in self.log.config.cleanup_policy and "compact" in self.log.config.cleanup_policy:
            raise ApiError(ErrorCode.POLICY_VIOLATION)
        if before < -1:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        return self.log.delete_records_before(self.log.durable_offset if before == -1 else before)

    # -- waiting

    def wait(self, token: object, grew: Callable[[Partition], object]) -> None:
        """Call `grew(partition)` each time more records can be read, and once on `close`, until `stop_waiting`."""
        self._waiting[token] = grew

    def stop_waiting(self, token: object) -> None:
        """End the calls that `wait` began for `token`."""
        self._waiting.pop(token, None)

    def _advanced(self) -> None:
        if self._waiting:
            for grew in list(self._waiting.values()):
                grew(self)

    def close(self, refusal: int = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) -> None:
        """Close the partition, which is deleted or has another leader, and wake waiting readers."""
        self.refuse(refusal)
        self.wake()

    def refuse(self, refusal: int) -> None:
        """Refuse everything from now on. Waiting readers are not woken yet."""
        self.closed, self.refusal = True, refusal
        self._forget()
        self._forget = lambda: None  # a closed partition stays in no reference cycle

    def wake(self) -> None:
        """Wake waiting readers of a partition that is `closed`."""
        self._advanced()
        self._waiting.clear()
