"""Time and chance of a simulation: one queue of what is to happen, and one seeded source of random numbers.

Everything that happens comes from these two, so a seed is a history. What a world is made of (a core, shards, whole
server processes) and how requests reach it, its subclass says.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final

from muster.coordinator.core.interface import Now

if TYPE_CHECKING:
    from muster.protocol.message import Message
    from muster.simulation.actor import Actor

WALL_MS: Final = 1_700_000_000_000


class World:
    """See the module. `calm`: faults have stopped, and clients behave. `events`: how much has happened to clients."""

    def __init__(self, rng: Random, *, ms: int = 10_000, wall_ms: int = WALL_MS) -> None:
        """`ms`: the monotonic time at the beginning, `wall_ms`: the wall time that belongs to 0."""
        self.rng = rng
        self.random: Callable[[], float] = rng.random
        self.ms = ms
        self.wall_at_zero_ms = wall_ms
        self.calm = False
        self.events = 0
        self._queue: list[tuple[int, int, Callable[[Any], object], Any]] = []
        self._order = 0

    @property
    def wall_ms(self) -> int:
        """The wall clock."""
        return self.wall_at_zero_ms + self.ms

    def now(self) -> Now:
        """Both clocks."""
        return Now(self.ms, self.wall_at_zero_ms + self.ms)

    def later(self, ms: int, act: Callable[[Any], object], what: Any = None) -> None:
        """Call `act(what)` in so many ms. What is due in the same ms happens in the order of these calls."""
        self._order += 1
        heapq.heappush(self._queue, (self.ms + ms, self._order, act, what))

    def run(self, done: Callable[[], bool], for_ms: int) -> bool:
        """Let things happen until `done`, for so long at most; whether it is done."""
        end_ms, queue, pop = self.ms + for_ms, self._queue, heapq.heappop
        while not done():
            if not queue or queue[0][0] > end_ms:
                self.ms = end_ms
                return done()
            self.ms, _, act, what = pop(queue)
            act(what)
        return True

    def send(self, actor: Actor, request: Message) -> None:
        """A client sends a request: `actor.resume(response)` follows, with None when no answer will come."""
        raise NotImplementedError
