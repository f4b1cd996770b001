"""How long answers waited for the log. A client whose request lies with the server sends nothing more on its
connection: that is no silence of its own. The shell writes down here how it was; reads no clock, sets no deadline.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from muster.coordinator.core.deadlines import NEVER

MOST: Final = 4_096
"""Late answers that are remembered; the oldest ones are forgotten."""


class LateAnswers:
    """When answers of one shard left late. All times are monotonic ms.

    `since_ms`: when the request came that has waited longest of those not answered yet; NEVER for none.
    """

    __slots__ = ("_late", "since_ms")

    def __init__(self) -> None:
        self.since_ms = NEVER
        self._late: deque[tuple[int, int]] = deque(maxlen=MOST)

    def late(self, began_ms: int, ended_ms: int) -> None:
        """What came since `began_ms` was answered at `ended_ms` only. To be told in the order of the ends."""
        self._late.append((began_ms, ended_ms))

    def until(self, heard_ms: int, patience_ms: int, now_ms: int, *, is_own: bool = True) -> int:
        """Till when to have patience with one of whom was heard at `heard_ms`: for `patience_ms`, and longer when he
        had to wait.

        His own request (if it was one: `is_own`) may have been answered late, or not yet: his time begins then. And
        while nobody got an answer for half of his time, another request of his may have lain here, unknown to us.
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
"""Every answer leaves at once. Never to be changed."""
