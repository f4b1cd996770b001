"""The timer of a shard: one call of the clock, for the earliest of all deadlines."""

from __future__ import annotations

from collections.abc import Callable

from muster.coordinator.state_machine.deadlines import NEVER
from muster.coordinator.system.clock import Clock, Timer


class ShardTimer:
    """`due_ms`: when the timer fires (monotonic ms); NEVER when it is off."""

    __slots__ = ("_clock", "_ring", "_timer", "due_ms")

    def __init__(self, clock: Clock, ring: Callable[[], object]) -> None:
        self._clock = clock
        self._ring = ring
        self._timer: Timer | None = None
        self.due_ms = NEVER

    def set(self, deadline_ms: int | None) -> None:
        """Fire at that deadline, or before: a deadline that has moved on leaves the timer as it is."""
        if deadline_ms is None:
            self.cancel()
        elif deadline_ms < self.due_ms:
            self.cancel()
            self.due_ms = deadline_ms
            self._timer = self._clock.call_at(deadline_ms, self._rang)

    def cancel(self) -> None:
        """Switch the timer off."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self.due_ms = None, NEVER

    def _rang(self) -> None:
        self._timer, self.due_ms = None, NEVER
        self._ring()
