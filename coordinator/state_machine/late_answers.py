"""How long answers waited for the log. A client that waits for an answer sends nothing more on its connection, and must
not be taken for dead. The runtime notes the waits here; this reads no clock and sets no deadline.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from muster.coordinator.state_machine.deadlines import NEVER

MOST: Final = 4_096
"""Late answers that are kept; the oldest ones are dropped."""


class LateAnswers:
    """When answers of one shard left late. All times are monotonic ms.

    `since_ms`: of the requests that wait for an answer now, when the oldest one came; NEVER for none.
    """

    __slots__ = ("_late", "since_ms")

    def __init__(self) -> None:
        self.since_ms = NEVER
        self._late: deque[tuple[int, int]] = deque(maxlen=MOST)

    def late(self, began_ms: int, ended_ms: int) -> None:
        """A request that came at `began_ms` was answered only at `ended_ms`. Called in the order of the ends."""
        self._late.append((began_ms, ended_ms))

    def until(self, heard_ms: int, patience_ms: int, now_ms: int, *, is_own: bool = True) -> int:
        """Until when a client that sent something at `heard_ms` may be silent: for `patience_ms`, and longer when
        answers were late.

        If it sent a request then (`is_own`), its time begins when that was answered. And if no answer at all left for
        half of its time, another request of it may have waited here: its time begins after that wait.
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
