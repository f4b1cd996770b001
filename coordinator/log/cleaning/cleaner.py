"""The log cleaner (Kafka: LogCleaner) compacts, from time to time, the logs with the largest dirty part, in threads."""

from __future__ import annotations

from heapq import heapify, heappop
from threading import Event

import structlog

from muster.coordinator.log import checkpoints
from muster.coordinator.log.checkpoints import OffsetCheckpointFile, Partition, load_offsets
from muster.coordinator.log.cleaning.compaction import Throttle
from muster.coordinator.log.cleaning.job import CleaningJob, LogToClean, examine
from muster.coordinator.log.errors import LogError
from muster.coordinator.log.manager import LOGS_AT_ONCE, LogManager
from muster.coordinator.log.storage.shared_sync import SharedSync
from muster.coordinator.log.unified_log import UnifiedLog
from muster.coordinator.system.clock import Clock, Timer
from muster.coordinator.system.jobs import Job

CPU_SHARE = 0.2
"""The share of one core for all compaction threads together, so that the event loop is hardly slower."""
_logger = structlog.get_logger("muster.log")


class Cleaner:
    """Compacts the logs of a data directory, every `log.cleaner.backoff.ms`, until no log is due."""

    def __init__(self, manager: LogManager, clock: Clock, workers: SharedSync, *, cpu_share: float = CPU_SHARE) -> None:
        """`workers`: the cleaner's own threads, at least `log.cleaner.threads`; `stop` closes them."""
        self._manager = manager
        self._clock = clock
        self._workers = workers
        self._cpu_share = cpu_share
        self._timer: Timer | None = None
        self._stop = Event()
        self._running: dict[Partition, CleaningJob] = {}
        self._fetching: set[Partition] = set()
        self._uncleanable: set[Partition] = set()
        self._stuck: set[Partition] = set()
        """Logs whose compaction failed, which are tried again at the next `check_logs`."""
        self._undecided: dict[Partition, int] = {}
        """Logs with an open transaction, and the planned end of the last compaction. Logs wait until this end moves."""
        self._due: list[tuple[float, int, Partition]] = []
        """A heap of the due logs of the last survey, the dirtiest first."""
        self._is_checking = self._check_again = False
        self._clean_up_to = load_offsets(manager.storage, checkpoints.CLEANER_OFFSETS)
        self._file = OffsetCheckpointFile(manager.storage, checkpoints.CLEANER_OFFSETS)
        self._is_saving = False
        self._changes = self._saved = 0
        """How often the offsets in the checkpoint have changed, and the number of the last change that was written."""

    def start(self) -> None:
        """Begin to check the logs."""
        if self._manager.settings.log_cleaner_enable:
            self._arm()

    def _arm(self) -> None:
        after_ms = max(self._manager.settings.log_cleaner_backoff_ms, 1)
        self._timer = self._clock.machine.call_at(self._clock.machine.mono_ms() + after_ms, self._ring)

    def _ring(self) -> None:
        self._arm()
        self.check_logs()

    def stop(self, *, clean: bool = True) -> None:
        """Stop compactions within some ms; the next start repeats them. `clean`: save how far each log is compacted."""
        self._stop.set()
        if self._timer is not None:
            self._timer.cancel()
        self._workers.close()
        if clean and self._changes > self._saved:
            try:
                self._file.save(self._clean_up_to)
            except OSError as error:
                self._cannot_save(error)

    @property
    def is_idle(self) -> bool:
        """Whether no compaction runs."""
        return not self._running

    def check_logs(self) -> None:
        """Begin with the dirtiest due logs, as far as threads are free; the other due logs follow."""
        self._stuck.clear()
        self._due.clear()
        self._begin_due()

    @property
    def _free(self) -> int:
        return 0 if self._stop.is_set() else self._manager.settings.log_cleaner_threads - len(self._running)

    def _begin_due(self) -> None:
        if self._free <= 0:
            return
        if self._is_checking:
            self._check_again = True
            return
        self._is_checking = True
        self._manager.run_job(self._checking())

    def _checking(self) -> Job[None]:
        """Begin with the logs of the last survey. When no such log is due, survey all logs."""
        try:
            yield from self._beginning()
            if self._free > 0:
                yield from self._surveying()
                yield from self._beginning()
        finally:
            self._is_checking = False
        if self._check_again:
            self._check_again = False
            self._begin_due()

    def _beginning(self) -> Job[None]:
        while self._due and self._free > 0:
            log = self._manager.get(*heappop(self._due)[2])
            found = None if log is None else self._examined(log)
            if found is not None and found.is_due and not self._fetches_absent(found):
                self._begin(found)
            yield None

    def _surveying(self) -> Job[None]:
        due: list[tuple[float, int, Partition]] = []
        for number, log in enumerate(self._manager.logs(), 1):
            found = self._examined(log)
            if found is not None and found.is_due:
                due.append((-found.cleanable_ratio, number, (log.topic, log.partition)))
            if found is not None or not number % LOGS_AT_ONCE:
                yield None
        heapify(due)
        self._due = due

    def _fetches_absent(self, found: LogToClean) -> bool:
        """Fetch missing segments. True while segments are missing; the log is examined again later."""
        log, key = found.log, (found.log.topic, found.log.partition)
        absent = next((segment for segment in found.segments if segment.is_absent), None)
        if absent is None:
            return False

        def then(failure: Exception | None) -> None:
            self._fetching.discard(key)
            if failure is None:
                self._begin_due()

        if key not in self._fetching and len(self._fetching) < max(self._manager.settings.log_cleaner_threads, 1):
            self._fetching.add(key)
            log.fetch_segment(absent.base_offset, then)
        return True

    def _examined(self, log: UnifiedLog) -> LogToClean | None:
        """Return how dirty a log is; None if nothing of it can be compacted now."""
        key = (log.topic, log.partition)
        is_free = not (key in self._running or key in self._uncleanable or key in self._stuck)
        if not is_free or log.failure is not None or not log.config.compacts or len(log.segments) < 2:
            return None
        clean = log.durability.clean_offset if log.durability.is_copied else self._clean_up_to.get(key)
        found = examine(log, clean, self._clock.now().wall_ms)
        return found if found.segments and found.end_offset != self._undecided.get(key) else None

    def _begin(self, found: LogToClean) -> None:
        settings, now = self._manager.settings, self._clock.now()
        threads = max(settings.log_cleaner_threads, 1)
        throttle = Throttle(
            self._stop,
            cpu_share=self._cpu_share / threads,
            bytes_per_second=max(settings.log_cleaner_io_max_bytes_per_second / threads, 1.0),
        )
        job = CleaningJob(self._manager, self._workers, found, throttle, now.wall_ms, self._ended)
        self._running[found.log.topic, found.log.partition] = job
        job.begin()

    def _ended(self, job: CleaningJob) -> None:
        key = (job.log.topic, job.log.partition)
        del self._running[key]
        failure = job.failure
        if isinstance(failure, LogError):
            # as on Kafka: an unreadable log is left alone until the next start
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
            self._begin_due()  # the thread continues with the next log

    def _save(self) -> None:
        self._changes += 1
        if not self._is_saving:
            self._is_saving = True
            self._manager.run_job(self._saving())

    def _saving(self) -> Job[None]:
        try:
            while self._saved < self._changes:
                changes = self._changes
                for number, key in enumerate(list(self._clean_up_to), 1):
                    if self._manager.get(*key) is None:
                        del self._clean_up_to[key]
                    if not number % LOGS_AT_ONCE:
                        yield None
                try:
                    yield from self._file.saving(dict(self._clean_up_to))
                except OSError as error:
                    self._cannot_save(error)
                self._saved = changes
        finally:
            self._is_saving = False

    def _cannot_save(self, error: OSError) -> None:
        """Keep the old checkpoint; the same compactions run again."""
        _logger.error("a checkpoint cannot be written", directory=self._manager.storage.root, reason=str(error))
