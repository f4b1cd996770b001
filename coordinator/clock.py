"""The one source of time and of timers. Nothing else calls time.*, loop.time, call_later, call_at or asyncio.sleep.

`LoopClock` follows the machine's clock and the running event loop; `ManualClock` stands still until it is told to
advance, so that everything built on a clock can run in virtual time.
"""

from __future__ import annotations

import asyncio
import datetime
import heapq
import itertools
import time
from collections.abc import Callable
from typing import Protocol

from muster.coordinator.groups.interface import Now

_tuple = tuple.__new__
UTC = datetime.UTC


def show_wall(wall_ms: int, form: str, zone: datetime.tzinfo | None = None) -> str:
    """A wall time in text, by strftime's `form`; `zone` None is the machine's."""
    return datetime.datetime.fromtimestamp(wall_ms / 1000, zone).strftime(form)


class Timer(Protocol):
    """One call in the future."""

    def cancel(self) -> None:
        """The call will not happen; harmless when it already has."""


class Clock(Protocol):
    """What every room above the core asks for the time."""

    def now(self) -> Now:
        """The present time."""

    def mono_ms(self) -> int:
        """The monotonic half of `now`."""

    def moment(self) -> Now:
        """The present time, told once for all that comes in the same turn of the loop: never later than `now`."""

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Call back once, when all is looked at that has come in this turn of the loop; in the order of the calls."""

    def call_at(self, mono_ms: int, callback: Callable[[], object]) -> Timer:
        """Call back once, as soon as `now().mono_ms >= mono_ms` (on the next turn of the loop when that is past)."""


class _LoopTimer:
    """A timer of the event loop that never rings early by the clock's own count."""

    __slots__ = ("_callback", "_handle", "_loop", "_mono_ms")

    def __init__(self, loop: asyncio.AbstractEventLoop, mono_ms: int, callback: Callable[[], object]) -> None:
        self._loop = loop
        self._mono_ms = mono_ms
        self._callback = callback
        self._handle = self._arm()

    def _arm(self) -> asyncio.TimerHandle:
        left_ns = self._mono_ms * 1_000_000 - time.monotonic_ns()
        return self._loop.call_later(max(left_ns, 0) / 1e9, self._ring)

    def _ring(self) -> None:
        # uvloop counts whole ms from the start of a turn and may call early: a deadline not due yet is armed again
        if time.monotonic_ns() // 1_000_000 < self._mono_ms:
            self._handle = self._arm()
        else:
            self._callback()

    def cancel(self) -> None:
        """The call will not happen."""
        self._handle.cancel()


class LoopClock:
    """The machine's time, with timers of an asyncio event loop."""

    __slots__ = ("_is_asked", "_loop", "_moment", "_soon")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._soon: list[Callable[[], object]] = []
        self._is_asked = False
        self._moment: Now | None = None

    def now(self) -> Now:
        """The present time."""
        # what Now(…) does, without the call of its own: this runs once per request
        return _tuple(Now, (time.monotonic_ns() // 1_000_000, time.time_ns() // 1_000_000))

    def mono_ms(self) -> int:
        """The monotonic half of `now`."""
        return time.monotonic_ns() // 1_000_000

    def moment(self) -> Now:
        """The time when this turn of the loop first asked for it."""
        if self._moment is None:
            self._moment = self.now()
            self._ask()
        return self._moment

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Call back once, at the end of this turn of the loop."""
        if not self._is_asked:
            self._ask()
        self._soon.append(callback)

    def _ask(self) -> None:
        # the loop is asked once for all of a turn: both asyncio's and uvloop's look at every socket that is ready first
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
                    # the loop logs it; the others are not to suffer for it
                    for other in soon[number:]:
                        self.call_soon(other)
                    raise
        finally:
            self._moment = None

    def call_at(self, mono_ms: int, callback: Callable[[], object]) -> Timer:
        """Call back once, as soon as `now().mono_ms >= mono_ms`."""
        return _LoopTimer(self._loop, mono_ms, callback)


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
        """The present time."""
        return self._now

    def moment(self) -> Now:
        """The present time."""
        return self._now

    def mono_ms(self) -> int:
        """The monotonic half of `now`."""
        return self._now.mono_ms

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Call back once, during the next `advance`."""
        self.call_at(self._now.mono_ms, callback)

    def call_at(self, mono_ms: int, callback: Callable[[], object]) -> Timer:
        """Call back once, during the `advance` that reaches `mono_ms`."""
        timer = _ManualTimer(callback)
        heapq.heappush(self._timers, (mono_ms, next(self._order), timer))
        return timer

    def advance(self, ms: int) -> None:
        """Let `ms` milliseconds pass, ringing each timer at its own time, in order; 0 rings those that are due."""
        end = self._now.mono_ms + ms
        while self._timers and self._timers[0][0] <= end:
            mono_ms, _, timer = heapq.heappop(self._timers)
            if timer.callback is not None:
                self._move_to(max(mono_ms, self._now.mono_ms))
                timer.callback()
        self._move_to(end)

    def _move_to(self, mono_ms: int) -> None:
        self._now = Now(mono_ms, self._now.wall_ms + mono_ms - self._now.mono_ms)


def thread_cpu_s() -> float:
    """CPU seconds that the calling thread has used: for work that must not take more than its share."""
    return time.thread_time()


def read_wall(text: str) -> int:
    """A wall time (ms since 1970) of text: ISO 8601, in UTC unless it says otherwise, or `now`. Raises ValueError."""
    if text == "now":
        return time.time_ns() // 1_000_000
    moment = datetime.datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
