"""Walks over all logs of a data directory, as jobs. A directory may have tens of thousands of partitions. No client is
to wait until a walk has seen them all.

A walk may leave out logs that are opened meanwhile, and those that are closed are harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from muster.coordinator.log.errors import DirectoryGone, LogOffline
from muster.coordinator.log.unified_log import UnifiedLog
from muster.coordinator.system.jobs import Job

LOGS_AT_ONCE: Final = 100
"""Logs in one step of a walk that asks little of each: some 50 us."""
SEGMENTS_AT_ONCE: Final = 100
"""Segments of one log that retention removes in one step."""


def enforcing_retention(logs: Iterable[UnifiedLog], wall_ms: int) -> Job[int]:
    """One pass of retention over all logs; how many segments went. A log that fails meanwhile is offline, the others go
    on.
    """
    removed = 0
    for log in logs:
        went = SEGMENTS_AT_ONCE
        while went >= SEGMENTS_AT_ONCE:
            try:
                went = log.enforce_retention(wall_ms, SEGMENTS_AT_ONCE)
            except LogOffline:
                went = 0
            removed += went
            yield None
    return removed


def syncing_old(logs: Iterable[UnifiedLog], mono_ms: int) -> Job[None]:
    """Begin to sync the logs whose `flush.ms` is over (Kafka: LogManager.flushDirtyLogs)."""
    for number, log in enumerate(logs, 1):
        log.sync_if_older(mono_ms)
        if not number % LOGS_AT_ONCE:
            yield None


def heeding_the_directory(
    logs: Iterable[UnifiedLog], directory: str, why_gone: Callable[[], DirectoryGone | None]
) -> Job[None]:
    """Each log is offline while the data directory is gone, and goes on when it is back. `why_gone` is asked anew for
    each log.
    """
    for number, log in enumerate(logs, 1):
        gone = why_gone()
        if gone is None:
            log.come_back()
        elif log.failure is None:
            log.go_offline(directory, gone)
        if not number % LOGS_AT_ONCE:
            yield None
