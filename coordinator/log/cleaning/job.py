"""One running compaction: its steps in a thread, and the work on the event loop between two steps."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import structlog

from muster.coordinator.log.cleaning import swap
from muster.coordinator.log.cleaning.compaction import Compaction, Part
from muster.coordinator.log.cleaning.log_to_clean import LogToClean
from muster.coordinator.log.cleaning.throttle import Stopped, Throttle
from muster.coordinator.log.errors import LogError
from muster.coordinator.log.manager import LogManager
from muster.coordinator.log.segments.cleaned_file import CleanedFile
from muster.coordinator.log.segments.file_names import LOG_SUFFIX, SWAP_SUFFIX
from muster.coordinator.log.segments.segment import Segment
from muster.coordinator.log.segments.transaction_index import TransactionIndex
from muster.coordinator.log.storage.shared_sync import SharedSync
from muster.coordinator.log.unified_log import UnifiedLog

_logger = structlog.get_logger("muster.log")


class CleaningJob:
    """Compacts one log in groups of segments. Each group replaces its segments as soon as it is written."""

    def __init__(
        self,
        manager: LogManager,
        workers: SharedSync,
        found: LogToClean,
        throttle: Throttle,
        wall_ms: int,
        ended: Callable[[CleaningJob], object],
    ) -> None:
        """`ended` is called on the event loop, once."""
        self.log: UnifiedLog = found.log
        self.failure: LogError | OSError | None = None
        """Why the compaction has failed. With a LogError it would fail again."""
        self.stopped = False
        """Whether the compaction was given up, because the server stops or the log has changed meanwhile."""
        self._manager = manager
        self._workers = workers
        self._throttle = throttle
        self._compaction = Compaction(manager.storage, found.plan(manager.settings, wall_ms), throttle)
        self.planned_end = self._compaction.plan.end_offset
        """The planned end of the clean part. An open transaction may end it earlier."""
        self._segments = found.segments
        self._groups: list[list[Part]] | None = None
        self._cleaned: CleanedFile | None = None
        self._index: TransactionIndex | None = None
        """The transaction index of the cleaned segment."""
        self._group: list[Part] = []
        self._swapped: Segment | None = None
        """The new segment in the log, while its files do not have their final names."""
        self._is_renamed = False
        self._ended = ended

    @property
    def first_dirty(self) -> int:
        """The offset from which nothing was compacted before."""
        return self._compaction.plan.first_dirty

    @property
    def end_offset(self) -> int:
        """The end of the clean part after this compaction."""
        return self._compaction.end_offset

    def begin(self) -> None:
        """Do the next step in a thread."""
        self._workers.run(self._work, self._after_work)

    # -- in a thread

    def _work(self) -> None:
        self._throttle.begin()
        try:
            if self._swapped is not None:
                replaced = [part.name for part in self._group]
                with self._manager.folders.files_lock:
                    swap.finish(self._manager.storage, self.log.directory, self._swapped.name, replaced)
                self._is_renamed = True
            if self._groups is None:
                self._compaction.find()
                self._groups = self._compaction.groups
            while self._groups and self._cleaned is None:
                self._clean(self._groups.pop(0))
        except Stopped:
            self.stopped = True
        except (LogError, OSError) as error:
            self.failure = error
        except Exception as error:  # a bug must not end the thread silently, nor the server
            _logger.exception("a log cannot be compacted", topic=self.log.topic, partition=self.log.partition)
            self.failure = LogError(repr(error))
        unfinished = self._cleaned or self._compaction.unfinished
        if (self.stopped or self.failure) and unfinished is not None:
            with contextlib.suppress(OSError):  # else the next start removes it
                swap.drop(self._manager.storage, unfinished)

    def _clean(self, group: list[Part]) -> None:
        cleaned = self._compaction.write(group)
        if len(group) == 1 and not self._compaction.changed:
            swap.drop(self._manager.storage, cleaned)  # no record was removed
            return
        self._group = group
        self._cleaned = cleaned
        swap.commit(self._manager.storage, self.log.directory, cleaned, group[-1].next_base)
        self._index = swap.transaction_index(self._manager.storage, cleaned)

    # -- on the event loop

    def _after_work(self, _: OSError | None) -> None:
        swapped, self._swapped = self._swapped, None
        if swapped is not None:
            if not self._is_renamed:
                # opening the log again finishes the swap
                self.log.go_offline(swapped.file.path, OSError(str(self.failure)))
            elif self.log.failure is None:
                swapped.settle()
                if self.log.knows_producers:
                    self.log.producers.settled(swapped)
            self._is_renamed = False
        cleaned, self._cleaned = self._cleaned, None
        if self.failure is not None or self.stopped:
            self._ended(self)
        elif cleaned is None:
            if self.end_offset > self.first_dirty:
                self._log_result()
            self._ended(self)
        elif self._may_swap():
            self._swap(cleaned)
            self.begin()
        else:
            self.stopped = True
            storage = self._manager.storage
            self._workers.run(lambda: swap.drop(storage, cleaned), lambda _: self._ended(self))

    def _old(self) -> list[Segment]:
        bases = {part.base_offset for part in self._group}
        return [segment for segment in self._segments if segment.base_offset in bases]

    def _may_swap(self) -> bool:
        """Whether the log still has the compacted segments: retention or a failure may have changed it."""
        log, old = self.log, self._old()
        if log.failure is not None or self._manager.get(log.topic, log.partition) is not log:
            return False
        if old[0] not in log.segments:
            return False
        first = log.segments.index(old[0])
        return (
            log.segments[first : first + len(old)] == old
            and first + len(old) < len(log.segments)
            and [segment.size for segment in old] == [part.size for part in self._group]
        )

    def _swap(self, cleaned: CleanedFile) -> None:
        old = self._old()
        new = Segment(self._manager.storage, cleaned.name, cleaned.base_offset, self.log.config, old[-1].created_ms)
        new.adopt_cleaned(cleaned, cleaned.name + LOG_SUFFIX + SWAP_SUFFIX)
        self.log.segments.replace(old, new)
        self.log.producers.compacted(old, self._index)
        self.log.durability.replaced(old, new, cleaned.aborted)
        self._swapped = new

    def _log_result(self) -> None:
        work = self._compaction
        _logger.info("a log was compacted", topic=self.log.topic, partition=self.log.partition, up_to=work.end_offset,
                     bytes_before=sum(part.size for part in work.plan.parts),
                     bytes_after=work.bytes_written)  # fmt: skip
