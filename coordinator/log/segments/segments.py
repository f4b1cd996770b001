"""The frame of a log: its segments in order, its leader epochs, where it begins and ends, and whether it still works.

Knows how to begin, cut and remove segments; not what is appended to them, nor when that is durable.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from muster.coordinator.log.directory.checkpoints import LEADER_EPOCHS, encode_epochs
from muster.coordinator.log.errors import DirectoryGone, FencedLeaderEpoch, LogOffline
from muster.coordinator.log.segments.leader_epochs import LeaderEpochs
from muster.coordinator.log.segments.segment import Segment, segment_name
from muster.coordinator.log.settings import LogConfig
from muster.coordinator.log.storage.interfaces import File, Storage

_logger = structlog.get_logger("muster.log")


@dataclass(slots=True)
class Contents:
    """What a partition's directory was found to hold when it was opened."""

    storage: Storage
    directory: str
    topic: str
    partition: int
    segments: list[Segment]
    """In order, at least one."""
    epochs: LeaderEpochs
    start_offset: int
    end_offset: int
    recovery_point: int
    doubtful_start: int = -1


class SegmentedLog:
    """Segments, epochs and offsets of one partition's log."""

    def __init__(self, contents: Contents, config: LogConfig) -> None:
        self.topic = contents.topic
        self.partition = contents.partition
        self.directory = contents.directory
        self.segments = contents.segments
        self.epochs = contents.epochs
        self.start_offset = contents.start_offset
        """The first offset that may be read."""
        self.doubtful_start = contents.doubtful_start
        """While the log begins there, the segments before are kept, for only a checkpoint says so; -1: all is well."""
        self.end_offset = contents.end_offset
        """The offset that the next record gets."""
        self.durable_offset = contents.end_offset
        """All before it is durable: the high watermark of a partition without replicas."""
        self.recovery_point = contents.recovery_point
        """Up to here the log is known to be on the disk: recovery begins here."""
        self.leader_epoch = contents.epochs.latest
        """The newest epoch that the log has seen; -1: none."""
        self.failure: LogOffline | None = None
        """Why nothing can be appended any more; None while all is well."""
        self._storage = contents.storage
        self._config = config
        self._bases = [segment.base_offset for segment in self.segments]
        self._active = self.segments[-1]

    @property
    def config(self) -> LogConfig:
        """The topic's settings; assigning new ones takes effect at once."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        for segment in self.segments:
            segment.config = config

    @property
    def active_file(self) -> File:
        """The file that is appended to."""
        return self._active.file

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    # -- failure

    def _failed(self, path: str, error: OSError) -> LogOffline:
        """Take the log offline: a later append could otherwise stand behind a hole."""
        is_told = isinstance(error, DirectoryGone)
        failure = LogOffline(path, error.strerror or str(error), is_told=is_told)
        if self.failure is None:
            self.failure = failure
            if not is_told:
                _logger.error(
                    "a log is offline", topic=self.topic, partition=self.partition, path=path, reason=failure.reason
                )
            self._on_failure(failure)
        return failure

    def go_offline(self, path: str, error: OSError) -> None:
        """Something else found that the files cannot be relied on: as after a failed write."""
        self._failed(path, error)

    def come_back(self) -> None:
        """The data directory, which was away, is back: the log goes on with the files that it has held open."""
        if self.failure is not None and self.failure.is_told:
            self.failure = None

    def _on_failure(self, failure: LogOffline) -> None:
        """The log has just gone offline."""

    def _raise_if_offline(self) -> None:
        if self.failure is not None:
            raise LogOffline(self.failure.path, self.failure.reason, is_told=self.failure.is_told)

    # -- epochs

    def begin_epoch(self, leader_epoch: int) -> None:
        """From the present end on, `leader_epoch` leads; FencedLeaderEpoch when a later one was seen."""
        if leader_epoch < self.leader_epoch:
            raise FencedLeaderEpoch(leader_epoch, self.leader_epoch)
        self._raise_if_offline()
        self._assign_epoch(leader_epoch, self.end_offset)

    def _assign_epoch(self, epoch: int, start_offset: int) -> None:
        if epoch > self.leader_epoch and self.epochs.assign(epoch, start_offset):
            self.leader_epoch = epoch
            self.store_epochs()

    def store_epochs(self) -> None:
        """Write the leader epoch checkpoint."""
        path = f"{self.directory}/{LEADER_EPOCHS}"
        try:
            self._storage.save(path, encode_epochs(self.epochs.entries()))
        except OSError as error:
            raise self._failed(path, error) from error

    # -- segments

    def segment_index(self, offset: int) -> int:
        """Which segment holds `offset`, or would."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def roll(self, wall_ms: int) -> None:
        """Go on in a new segment that begins at the present end; nothing happens when the active one is empty."""
        old = self._active
        if old.size == 0:
            return
        segment = Segment(
            self._storage, f"{self.directory}/{segment_name(self.end_offset)}", self.end_offset, self._config, wall_ms
        )
        try:
            segment.create()
            old.seal()
        except OSError as error:
            raise self._failed(segment.file.path, error) from error
        self._add(segment)
        self._on_roll(old)

    def _on_roll(self, old: Segment) -> None:
        """`old` has just ceased to be the active segment."""

    def _add(self, segment: Segment) -> None:
        self.segments.append(segment)
        self._bases.append(segment.base_offset)
        self._active = segment

    def remove_segments(self, first: int, last: int) -> None:
        """Take `segments[first:last]` out of the log at once, and off the disk when there is time."""
        doomed = self.segments[first:last]
        if last == len(self.segments):
            doomed.reverse()  # whatever a crash leaves has no hole: from the end backwards, or from the start on
        del self.segments[first:last], self._bases[first:last]
        names: list[str] = []
        for segment in doomed:
            try:
                names.append(segment.discard())
            except OSError as error:
                raise self._failed(segment.file.path, error) from error

        def remove() -> None:
            for name in names:
                self._storage.remove(name)

        self._in_background(remove)

    def replace_segments(self, old: Sequence[Segment], new: Segment) -> None:
        """Readers find `new`, a compacted segment, in the place of neighbours of the log, `old`; their files are left
        alone.
        """
        first = self.segments.index(old[0])
        last = first + len(old)
        self.segments[first:last] = [new]
        self._bases[first:last] = [new.base_offset]
        for segment in old:
            segment.is_replaced = True
            segment.file.close()

    def _in_background(self, job: Callable[[], object]) -> None:
        """Do what nobody waits for."""
        job()

    def raise_start(self, offset: int) -> None:
        """The log begins at `offset` now, unless it begins later already."""
        if offset > self.start_offset:
            self.start_offset = offset
            if self.epochs.truncate_from_start(offset):
                self.store_epochs()

    def truncate(self, offset: int) -> None:
        """Drop all batches that hold `offset` or later ones (Kafka: truncateTo), waiting for the disk: it is rare."""
        if offset >= self.end_offset:
            return
        if offset < self.segments[0].base_offset:
            self.restart_at(offset)
            return
        keep = self.segment_index(offset)
        self.remove_segments(keep + 1, len(self.segments))
        segment = self._active = self.segments[keep]
        try:
            where = segment.locate(offset)
            end_offset = segment.cut(where[0]) if where is not None else segment.restore_marks()
            # what is appended from here on must never be found beside what was cut off
            segment.file.sync()
            self._storage.sync_directory(self.directory)
        except OSError as error:
            raise self._failed(segment.file.path, error) from error
        self._cut_to(end_offset)

    def restart_at(self, offset: int) -> None:
        """Drop everything; the log is empty and begins at `offset` (Kafka: truncateFullyAndStartAt)."""
        created_ms = self._active.created_ms
        self.remove_segments(0, len(self.segments))
        segment = Segment(self._storage, f"{self.directory}/{segment_name(offset)}", offset, self._config, created_ms)
        try:
            segment.create()
        except OSError as error:
            raise self._failed(segment.file.path, error) from error
        self._add(segment)
        self._cut_to(0)
        self.start_offset = self.end_offset = self.durable_offset = offset

    def _cut_to(self, end_offset: int) -> None:
        self.end_offset = end_offset
        self.start_offset = min(self.start_offset, end_offset)
        self.durable_offset = min(self.durable_offset, end_offset)
        self.recovery_point = min(self.recovery_point, end_offset)
        if self.epochs.truncate_from_end(end_offset):
            self.leader_epoch = self.epochs.latest
            self.store_epochs()
