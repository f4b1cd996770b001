"""Regular work on a data directory, by the Clock: retention, checkpoints, and syncs by age."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from muster.coordinator.log import walks
from muster.coordinator.log.manager import LogManager
from muster.coordinator.log.settings import MAX_INT64
from muster.coordinator.system.clock import Clock, Timer
from muster.coordinator.system.jobs import Job

_logger = structlog.get_logger("muster.log")


class Maintenance:
    """Runs retention and writes the checkpoints at regular intervals. Each is a walk over all logs, as a job.

    Retention runs each `log.retention.check.interval.ms`. The checkpoints of recovery points and of log starts are
    written together. Their interval is the smaller of `log.flush.offset.checkpoint.interval.ms` and
    `log.flush.start.offset.checkpoint.interval.ms`.
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
            if name not in self._running:  # else the last walk still runs
                self._running.add(name)
                self._manager.behind(guarded())

        self._timers[name] = self._clock.call_at(self._clock.now().mono_ms + interval_ms, ring, interval_ms)

    def _enforcing_retention(self) -> Job[int]:
        return walks.enforcing_retention(self._manager.logs(), self._clock.now().wall_ms)

    def _syncing_old(self) -> Job[None]:
        return walks.syncing_old(self._manager.logs(), self._clock.now().mono_ms)

    def _checkpointing(self) -> Job[None]:
        """Write the checkpoints. On a full disk the old ones stay valid; recovery only takes longer."""
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
