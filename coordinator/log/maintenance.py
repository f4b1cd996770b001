"""Regular work on a data directory, by the clock: retention, checkpoints, syncs by age, and the check of the directory.

The system accepts writes into removed files, so `DirectoryMonitor` checks each second, in a thread. While the directory
is missing every log is offline. When the directory is back, the logs continue with their open files. A log whose own
files were removed stays offline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

import structlog

from muster.coordinator.log.disk_durability import REMOVED
from muster.coordinator.log.errors import DirectoryGone, LogOffline
from muster.coordinator.log.manager import LOGS_AT_ONCE, LogManager
from muster.coordinator.log.settings import MAX_INT64
from muster.coordinator.log.storage.shared_sync import SharedSync
from muster.coordinator.log.unified_log import UnifiedLog
from muster.coordinator.system.clock import Clock, Timer
from muster.coordinator.system.jobs import Job

_logger = structlog.get_logger("muster.log")

SEGMENTS_AT_ONCE: Final = 100
CHECK_EVERY_MS: Final = 1_000
LOGS_EACH: Final = 200
"""The number of logs in one check; the next check continues after them."""


class Maintenance:
    """Runs retention and writes the checkpoints at regular intervals, each as a job over all logs.

    Recovery points and log starts are written together, at the smaller of the two `log.flush.*.checkpoint.interval.ms`.
    """

    def __init__(self, manager: LogManager, clock: Clock) -> None:
        self._manager = manager
        self._clock = clock
        self._timers: dict[str, Timer] = {}
        self._running: set[str] = set()

    def start(self) -> None:
        """Start the timers."""
        settings = self._manager.settings
        self._repeat("retention", settings.log_retention_check_interval_ms, self._enforcing_retention)
        checkpoint_ms = min(
            settings.log_flush_offset_checkpoint_interval_ms, settings.log_flush_start_offset_checkpoint_interval_ms
        )
        self._repeat("checkpoint", checkpoint_ms, self._checkpointing)
        if settings.log_flush_scheduler_interval_ms < MAX_INT64:
            self._repeat("sync", settings.log_flush_scheduler_interval_ms, self._syncing_old)

    def _repeat(self, name: str, interval_ms: int, action: Callable[[], Job[object]]) -> None:
        def guarded() -> Job[None]:
            try:
                yield from action()
            finally:
                self._running.discard(name)

        def ring() -> None:
            self._repeat(name, interval_ms, action)
            if name not in self._running:  # no new job begins while the last job still runs
                self._running.add(name)
                self._manager.run_job(guarded())

        self._timers[name] = self._clock.call_at(self._clock.now().mono_ms + interval_ms, ring, interval_ms)

    def _enforcing_retention(self) -> Job[int]:
        return enforcing_retention(self._manager.logs(), self._clock.now().wall_ms)

    def _syncing_old(self) -> Job[None]:
        return syncing_old(self._manager.logs(), self._clock.now().mono_ms)

    def _checkpointing(self) -> Job[None]:
        """Write the checkpoints. On a full disk the old checkpoints stay valid; recovery only takes longer."""
        if self._manager.gone is not None:
            return
        try:
            yield from self._manager.checkpointing()
        except OSError as error:
            _logger.error("a checkpoint cannot be written", directory=self._manager.storage.root, reason=str(error))

    def stop(self) -> None:
        """Stop the timers."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()


def enforcing_retention(logs: Iterable[UnifiedLog], wall_ms: int) -> Job[int]:
    """Apply retention once to all logs that are not offline; return how many segments were removed."""
    removed = 0
    for log in logs:
        count = SEGMENTS_AT_ONCE
        while count >= SEGMENTS_AT_ONCE:
            try:
                count = log.enforce_retention(wall_ms, SEGMENTS_AT_ONCE)
            except LogOffline:
                count = 0
            removed += count
            yield None
    return removed


def syncing_old(logs: Iterable[UnifiedLog], mono_ms: int) -> Job[None]:
    """Begin to sync the logs whose `flush.ms` is over (Kafka: LogManager.flushDirtyLogs)."""
    for number, log in enumerate(logs, 1):
        log.sync_if_older(mono_ms)
        if not number % LOGS_AT_ONCE:
            yield None


class DirectoryMonitor:
    """Monitors the directory of one manager."""

    def __init__(self, manager: LogManager, clock: Clock, sync: SharedSync) -> None:
        self._manager = manager
        self._clock = clock
        self._sync = sync
        self._timer: Timer | None = None
        self._walk: Iterator[UnifiedLog] = iter(())

    def start(self) -> None:
        """Begin to check the directory."""
        self._timer = self._clock.machine.call_at(self._clock.machine.mono_ms() + CHECK_EVERY_MS, self.check)

    def stop(self) -> None:
        """Stop checking the directory."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def check(self) -> None:
        """Check the directory now, in a thread."""
        files = [(log, log.segments.active.file) for log in self._some() if log.failure is None]
        removed: list[UnifiedLog] = []

        def job() -> None:
            self._manager.storage.verify()
            removed.extend(log for log, file in files if file.is_removed())

        def checked(failure: OSError | None) -> None:
            if self._timer is None:
                return
            if failure is None or isinstance(failure, DirectoryGone):
                self._manager.directory_checked(failure)
            for log in removed:
                if failure is None and any(log is one and file is log.segments.active.file for one, file in files):
                    log.go_offline(log.segments.active.file.path, OSError(REMOVED))
            self.start()

        self._sync.run(job, checked)

    def _some(self) -> list[UnifiedLog]:
        """The next logs of a walk over all logs."""
        some = list(islice(self._walk, LOGS_EACH))
        if not some:
            self._walk = self._manager.logs()
            some = list(islice(self._walk, LOGS_EACH))
        return some


def monitoring(manager: LogManager, clock: Clock, sync: SharedSync | None) -> Callable[[], object]:
    """Monitor the directory until the returned function is called. A directory in memory needs no monitor."""
    if sync is None:
        return lambda: None
    monitor = DirectoryMonitor(manager, clock, sync)
    monitor.start()
    return monitor.stop
