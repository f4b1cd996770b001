"""The only source of time and of timers. Commands, which have no `Clock`, read the wall time in `wall_time`.

A process that was stopped, a machine that slept or a long collection blocks the event loop. Then deadlines have passed,
but requests that arrived in time are not read yet. So a late timer waits until the loop has read earlier input.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

from muster.coordinator.state_machine.interface import Now

PROMPT_MS: Final = 2
"""A timer with at most this delay is in time: loops count in whole ms."""
HELD_UP_MS: Final = 100
"""A timer that is later than this shows that the loop was blocked."""
GRACE_MS: Final = 3_000
"""The longest time that clients get after the loop was blocked: Kafka's clients send a heartbeat every 3 s."""
MAX_READ_MS: Final = 1_000
"""The longest time that a late timer waits for input to be read: a busy server always has more input."""
_TURNS, _TURNS_HELD_UP = 2, 6
"""How many iterations of the loop precede late timers; the second number counts after the loop was blocked."""
AT_ONCE_MS: Final = 5
"""How long late timers run in one iteration of the loop. Each of 50 partitions may have a late timer."""
_PAUSE_S: Final = 0.002
"""The pause between further iterations, in which requests wait for other work, such as the disk."""


class LoopTimer:
    """A timer of the event loop. By the clock no timer is early. A late timer runs after all input is read."""

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
        """Start the timer for `mono_ms`."""
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
        """Run the callback, unless the timer was cancelled meanwhile."""
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
    """The late timers, which wait until the loop has read and handled earlier input.

    Timers late by at most `HELD_UP_MS` let each socket be read once. Later timers wait until no input is left, at most
    `MAX_READ_MS`. Then no timer runs for as long as the loop was blocked (at most `GRACE_MS`): packets may be lost.
    Each timer is delayed only once, so that deadlines also count in a loop that is always late.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.input_waits: Callable[[], bool] = lambda: False
        self.holds = False
        """Whether no timer may run now, not even a punctual timer."""
        self._loop = loop
        self._has_unread: Callable[[], bool] = getattr(loop, "has_unread", lambda: False)
        """Whether the last iteration of the loop left ready sockets unserved."""
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
            # the loop was blocked (again) since the ready input was read
            self._late_ms = max(self._late_ms, took_ms)
            self._turns = 0
        if not self._has_unread():
            self._turns += 1
        # the loop gets its iterations, however long it was blocked
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
        finally:  # this also runs after an error, which the loop logs
            if self._ready:
                self._loop.call_soon(self._ring_ready)


def _nothing() -> None:
    pass


T = TypeVar("T")


class Timer(Protocol):
    """One call in the future."""

    def cancel(self) -> None:
        """Cancel the call. A cancel after the call has no effect."""


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
        """Call `callback` once, in the order of the calls, after all input of this iteration was handled."""

    def call_at(self, mono_ms: int, callback: Callable[[], object], every_ms: int = 0) -> Timer:
        """Call `callback` once, as soon as `now().mono_ms >= mono_ms`.

        `every_ms`: the interval of regular work. A clock that jumps over several calls may make only the last call.
        """

    def read_first(self, input_waits: Callable[[], bool]) -> None:
        """Call `input_waits` before a late timer runs: it returns whether input must be read or handled first."""

    @property
    def machine(self) -> Clock:
        """The machine's time, for waits for clients, the disk or the loop. No test stops the machine's time."""


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
        """The time of the first call in this iteration of the loop."""
        if self._moment is None:
            self._moment = self.now()
            self._ask()
        return self._moment

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Call `callback` once, at the end of this iteration of the loop."""
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
        """Call `callback` once, during the next `advance`."""
        self.call_at(self._now.mono_ms, callback)

    def call_at(self, mono_ms: int, callback: Callable[[], object], every_ms: int = 0) -> Timer:
        """Call `callback` once, during the `advance` that reaches `mono_ms`."""
        del every_ms  # this clock never leaves out a call
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
    """Let `seconds` pass: for commands, which have no `Clock`."""
    await asyncio.sleep(seconds)


async def within_s(seconds: float, awaited: Awaitable[T]) -> T:
    """Return the awaited result, for a command. After `seconds`, cancel the work and raise TimeoutError."""
    return await asyncio.wait_for(awaited, seconds)


def thread_cpu_s() -> float:
    """CPU seconds that the calling thread has used: for work that must not take more than its share."""
    return time.thread_time()
