"""Walks over all logs of a data directory, as jobs. With tens of thousands of partitions, no client waits for a walk.

A walk may omit logs that are opened meanwhile. A log that is closed meanwhile does no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from muster.coordinator.log.errors import DirectoryGone, LogOffline
from muster.coordinator.log.unified_log import UnifiedLog
from muster.coordinator.system.jobs import Job

LOGS_AT_ONCE: Final = 100
"""Logs in one step of a walk that does little for each: some 50 us."""
SEGMENTS_AT_ONCE: Final = 100
"""Segments of one log that retention removes in one step."""


def enforcing_retention(logs: Iterable[UnifiedLog], wall_ms: int) -> Job[int]:
    """Apply retention to all logs once; return how many segments were removed.

    A log that fails meanwhile is offline; the walk continues with the others.
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
    """Take each log offline while the data directory is missing, and bring it back afterwards.

    `why_gone` is called again for each log.
    """
    for number, log in enumerate(logs, 1):
        gone = why_gone()
        if gone is None:
            log.come_back()
        elif log.failure is None:
            log.go_offline(directory, gone)
        if not number % LOGS_AT_ONCE:
            yield None
