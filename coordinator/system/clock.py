"""The only source of time and of timers. Commands, which have no `Clock`, read the wall time in `wall_time`.

`LoopClock` follows the machine and the running event loop. `ManualClock` stands still until `advance` is called. A late
timer lets the loop read first (`late_timers`).
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from muster.coordinator.state_machine.interface import Now
from muster.coordinator.system.late_timers import LateTimers, LoopTimer

T = TypeVar("T")


class Timer(Protocol):
    """One call in the future."""

    def cancel(self) -> None:
        """Cancel the call. It does nothing after the call."""


class Clock(Protocol):
    """The interface through which all packages above the state machines get the time."""

    def now(self) -> Now:
        """The present time."""

    def mono_ms(self) -> int:
        """The monotonic half of `now`."""

    def mono_us(self) -> int:
        """The monotonic time in microseconds: for measurements."""

    def moment(self) -> Now:
        """The present time, the same for all calls in one iteration of the loop; never later than `now`."""

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Call back once, after all input of this iteration of the loop was handled, in the order of the calls."""

    def call_at(self, mono_ms: int, callback: Callable[[], object], every_ms: int = 0) -> Timer:
        """Call back once, as soon as `now().mono_ms >= mono_ms`.

        `every_ms`: the interval of regular work. A clock that jumps over several calls may make only the last one.
        """

    def read_first(self, input_waits: Callable[[], bool]) -> None:
        """Call `input_waits` before a late timer runs: it returns whether input must be read or handled first."""

    @property
    def machine(self) -> Clock:
        """The machine's time: for waits for clients, the disk or the loop. It runs also where a test stops the other
        time.
        """


class LoopClock:
    """The machine's time, with timers of an asyncio event loop."""

    __slots__ = ("_is_asked", "_late", "_loop", "_moment", "_soon")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._late = LateTimers(loop)
        self._soon: list[Callable[[], object]] = []
        self._is_asked = False
        self._moment: Now | None = None

    def now(self) -> Now:
        return Now(time.monotonic_ns() // 1_000_000, time.time_ns() // 1_000_000)

    def mono_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def mono_us(self) -> int:
        return time.monotonic_ns() // 1_000

    def moment(self) -> Now:
        """The time when this iteration of the loop first called it."""
        if self._moment is None:
            self._moment = self.now()
            self._ask()
        return self._moment

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Call back once, at the end of this iteration of the loop."""
        if not self._is_asked:
            self._ask()
        self._soon.append(callback)

    def _ask(self) -> None:
        # one call of the loop for all callbacks: asyncio and uvloop both poll every ready socket first
        if not self._is_asked:
            self._is_asked = True
            self._loop.call_soon(self._call_now)

    def _call_now(self) -> None:
        soon, self._soon = self._soon, []
        self._is_asked = False
        self._moment = self.now()
        try:
            for number, callback in enumerate(soon, 1):
                try:
                    callback()
                except BaseException:
                    # the loop logs the error; the other callbacks still run
                    for other in soon[number:]:
                        self.call_soon(other)
                    raise
        finally:
            self._moment = None

    def call_at(self, mono_ms: int, callback: Callable[[], object], every_ms: int = 0) -> Timer:
        del every_ms  # no test moves the machine's time
        return LoopTimer(self._loop, self._late, mono_ms, callback)

    def read_first(self, input_waits: Callable[[], bool]) -> None:
        self._late.input_waits = input_waits

    @property
    def machine(self) -> LoopClock:
        return self


class _ManualTimer:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualClock:
    """Time that passes only when `advance` is called: for tests, simulation and virtual time over the wire."""

    def __init__(self, mono_ms: int = 1_000_000, wall_ms: int = 1_700_000_000_000) -> None:
        self._now = Now(mono_ms, wall_ms)
        self._timers: list[tuple[int, int, _ManualTimer]] = []
        self._order = itertools.count()

    def now(self) -> Now:
        return self._now

    def moment(self) -> Now:
        return self._now

    def mono_ms(self) -> int:
        return self._now.mono_ms

    def mono_us(self) -> int:
        return self._now.mono_ms * 1_000

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Call back once, during the next `advance`."""
        self.call_at(self._now.mono_ms, callback)

    def call_at(self, mono_ms: int, callback: Callable[[], object], every_ms: int = 0) -> Timer:
        """Call back once, during the `advance` that reaches `mono_ms`."""
        del every_ms  # every call is made
        timer = _ManualTimer(callback)
        heapq.heappush(self._timers, (mono_ms, next(self._order), timer))
        return timer

    def read_first(self, input_waits: Callable[[], bool]) -> None:
        """Do nothing: a clock that stands still is never late."""

    @property
    def machine(self) -> ManualClock:
        return self

    def advance(self, ms: int) -> None:
        """Let `ms` milliseconds pass, and run each timer at its own time, in order. 0 runs the timers that are due."""
        end = self._now.mono_ms + ms
        while self._timers and self._timers[0][0] <= end:
            mono_ms, _, timer = heapq.heappop(self._timers)
            if timer.callback is not None:
                self._move_to(max(mono_ms, self._now.mono_ms))
                timer.callback()
        self._move_to(end)

    def _move_to(self, mono_ms: int) -> None:
        self._now = Now(mono_ms, self._now.wall_ms + mono_ms - self._now.mono_ms)


def mono_ms() -> int:
    """Monotonic ms without a clock: for the limits of log lines, before the event loop runs."""
    return time.monotonic_ns() // 1_000_000


async def pause_s(seconds: float) -> None:
    """Let so much time pass: for commands, which have no `Clock`."""
    await asyncio.sleep(seconds)


async def within_s(seconds: float, awaited: Awaitable[T]) -> T:
    """Return the awaited result. After so much time, cancel it and raise TimeoutError. For commands."""
    return await asyncio.wait_for(awaited, seconds)


def thread_cpu_s() -> float:
    """CPU seconds that the calling thread has used: for work that must not take more than its share."""
    return time.thread_time()
