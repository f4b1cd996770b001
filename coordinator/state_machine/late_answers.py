"""How long answers waited for the log.

A client that waits for an answer sends nothing more on its connection, and must not be treated as dead. The runtime
records the waits here. This module reads no clock and sets no deadline.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from muster.coordinator.state_machine.deadlines import NEVER

MOST: Final = 4_096
"""Late answers that are kept. The oldest are dropped."""


class LateAnswers:
    """When answers of one shard left late. All times are monotonic ms.

    `since_ms`: the arrival time of the oldest request that waits for an answer now; NEVER when none waits.
    """

    __slots__ = ("_late", "since_ms")

    def __init__(self) -> None:
        self.since_ms = NEVER
        self._late: deque[tuple[int, int]] = deque(maxlen=MOST)

    def late(self, began_ms: int, ended_ms: int) -> None:
        """A request that arrived at `began_ms` was answered only at `ended_ms`. Call it in the order of the ends."""
        self._late.append((began_ms, ended_ms))

    def until(self, heard_ms: int, patience_ms: int, now_ms: int, *, is_own: bool = True) -> int:
        """Until when a client that sent something at `heard_ms` may be silent.

        That is `patience_ms`, and longer when answers were late. If it sent a request at `heard_ms` (`is_own`), its
        time begins with the answer. If no answer at all left for half of its time, another request of it may have
        waited here. Then its time begins after that wait.
        """
        until_ms = heard_ms + patience_ms
        if not self._late and self.since_ms == NEVER:
            return until_ms
        waits = [wait for wait in self._late if wait[1] > heard_ms]
        if self.since_ms <= now_ms:
            waits.append((self.since_ms, now_ms))
        for began_ms, ended_ms in waits:
            is_long = began_ms <= until_ms and ended_ms - began_ms >= patience_ms // 2
            if is_long or (is_own and began_ms <= heard_ms):
                until_ms = max(until_ms, ended_ms + patience_ms)
        return until_ms


NO_LATE_ANSWERS: Final = LateAnswers()
"""No answer was late. Never to be changed."""
