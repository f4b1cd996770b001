"""Whether the data directory is still there: somebody may remove, move or replace it, or a log's files in it, while the
server runs, and the system would go on taking writes into files without a name.

Looks each second in a thread, and says what it found once. While the directory is away every log is offline; when it
comes back they go on where they were: what was open is the same. A log whose own files were removed stays offline.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

import structlog

from muster.coordinator.clock import Clock, Timer
from muster.coordinator.log.durability import REMOVED
from muster.coordinator.log.errors import DirectoryGone
from muster.coordinator.log.manager import LogManager
from muster.coordinator.log.storage.shared_sync import SharedSync
from muster.coordinator.log.unified_log import UnifiedLog

LOOK_EVERY_MS: Final = 1_000
LOGS_EACH: Final = 200
"""So many logs are looked at each time, one after the other."""

_logger = structlog.get_logger("muster.log")


class Watch:
    """Looks after the directory of one manager."""

    def __init__(self, manager: LogManager, clock: Clock, sync: SharedSync) -> None:
        """`sync`: the threads to look in."""
        self._manager = manager
        self._clock = clock
        self._sync = sync
        self._timer: Timer | None = None
        self._next = 0

    def start(self) -> None:
        """Look from now on."""
        self._timer = self._clock.call_at(self._clock.now().mono_ms + LOOK_EVERY_MS, self.look)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def look(self) -> None:
        """Look now, in a thread."""
        logs = self._manager.logs()
        some = list(islice(logs, self._next, self._next + LOGS_EACH))
        self._next = self._next + LOGS_EACH if self._next + LOGS_EACH < len(logs) else 0
        files = [(log, log.active_file) for log in some if log.failure is None]
        removed: list[UnifiedLog] = []

        def job() -> None:
            self._manager.storage.verify()
            removed.extend(log for log, file in files if file.is_removed())

        def looked(failure: OSError | None) -> None:
            if self._timer is None:
                return
            if failure is None or isinstance(failure, DirectoryGone):
                self._manager.directory_is(failure)
            for log in removed:
                if failure is None and any(log is one and file is log.active_file for one, file in files):
                    log.go_offline(log.active_file.path, OSError(REMOVED))
            self.start()

        self._sync.run(job, looked)


def watching(manager: LogManager, clock: Clock, sync: SharedSync | None) -> Callable[[], object]:
    """Watch the directory until what is returned is called; a directory in memory needs none."""
    if sync is None:
        return lambda: None
    watch = Watch(manager, clock, sync)
    watch.start()
    return watch.stop
