"""The log cleaner (Kafka: LogCleaner): from time to time it has the dirtiest compacted log compacted, in threads that
together never take more than `CPU_SHARE` of a core. Driven from the event loop by the Clock.
"""

from __future__ import annotations

from importlib import import_module
from threading import Event
from typing import TYPE_CHECKING, Final

import structlog

from muster.coordinator.clock import Clock, Timer
from muster.coordinator.log import checkpoints
from muster.coordinator.log.checkpoints import Partition
from muster.coordinator.log.cleaning.throttle import Throttle
from muster.coordinator.log.directory.last_stop import load_offsets
from muster.coordinator.log.errors import LogError
from muster.coordinator.log.manager import LogManager
from muster.coordinator.log.storage.shared_sync import SharedSync

if TYPE_CHECKING:
    from muster.coordinator.log.cleaning.job import CleaningJob
    from muster.coordinator.log.cleaning.log_to_clean import LogToClean

CPU_SHARE = 0.2
"""Of one core, for all threads together: with so much the event loop hardly waits longer for its turn."""
_ROOM: Final = "muster.coordinator.log.cleaning"
"""What compacts is imported when a log has something to compact: a start does not wait for it."""
_logger = structlog.get_logger("muster.log")


class Cleaner:
    """Compacts the logs of a data directory, each `log.cleaner.backoff.ms` and as long as one is due."""

    def __init__(self, manager: LogManager, clock: Clock, workers: SharedSync, *, cpu_share: float = CPU_SHARE) -> None:
        """`workers`: threads of its own, at least `log.cleaner.threads`, closed by `stop`."""
        self._manager = manager
        self._clock = clock
        self._workers = workers
        self._cpu_share = cpu_share
        self._timer: Timer | None = None
        self._stop = Event()
        self._running: dict[Partition, CleaningJob] = {}
        self._coming: set[Partition] = set()
        """Logs of which a segment is on its way here."""
        self._uncleanable: set[Partition] = set()
        self._stuck: set[Partition] = set()
        """Logs whose compaction failed, until the next `look`."""
        self._undecided: dict[Partition, int] = {}
        """Logs with an open transaction: nothing more of them can be compacted before they reach beyond this offset."""
        self._clean_up_to = load_offsets(manager.storage, checkpoints.CLEANER_OFFSETS)

    def start(self) -> None:
        """Look from now on."""
        if self._manager.settings.log_cleaner_enable:
            self._arm()

    def _arm(self) -> None:
        after_ms = max(self._manager.settings.log_cleaner_backoff_ms, 1)
        self._timer = self._clock.machine.call_at(self._clock.machine.mono_ms() + after_ms, self._ring)

    def _ring(self) -> None:
        self._arm()
        self.look()

    def stop(self) -> None:
        """End what is under way (within some ms) and begin nothing more; half a compaction is done anew next time."""
        self._stop.set()
        if self._timer is not None:
            self._timer.cancel()
        self._workers.close()

    @property
    def is_idle(self) -> bool:
        """Nothing is being compacted."""
        return not self._running

    def look(self) -> None:
        """Begin with the dirtiest logs that are due, as far as threads are free; the others follow."""
        self._stuck.clear()
        self._begin_due()

    def _begin_due(self) -> None:
        free = self._manager.settings.log_cleaner_threads - len(self._running)
        if free <= 0 or self._stop.is_set():
            return
        due = [found for found in self._survey() if found.is_due]
        due.sort(key=lambda found: found.cleanable_ratio, reverse=True)
        here = [found for found in due if not self._brings(found)]
        for found in here[:free]:
            self._begin(found)

    def _brings(self, found: LogToClean) -> bool:
        """Whether some of its segments are not here, and come first; then it is looked at again."""
        log, key = found.log, (found.log.topic, found.log.partition)
        absent = next((segment for segment in found.segments if segment.is_absent), None)
        if absent is None:
            return False

        def then(failure: Exception | None) -> None:
            self._coming.discard(key)
            if failure is None:
                self._begin_due()

        if key not in self._coming and len(self._coming) < max(self._manager.settings.log_cleaner_threads, 1):
            self._coming.add(key)
            log.bring(absent.base_offset, then)
        return True

    def _survey(self) -> list[LogToClean]:
        wall_ms = self._clock.now().wall_ms
        surveyed: list[LogToClean] = []
        for log in self._manager.logs():
            key = (log.topic, log.partition)
            is_free = not (key in self._running or key in self._uncleanable or key in self._stuck)
            if is_free and log.failure is None and log.config.compacts and len(log.segments) > 1:
                clean = log.durability.clean_offset if log.durability.is_copied else self._clean_up_to.get(key)
                found = import_module(f"{_ROOM}.log_to_clean").examine(log, clean, wall_ms)
                if found.segments and found.end_offset != self._undecided.get(key):
                    surveyed.append(found)
        return surveyed

    def _begin(self, found: LogToClean) -> None:
        settings, now = self._manager.settings, self._clock.now()
        threads = max(settings.log_cleaner_threads, 1)
        throttle = Throttle(
            self._stop,
            cpu_share=self._cpu_share / threads,
            bytes_per_second=max(settings.log_cleaner_io_max_bytes_per_second / threads, 1.0),
        )
        make = import_module(f"{_ROOM}.job").CleaningJob
        job = make(self._manager, self._workers, found, throttle, now.wall_ms, self._ended)
        self._running[found.log.topic, found.log.partition] = job
        job.begin()

    def _ended(self, job: CleaningJob) -> None:
        key = (job.log.topic, job.log.partition)
        del self._running[key]
        failure = job.failure
        if isinstance(failure, LogError):
            # as on Kafka: what cannot be read is left alone until the next start
            self._uncleanable.add(key)
        if failure is not None:
            self._stuck.add(key)
            _logger.error("a log cannot be compacted", topic=key[0], partition=key[1], reason=str(failure))
        elif not job.stopped:
            if job.end_offset > job.first_dirty:
                self._clean_up_to[key] = job.end_offset
                self._save()
                job.log.durability.compacted_to(job.end_offset)
            else:
                self._undecided[key] = job.planned_end
            self._begin_due()  # the next one

    def _save(self) -> None:
        known = {(log.topic, log.partition): None for log in self._manager.logs()}
        self._clean_up_to = {key: offset for key, offset in self._clean_up_to.items() if key in known}
        try:
            self._manager.storage.save(checkpoints.CLEANER_OFFSETS, checkpoints.encode_offsets(self._clean_up_to))
        except OSError as error:
            _logger.error("a checkpoint cannot be written", directory=self._manager.storage.root, reason=str(error))
