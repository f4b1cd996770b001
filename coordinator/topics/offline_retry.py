"""Opens logs again that are offline, for example because the disk was full. This module only decides when to try.

A damaged log waits for an operator. Shards and journals open their own logs again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import structlog

from muster.coordinator.log import LogError
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import Job, at_once
from muster.coordinator.topics.open_topics import Found

_logger = structlog.get_logger("muster.topics")

LOOK_EVERY_MS: Final = 1_000
"""How often this module searches for offline logs."""
MOST_LOOKS_APART: Final = 32
"""After each failure the pause between two tries doubles, up to so many searches."""


class OfflineRetry:
    """Searches from time to time, until `find` returns None."""

    def __init__(
        self,
        clock: Clock,
        find: Callable[[], Found | None],
        behind: Callable[[Job[Any]], object] = at_once,
    ) -> None:
        """`find`: the offline logs that may be tried now; None ends the search for ever. `behind`: runs a job for which
        no client waits.
        """
        self._clock = clock
        self._behind = behind
        self._find = find
        self._apart = 1
        self._left = 1
        self._reasons: dict[tuple[str, int], str] = {}
        """The last logged reason why each log is offline, so that a retry does not log the same line."""

    def start(self) -> None:
        """Begin to search."""
        self._clock.machine.call_at(self._clock.machine.mono_ms() + LOOK_EVERY_MS, self._look)

    def _look(self) -> None:
        found = self._find()
        if found is None:
            return
        self._left -= 1
        if self._left > 0:
            self.start()
        else:
            self._behind(self._trying(found))

    def _trying(self, found: Found) -> Job[None]:
        """Try the logs one by one: opening one may take as long as at a start."""
        failed = False
        try:
            # the search ends before the first try: it must not find a log again that stays offline
            waiting = []
            for one in found:
                if one is None:
                    yield None
                else:
                    waiting.append(one)
            names = {(topic, partition) for topic, partition, _ in waiting}
            self._reasons = {name: reason for name, reason in self._reasons.items() if name in names}
            for one in waiting:
                failed |= self._fails(*one)
                yield None
        finally:
            self._apart = min(self._apart * 2, MOST_LOOKS_APART) if failed else 1
            self._left = self._apart
            self.start()

    def _fails(self, topic: str, partition: int, mend: Callable[[], object]) -> bool:
        try:
            mend()
        except LogError as error:
            reason = str(error)
            if self._reasons.get((topic, partition)) != reason:
                self._reasons[topic, partition] = reason
                _logger.error("a log stays offline", topic=topic, partition=partition, reason=reason)
            return True
        self._reasons.pop((topic, partition), None)
        _logger.info("a log is online again", topic=topic, partition=partition)
        return False
