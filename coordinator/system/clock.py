"""The one source of time and of timers. Nothing else calls time.*, loop.time, call_later, call_at or asyncio.sleep.

`LoopClock` follows the machine's clock and the running event loop. `ManualClock` stands still until it is told to
advance, for virtual time.

After the loop was held up (the process was stopped, the machine slept, a long collection), deadlines have passed while
requests that came in time are not read yet. So a late timer lets the loop read first: see `_Late`.
"""

from __future__ import annotations

import asyncio
import datetime
import heapq
import itertools
import time
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

from muster.coordinator.state_machine.interface import Now

UTC = datetime.UTC
T = TypeVar("T")

PROMPT_MS: Final = 2
"""A timer is in time up to this delay: loops count in whole ms."""
HELD_UP_MS: Final = 100
"""A timer that is later than this shows that the loop was held up."""
GRACE_MS: Final = 3_000
"""The longest time that clients get after the loop was held up: Kafka's clients send a heartbeat every 3 s. Peers send
lost packets again after at most as long as it lasted.
"""
READ_MOST_MS: Final = 1_000
"""The longest time that a late timer waits for input to be read: on a busy server there is always more."""
_TURNS, _TURNS_HELD_UP = 2, 6
"""Turns of the loop: one may only accept a connection, the next but one reads what it says."""
_PAUSE_S: Final = 0.002
"""Between further turns, in which requests wait for others: for the disk, say."""


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

    def mono_us(self) -> int:
        """The same in microseconds: for what is measured."""

    def moment(self) -> Now:
        """The present time, the same for all calls in one turn of the loop; never later than `now`."""

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Call back once, after all input of this turn of the loop was handled; in the order of the calls."""

    def call_at(self, mono_ms: int, callback: Callable[[], object], every_ms: int = 0) -> Timer:
        """Call back once, as soon as `now().mono_ms >= mono_ms` (on the next turn of the loop when that is past).

        `every_ms`: it is work that is done again and again, so far apart, and of which one time may stand for many: a
        clock that a test moves leaves out all times but the last of a long while in which nothing else falls due.
        """

    def read_first(self, input_waits: Callable[[], bool]) -> None:
        """Ask `input_waits` before a late timer runs: is there input to be read or handled?"""

    @property
    def machine(self) -> Clock:
        """The time of the machine: for what waits for clients, for the disk or for a turn of the loop, and for how long
        work takes. That goes on also where a test lets the time of groups and transactions stand still.
        """


class _LoopTimer:
    """A timer of the event loop. It never runs early by the clock's count, and late only after all input was read."""

    __slots__ = ("_callback", "_due_ms", "_handle", "_late", "_loop", "had_grace")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, late: _Late, mono_ms: int, callback: Callable[[], object]
    ) -> None:
        self._loop = loop
        self._late = late
        self._callback = callback
        self.had_grace = False
        self._handle: asyncio.Handle | None
        self.arm(mono_ms)

    def arm(self, mono_ms: int) -> None:
        """Ring then."""
        now_ns = time.monotonic_ns()
        # one that is set for the past is due now, and not late
        self._due_ms = max(mono_ms, now_ns // 1_000_000)
        self._handle = self._loop.call_later(max(mono_ms * 1_000_000 - now_ns, 0) / 1e9, self._ring)

    def _ring(self) -> None:
        # the handle has this timer: no circle is to stay of one that has rung
        self._handle = None
        late_ms = time.monotonic_ns() // 1_000_000 - self._due_ms
        if late_ms < 0:
            # uvloop counts whole ms from the start of a turn and may call early: a deadline not due yet is armed again
            self.arm(self._due_ms)
        elif late_ms <= PROMPT_MS and not self._late.holds:
            self._callback()
        else:
            self._late.add(self, late_ms)

    def ring_soon(self) -> None:
        """All was read. A timer that was cancelled meanwhile stays silent."""
        self._handle = self._loop.call_soon(self._callback)

    def cancel(self) -> None:
        """The call will not happen."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        else:
            self._late.remove(self)
        self._callback = _nothing


class _Late:
    """The late timers. They wait until the loop has read and handled the input that came before.

    Timers late by at most `HELD_UP_MS` let each socket be read once. If one is later, the loop was held up: they wait
    until no input is left, at most `READ_MOST_MS`. Clients may have been held up too, or their packets lost. So no
    timer runs for as long again as it lasted (at most `GRACE_MS`). Each timer is put off once, so that a loop that is
    always late has deadlines too.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.input_waits: Callable[[], bool] = _nothing_waits
        self.holds = False
        """Whether no timer may run now, not even one in time."""
        self._loop = loop
        self._timers: dict[_LoopTimer, None] = {}
        self._reading = False
        self._late_ms = 0
        self._turns = self._turn_began_ms = self._spent_ms = 0
        self._grace_until_ms = 0

    def add(self, timer: _LoopTimer, late_ms: int) -> None:
        """`timer` is due, and late by so much."""
        self._timers[timer] = None
        self._late_ms = max(self._late_ms, late_ms)
        if not self._reading:
            self._reading = self.holds = True
            self._turns = self._spent_ms = 0
            self._turn_began_ms = time.monotonic_ns() // 1_000_000
            self._loop.call_soon(self._turn)

    def remove(self, timer: _LoopTimer) -> None:
        """It was cancelled."""
        self._timers.pop(timer, None)

    def _turn(self) -> None:
        now_ms = time.monotonic_ns() // 1_000_000
        took_ms = now_ms - self._turn_began_ms
        self._turn_began_ms = now_ms
        if took_ms > HELD_UP_MS:
            # held up again, or for the first time, since what was ready was read
            self._late_ms = max(self._late_ms, took_ms)
            self._turns = 0
        self._turns += 1
        # however long it was held up: the loop has so many turns
        self._spent_ms += min(took_ms, HELD_UP_MS)
        held_up = self._late_ms > HELD_UP_MS
        if self._spent_ms < READ_MOST_MS:
            if self._turns < (_TURNS_HELD_UP if held_up else _TURNS):
                self._loop.call_soon(self._turn)
                return
            if held_up and self.input_waits():
                self._loop.call_later(_PAUSE_S, self._turn)
                return
        self._go_on(now_ms, held_up)

    def _go_on(self, now_ms: int, held_up: bool) -> None:
        """All was read."""
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
                timer.ring_soon()


def _nothing_waits() -> bool:
    return False


def _nothing() -> None:
    pass


class LoopClock:
    """The machine's time, with timers of an asyncio event loop."""

    __slots__ = ("_is_asked", "_late", "_loop", "_moment", "_soon")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._late = _Late(loop)
        self._soon: list[Callable[[], object]] = []
        self._is_asked = False
        self._moment: Now | None = None

    def now(self) -> Now:
        """The present time."""
        return Now(time.monotonic_ns() // 1_000_000, time.time_ns() // 1_000_000)

    def mono_ms(self) -> int:
        """The monotonic half of `now`."""
        return time.monotonic_ns() // 1_000_000

    def mono_us(self) -> int:
        """The same in microseconds."""
        return time.monotonic_ns() // 1_000

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

    def call_at(self, mono_ms: int, callback: Callable[[], object], every_ms: int = 0) -> Timer:
        """Call back once, as soon as `now().mono_ms >= mono_ms`."""
        del every_ms  # nobody moves the machine's time
        return _LoopTimer(self._loop, self._late, mono_ms, callback)

    def read_first(self, input_waits: Callable[[], bool]) -> None:
        """Ask this before a late timer rings."""
        self._late.input_waits = input_waits

    @property
    def machine(self) -> LoopClock:
        """It is the machine's."""
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
        """The present time."""
        return self._now

    def moment(self) -> Now:
        """The present time."""
        return self._now

    def mono_ms(self) -> int:
        """The monotonic half of `now`."""
        return self._now.mono_ms

    def mono_us(self) -> int:
        """The same in microseconds."""
        return self._now.mono_ms * 1_000

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Call back once, during the next `advance`."""
        self.call_at(self._now.mono_ms, callback)

    def call_at(self, mono_ms: int, callback: Callable[[], object], every_ms: int = 0) -> Timer:
        """Call back once, during the `advance` that reaches `mono_ms`."""
        del every_ms  # each time counts
        timer = _ManualTimer(callback)
        heapq.heappush(self._timers, (mono_ms, next(self._order), timer))
        return timer

    def read_first(self, input_waits: Callable[[], bool]) -> None:
        """Nothing: a clock that stands still is never late."""

    @property
    def machine(self) -> ManualClock:
        """There is no other."""
        return self

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


def mono_ms() -> int:
    """Monotonic ms without a clock: for the limits of log lines, before there is an event loop."""
    return time.monotonic_ns() // 1_000_000


async def pause_s(seconds: float) -> None:
    """Let so much time pass: for commands, which have no `Clock`."""
    await asyncio.sleep(seconds)


async def within_s(seconds: float, awaited: Awaitable[T]) -> T:
    """What is awaited, if it comes within so much time; else TimeoutError, and it is cancelled. For commands."""
    return await asyncio.wait_for(awaited, seconds)


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
