"""Checks that the data directory still exists.

While the server runs, an operator may remove, move or replace the directory or a log's files. The system would still
accept writes into files without a name.

The monitor checks each second in a thread, and reports each change once. While the directory is missing every log is
offline. When it is back, the logs go on with the files that they kept open. A log whose own files were removed stays
offline.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

import structlog

from muster.coordinator.log.durability import REMOVED
from muster.coordinator.log.errors import DirectoryGone
from muster.coordinator.log.manager import LogManager
from muster.coordinator.log.storage.shared_sync import SharedSync
from muster.coordinator.log.unified_log import UnifiedLog
from muster.coordinator.system.clock import Clock, Timer

CHECK_EVERY_MS: Final = 1_000
LOGS_EACH: Final = 200
"""The number of logs that one check covers; the next check continues after them."""

_logger = structlog.get_logger("muster.log")


class DirectoryMonitor:
    """Monitors the directory of one manager."""

    def __init__(self, manager: LogManager, clock: Clock, sync: SharedSync) -> None:
        """`sync`: the threads for the checks."""
        self._manager = manager
        self._clock = clock
        self._sync = sync
        self._timer: Timer | None = None
        self._next = 0

    def start(self) -> None:
        """Begin to check."""
        self._timer = self._clock.machine.call_at(self._clock.machine.mono_ms() + CHECK_EVERY_MS, self.check)

    def stop(self) -> None:
        """Stop checking."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def check(self) -> None:
        """Check now, in a thread."""
        logs = self._manager.logs()
        some = list(islice(logs, self._next, self._next + LOGS_EACH))
        self._next = self._next + LOGS_EACH if self._next + LOGS_EACH < len(logs) else 0
        files = [(log, log.active_file) for log in some if log.failure is None]
        removed: list[UnifiedLog] = []

        def job() -> None:
            self._manager.storage.verify()
            removed.extend(log for log, file in files if file.is_removed())

        def checked(failure: OSError | None) -> None:
            if self._timer is None:
                return
            if failure is None or isinstance(failure, DirectoryGone):
                self._manager.directory_is(failure)
            for log in removed:
                if failure is None and any(log is one and file is log.active_file for one, file in files):
                    log.go_offline(log.active_file.path, OSError(REMOVED))
            self.start()

        self._sync.run(job, checked)


def monitoring(manager: LogManager, clock: Clock, sync: SharedSync | None) -> Callable[[], object]:
    """Monitor the directory until the returned function is called. A directory in memory needs no monitor."""
    if sync is None:
        return lambda: None
    monitor = DirectoryMonitor(manager, clock, sync)
    monitor.start()
    return monitor.stop
