"""Partitions whose log went offline for a while, as on a full disk, come back by themselves.

A damaged one waits for an operator, and those of the shards and of their journals are opened by these. Decides only
when to try.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import structlog

from muster.coordinator.clock import Clock
from muster.coordinator.log import LogError

_logger = structlog.get_logger("muster.topics")

LOOK_EVERY_MS: Final = 1_000
"""How often is looked whether a log is offline."""
MOST_LOOKS_APART: Final = 32
"""A log that failed again is looked at half as often as before, but never more seldom than this."""

Failed = tuple[str, int, Callable[[], object]]
"""Topic, partition, and what opens its log again; that raises a LogError."""


class OfflineRetry:
    """Looks from time to time, as long as `find` says something."""

    def __init__(self, clock: Clock, find: Callable[[], Iterator[Failed] | None]) -> None:
        """`find`: the logs that are offline, to be tried now; None: nothing is open any more."""
        self._clock = clock
        self._find = find
        self._apart = 1
        self._left = 1

    def start(self) -> None:
        """Look from now on."""
        self._clock.call_at(self._clock.now().mono_ms + LOOK_EVERY_MS, self._look)

    def _look(self) -> None:
        found = self._find()
        if found is None:
            return
        self.start()
        self._left -= 1
        if self._left > 0:
            return
        failed = [self._fails(*one) for one in list(found)]
        self._apart = min(self._apart * 2, MOST_LOOKS_APART) if any(failed) else 1
        self._left = self._apart

    @staticmethod
    def _fails(topic: str, partition: int, mend: Callable[[], object]) -> bool:
        try:
            mend()
        except LogError as error:
            _logger.error("a log stays offline", topic=topic, partition=partition, reason=str(error))
            return True
        _logger.info("a log is online again", topic=topic, partition=partition)
        return False
