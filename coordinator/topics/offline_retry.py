"""Opens logs again that went offline, for example because the disk was full. Decides only when to try.

A damaged log waits for an operator. The logs of shards and journals are opened again by the shards and journals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import structlog

from muster.coordinator.clock import Clock
from muster.coordinator.log import LogError

_logger = structlog.get_logger("muster.topics")

LOOK_EVERY_MS: Final = 1_000
"""How often to look for offline logs."""
MOST_LOOKS_APART: Final = 32
"""After each failure twice as many looks pass without a try, but never more than these."""

Failed = tuple[str, int, Callable[[], object]]
"""Topic, partition, and what opens its log again; that raises a LogError."""


class OfflineRetry:
    """Looks from time to time, until `find` returns None."""

    def __init__(self, clock: Clock, find: Callable[[], Iterator[Failed] | None]) -> None:
        """`find`: the logs that are offline, to be tried now; None: nothing is open any more."""
        self._clock = clock
        self._find = find
        self._apart = 1
        self._left = 1

    def start(self) -> None:
        """Look from now on."""
        self._clock.machine.call_at(self._clock.machine.mono_ms() + LOOK_EVERY_MS, self._look)

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
