"""Time and random numbers: one queue of future events, and one seeded source of random numbers.

Everything that happens follows from these two, so the same seed gives the same history. A subclass decides the content
of a world (a core, shards, whole server processes) and how requests reach it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random
from typing import Any, Final

from muster.coordinator.state_machine.interface import Now

WALL_MS: Final = 1_700_000_000_000


class World:
    """A world with its time and its random numbers.

    `calm`: whether faults have stopped and clients behave well. `events`: the number of events of clients.
    """

    def __init__(self, rng: Random, *, ms: int = 10_000, wall_ms: int = WALL_MS) -> None:
        """`ms`: the monotonic time at the start. `wall_ms`: the wall time at the monotonic time 0."""
        self.rng = rng
        self.random: Callable[[], float] = rng.random
        self.us = ms * 1_000
        self.wall_at_zero_ms = wall_ms
        self.calm = False
        self.events = 0
        self._queue: list[tuple[int, int, Callable[[Any], object], Any]] = []
        self._order = 0

    @property
    def ms(self) -> int:
        """The time of the monotonic clock."""
        return self.us // 1_000

    @property
    def wall_ms(self) -> int:
        """The time of the wall clock."""
        return self.wall_at_zero_ms + self.ms

    def now(self) -> Now:
        """The times of both clocks."""
        return Now(self.ms, self.wall_ms)

    def later(self, ms: int, act: Callable[[Any], object], what: Any = None) -> None:
        """Call `act(what)` in `ms` milliseconds."""
        self.at_us(self.us + ms * 1_000, act, what)

    def at_us(self, us: int, act: Callable[[Any], object], what: Any = None) -> None:
        """Call `act(what)` at the time `us`. Calls with the same time are made in the order of planning."""
        self._order += 1
        heapq.heappush(self._queue, (us, self._order, act, what))

    @property
    def next_us(self) -> int | None:
        """The time of the next event."""
        return self._queue[0][0] if self._queue else None

    def step(self) -> None:
        """Let the next event happen."""
        self.us, _, act, what = heapq.heappop(self._queue)
        act(what)

    def run(self, done: Callable[[], bool], for_ms: int) -> bool:
        """Let events happen until `done` is true, or for `for_ms`. Returns whether `done` is true."""
        end_us, queue = self.us + for_ms * 1_000, self._queue
        while not done():
            if not queue or queue[0][0] > end_us:
                self.us = end_us
                return done()
            self.step()
        return True

    def send(self, actor: Any, request: Any) -> None:
        """Send a request of a client. `actor.resume(response)` follows, with None if no answer will come."""
        raise NotImplementedError


Run = Callable[[Callable[[], object]], object]
"""How a callback is called: at once; later if the process is suspended; not at all if it has ended."""


class VirtualTimer:
    """A call that is planned for a future time."""

    def __init__(self, world: World, run: Run, mono_ms: int, callback: Callable[[], object]) -> None:
        self._callback: Callable[[], object] | None = callback
        self._run = run
        world.at_us(max(mono_ms * 1_000, world.us), self._ring)

    def _ring(self, _: None) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            self._run(callback)

    def cancel(self) -> None:
        self._callback = None


class VirtualClock:
    """The world's time in the form of `coordinator.system.clock.Clock`."""

    def __init__(self, world: World, run: Run = lambda callback: callback()) -> None:
        self._world = world
        self._run = run

    def now(self) -> Now:
        return self._world.now()

    moment = now

    def mono_ms(self) -> int:
        return self._world.ms

    def mono_us(self) -> int:
        return self._world.us

    def call_soon(self, callback: Callable[[], object]) -> None:
        VirtualTimer(self._world, self._run, self._world.ms, callback)

    def call_at(self, mono_ms: int, callback: Callable[[], object], every_ms: int = 0) -> VirtualTimer:
        del every_ms  # each repetition counts here
        return VirtualTimer(self._world, self._run, mono_ms, callback)

    def read_first(self, input_waits: Callable[[], bool]) -> None:
        """Do nothing: in virtual time no timer is late."""

    @property
    def machine(self) -> VirtualClock:
        """This clock itself: the world has no other clock."""
        return self
