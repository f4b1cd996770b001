"""The replies of a shard that wait until the log is durable up to what they show, and those that are leaving."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from muster.coordinator.state_machine.deadlines import NEVER
from muster.coordinator.state_machine.interface import Reply
from muster.coordinator.state_machine.late_answers import LateAnswers
from muster.coordinator.system.clock import Clock

LATE_MS: Final = 100
"""What an answer may wait for the log without being called late."""
ANSWERS_AT_ONCE: Final = 300
"""How many answers of one command leave in one turn of the loop: some 5 ms. The others follow in the next ones."""


class Parked(NamedTuple):
    """Replies that wait until the log is durable up to `position`, to requests that came since `began_ms` (monotonic
    ms) at the earliest.
    """

    position: int
    replies: Sequence[Reply]
    began_ms: int


class PendingReplies:
    """See the module. `parked`: in the order of their positions."""

    __slots__ = ("_clock", "_leaving", "_waits", "parked")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waits = LateAnswers()
        self._leaving: deque[Reply] = deque()
        """Replies that may leave, and have not yet for want of time."""
        self.parked: deque[Parked] = deque()

    def park(self, position: int, replies: Sequence[Reply], began_ms: int) -> None:
        """Let replies wait."""
        self.parked.append(Parked(position, replies, began_ms))

    def park_behind(self, reply: Reply) -> None:
        """Let a reply wait for all that others wait for."""
        newest = self.parked[-1]
        self.park(newest.position, (reply,), newest.began_ms)

    def release(self, durable: int) -> None:
        """The log is durable up to there: give the replies that waited for it."""
        parked = self.parked
        if not parked or parked[0].position > durable:
            return
        began_ms, now_ms = parked[0].began_ms, self._clock.mono_ms()
        if now_ms - began_ms > LATE_MS:
            self._waits.late(began_ms, now_ms)
        while self.parked and self.parked[0].position <= durable:
            self.give(self.parked.popleft().replies)

    def take_all(self) -> list[Reply]:
        """The replies that are parked: they will not be released."""
        parked, self.parked = self.parked, deque()
        return [reply for one in parked for reply in one.replies]

    def give(self, replies: Sequence[Reply]) -> None:
        """Give replies; those to a large group over some turns of the loop, so that others have their turn between."""
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
        """Give those that are leaving, now."""
        while self._leaving:
            respond, response = self._leaving.popleft()
            respond(response)

    def waits(self, gathered_since_ms: int = NEVER) -> LateAnswers:
        """How long answers waited, those included that wait now: parked, or since `gathered_since_ms`."""
        self._waits.since_ms = self.parked[0].began_ms if self.parked else gathered_since_ms
        return self._waits
