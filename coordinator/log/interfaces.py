"""The interface of one partition's log. `UnifiedLog` keeps it in files; another engine may implement it too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from muster.coordinator.log.errors import BatchError, DamagedLog, LogOffline
from muster.coordinator.log.records.headers import BatchHeader, Buffer
from muster.coordinator.log.records.markers import EndMarker
from muster.coordinator.log.segments.reading import TimestampOffset
from muster.coordinator.log.settings import LogConfig
from muster.coordinator.log.storage.shared_sync import Waiter
from muster.coordinator.system.jobs import Job

if TYPE_CHECKING:
    from muster.coordinator.log.producers.state_manager import ProducerStateManager


class AppendResult(NamedTuple):
    """The result of an append (Kafka's LogAppendInfo, as far as a Produce response has it)."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    """-1 when the topic keeps the producer's own timestamps."""
    log_start_offset: int


class Log(Protocol):
    """One partition's log. It is used from one thread, the event loop. Only `flush` and `truncate` wait for the
    disk.
    """

    config: LogConfig
    """The topic's settings; assigning new ones takes effect at once."""

    @property
    def directory(self) -> str:
        """The name of its folder."""

    @property
    def start_offset(self) -> int:
        """The first offset that may be read."""

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""

    @property
    def durable_offset(self) -> int:
        """Everything before it is durable: the high watermark of a partition without replicas."""

    @property
    def leader_epoch(self) -> int:
        """The newest leader epoch that the log has seen; -1 when it has seen none."""

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches."""

    def size_up_to(self, offset: int) -> int:
        """The bytes of the batches before the batch of an offset. Raises LogOffline."""

    @property
    def failure(self) -> LogOffline | None:
        """Why nothing can be appended any more; None while the log works."""

    @property
    def producers(self) -> ProducerStateManager:
        """The producers with an id that write here, and their transactions; created at the first use."""

    @property
    def knows_producers(self) -> bool:
        """Whether `producers` was created and has read the log."""

    # -- appending

    def begin_epoch(self, leader_epoch: int) -> None:
        """Begin a leader epoch at the present end: appends under an older epoch are refused.

        Raises FencedLeaderEpoch or LogOffline.
        """

    def append(self, leader_epoch: int, batch: Buffer, *, wall_ms: int) -> AppendResult:
        """Append whole batches under this epoch. Raises FencedLeaderEpoch, BatchError or LogOffline."""

    def append_marker(self, leader_epoch: int, marker: EndMarker, *, wall_ms: int) -> AppendResult:
        """Append a marker that ends the transaction of a producer.

        Raises InvalidProducerEpoch or TransactionCoordinatorFenced, and the same as `append`.
        """

    def append_as_is(self, data: Buffer, *, wall_ms: int = 0) -> AppendResult:
        """Append batches that have their offsets and epochs already. Raises the same as `append`."""

    def on_append(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call back after each append, and when more has become durable. Returns a function that ends these calls."""

    def when_durable(self, position: int, callback: Waiter) -> None:
        """Call `callback(None)` once all before `position` is durable, or `callback(error)` when it cannot be."""

    def when_flushed(self, position: int, callback: Waiter) -> None:
        """`when_durable` for the acknowledgement of an append that ended at `position` (`flush.messages`)."""

    def when_synced(self, position: int, callback: Waiter) -> None:
        """Call back once all before `position` is on the disk, also where durable means less."""

    # -- reading

    def read(self, offset: int, max_bytes: int, *, min_one_message: bool = True, up_to: int | None = None) -> bytes:
        """Return batches from the batch with `offset` on, as a fetch gets them.

        Raises OffsetOutOfRange, SegmentAbsent or LogOffline.
        """

    def fetch_segment(self, base_offset: int, then: Callable[[Exception | None], object]) -> Callable[[], object]:
        """Fetch the segment that SegmentAbsent has named, see `segments.absence.FetchSegment`."""

    def replay(self, offset: int | None = None, *, chunk_bytes: int = ...) -> Iterator[bytes]:
        """Yield all whole batches from `offset` (default: the start) to the present end, in chunks. Raises
        DamagedLog.
        """

    def headers(self, offset: int | None = None) -> Iterator[BatchHeader]:
        """Yield the headers of the same batches."""

    def damaged_at(self, offset: int, error: BatchError) -> DamagedLog:
        """Take the log offline, because the batch at `offset` of a replay cannot be read; return the error."""

    def offset_for_timestamp(self, timestamp_ms: int) -> Job[TimestampOffset | None]:
        """A job that finds the first record whose timestamp is `timestamp_ms` or later."""

    def offset_of_max_timestamp(self) -> Job[TimestampOffset | None]:
        """A job that finds the first record with the greatest timestamp."""

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """Return the greatest known epoch not above `epoch`, and its end; (-1, -1) when unknown (KIP-101)."""

    def epoch_for_offset(self, offset: int) -> int:
        """Return the epoch under which `offset` was appended; -1 when unknown."""

    # -- removing

    def delete_records_before(self, offset: int) -> int:
        """Move the start of the log up to `offset` (DeleteRecords); returns the new start."""

    def truncate(self, offset: int) -> None:
        """Drop all batches that hold `offset` or later ones (Kafka: truncateTo)."""

    def sync_if_older(self, mono_ms: int) -> None:
        """Begin a sync when `flush.ms` is over."""

    def flush(self) -> None:
        """Sync everything written, and wait for the disk. Raises LogOffline."""

    def go_offline(self, path: str, error: OSError) -> None:
        """Take the log offline, because its files cannot be trusted, until the log is opened again."""
