"""Timers of the event loop, and how late ones wait until the loop has read the input that arrived before.

A process that was stopped, a machine that slept or a long collection hold the loop up. Then deadlines have passed while
requests that arrived in time are not read yet.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final

PROMPT_MS: Final = 2
"""A timer with at most this delay is in time: loops count in whole ms."""
HELD_UP_MS: Final = 100
"""A timer that is later than this shows that the loop was held up."""
GRACE_MS: Final = 3_000
"""The longest time that clients get after the loop was held up: Kafka's clients send a heartbeat every 3 s."""
MAX_READ_MS: Final = 1_000
"""The longest time that a late timer waits for input to be read: a busy server always has more."""
_TURNS, _TURNS_HELD_UP = 2, 6
"""Iterations of the loop: one may only accept a connection, and the next but one reads its request."""
AT_ONCE_MS: Final = 5
"""Late timers run for this long in one iteration of the loop. Each of 50 partitions may have one."""
_PAUSE_S: Final = 0.002
"""The pause between further iterations, in which requests wait for other work, such as the disk."""


class LoopTimer:
    """A timer of the event loop. It never runs early by the clock's count. A late one runs after all input was read."""

    __slots__ = ("_callback", "_due_ms", "_handle", "_late", "_loop", "had_grace")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, late: LateTimers, mono_ms: int, callback: Callable[[], object]
    ) -> None:
        self._loop = loop
        self._late = late
        self._callback = callback
        self.had_grace = False
        self._handle: asyncio.Handle | None
        self.arm(mono_ms)

    def arm(self, mono_ms: int) -> None:
        """Start the timer for this time."""
        now_ns = time.monotonic_ns()
        # a timer for a past time is due now, and not late
        self._due_ms = max(mono_ms, now_ns // 1_000_000)
        self._handle = self._loop.call_later(max(mono_ms * 1_000_000 - now_ns, 0) / 1e9, self._ring)

    def _ring(self) -> None:
        # the handle has this timer: no reference cycle must stay after the call
        self._handle = None
        late_ms = time.monotonic_ns() // 1_000_000 - self._due_ms
        if late_ms < 0:
            # uvloop counts whole ms from the start of an iteration and may call early: an early timer is started again
            self.arm(self._due_ms)
        elif late_ms <= PROMPT_MS and not self._late.holds:
            self._callback()
        else:
            self._late.add(self, late_ms)

    def ring_now(self) -> None:
        """Run. A timer that was cancelled meanwhile does nothing."""
        self._callback()

    def cancel(self) -> None:
        """Cancel the call."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        else:
            self._late.remove(self)
        self._callback = _nothing


class LateTimers:
    """The late timers. They wait until the loop has read and handled earlier input.

    Timers late by at most `HELD_UP_MS` let each socket be read once. Later ones wait until no input is left, at most
    `MAX_READ_MS`. Then no timer runs for as long as the loop was held up (at most `GRACE_MS`): packets may be lost.
    Each timer is delayed only once, so that deadlines also count in a loop that is always late.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.input_waits: Callable[[], bool] = lambda: False
        self.holds = False
        """Whether no timer may run now, not even a punctual one."""
        self._loop = loop
        self._timers: dict[LoopTimer, None] = {}
        self._ready: deque[LoopTimer] = deque()
        """The timers that waited long enough."""
        self._reading = False
        self._late_ms = 0
        self._turns = self._turn_began_ms = self._spent_ms = 0
        self._grace_until_ms = 0

    def add(self, timer: LoopTimer, late_ms: int) -> None:
        """Add a timer that is due, and late by `late_ms`."""
        self._timers[timer] = None
        self._late_ms = max(self._late_ms, late_ms)
        if not self._reading:
            self._reading = self.holds = True
            self._turns = self._spent_ms = 0
            self._turn_began_ms = time.monotonic_ns() // 1_000_000
            self._loop.call_soon(self._turn)

    def remove(self, timer: LoopTimer) -> None:
        """Remove a timer that was cancelled."""
        self._timers.pop(timer, None)

    def _turn(self) -> None:
        now_ms = time.monotonic_ns() // 1_000_000
        took_ms = now_ms - self._turn_began_ms
        self._turn_began_ms = now_ms
        if took_ms > HELD_UP_MS:
            # held up (again) since the ready input was read
            self._late_ms = max(self._late_ms, took_ms)
            self._turns = 0
        self._turns += 1
        # however long the loop was held up, it gets these iterations
        self._spent_ms += min(took_ms, HELD_UP_MS)
        held_up = self._late_ms > HELD_UP_MS
        if self._spent_ms < MAX_READ_MS:
            if self._turns < (_TURNS_HELD_UP if held_up else _TURNS):
                self._loop.call_soon(self._turn)
                return
            if held_up and self.input_waits():
                self._loop.call_later(_PAUSE_S, self._turn)
                return
        self._go_on(now_ms, held_up)

    def _go_on(self, now_ms: int, held_up: bool) -> None:
        if held_up:
            self._grace_until_ms = max(self._grace_until_ms, now_ms + min(self._late_ms, GRACE_MS))
        timers, self._timers = self._timers, {}
        self._reading, self._late_ms = False, 0
        self.holds = now_ms < self._grace_until_ms
        for timer in timers:
            if self.holds and not timer.had_grace:
                timer.had_grace = True
                timer.arm(self._grace_until_ms)
            else:
                self._ready.append(timer)
                if len(self._ready) == 1:
                    self._loop.call_soon(self._ring_ready)

    def _ring_ready(self) -> None:
        until_ns = time.monotonic_ns() + AT_ONCE_MS * 1_000_000
        try:
            while self._ready:
                self._ready.popleft().ring_now()
                if time.monotonic_ns() >= until_ns:
                    break
        finally:  # after an error too, which the loop logs
            if self._ready:
                self._loop.call_soon(self._ring_ready)


def _nothing() -> None:
    pass
