"""The replies of a shard that wait for the log, and the replies that are leaving.

A reply waits until the log is durable up to what the reply shows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from muster.coordinator.state_machine.deadlines import NEVER
from muster.coordinator.state_machine.interface import Reply
from muster.coordinator.state_machine.late_answers import LateAnswers
from muster.coordinator.system.clock import Clock

LATE_MS: Final = 100
"""An answer that waits longer than this for the log is late."""
ANSWERS_AT_ONCE: Final = 300
"""How many answers of one command leave in one iteration of the event loop: some 5 ms. The others follow later."""


class Parked(NamedTuple):
    """Replies that wait until the log is durable up to `position`.

    Their requests arrived at `began_ms` (monotonic ms) or later.
    """

    position: int
    replies: Sequence[Reply]
    began_ms: int


class PendingReplies:
    """See the module. `parked` is in the order of the positions."""

    __slots__ = ("_clock", "_leaving", "_waits", "parked")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waits = LateAnswers()
        self._leaving: deque[Reply] = deque()
        """Replies that may leave and wait only for time."""
        self.parked: deque[Parked] = deque()

    def park(self, position: int, replies: Sequence[Reply], began_ms: int) -> None:
        """Park replies."""
        self.parked.append(Parked(position, replies, began_ms))

    def park_behind(self, reply: Reply) -> None:
        """Park a reply behind all replies that are parked now."""
        newest = self.parked[-1]
        self.park(newest.position, (reply,), newest.began_ms)

    def release(self, durable: int) -> None:
        """The log is durable up to `durable`: send the replies that waited for it."""
        parked = self.parked
        if not parked or parked[0].position > durable:
            return
        began_ms, now_ms = parked[0].began_ms, self._clock.mono_ms()
        if now_ms - began_ms > LATE_MS:
            self._waits.late(began_ms, now_ms)
        while self.parked and self.parked[0].position <= durable:
            self.give(self.parked.popleft().replies)

    def take_all(self) -> list[Reply]:
        """Remove and return the parked replies. They will not be released."""
        parked, self.parked = self.parked, deque()
        return [reply for one in parked for reply in one.replies]

    def give(self, replies: Sequence[Reply]) -> None:
        """Send replies. Those to a large group leave over several iterations of the loop, so that others are served."""
        if len(replies) > ANSWERS_AT_ONCE:
            if not self._leaving:
                self._clock.call_soon(self._give_some)
            self._leaving.extend(replies[ANSWERS_AT_ONCE:])
            replies = replies[:ANSWERS_AT_ONCE]
        for respond, response in replies:
            respond(response)

    def _give_some(self) -> None:
        leaving = self._leaving
        some = [leaving.popleft() for _ in range(min(ANSWERS_AT_ONCE, len(leaving)))]
        if leaving:
            self._clock.call_soon(self._give_some)
        self.give(some)

    def give_rest(self) -> None:
        """Send now all replies that are leaving."""
        while self._leaving:
            respond, response = self._leaving.popleft()
            respond(response)

    def waits(self, gathered_since_ms: int = NEVER) -> LateAnswers:
        """How long answers waited. Answers that wait now are included: parked, or gathered since
        `gathered_since_ms`.
        """
        self._waits.since_ms = self.parked[0].began_ms if self.parked else gathered_since_ms
        return self._waits
