"""The world's time, as the coordinator's own clock shows it."""

from __future__ import annotations

from collections.abc import Callable

from muster.coordinator.core.interface import Now
from muster.simulation.world import World

Run = Callable[[Callable[[], object]], object]
"""How a callback is called: a process that stands still is called later, one that is gone not at all."""


def _at_once(callback: Callable[[], object]) -> None:
    callback()


class VirtualTimer:
    """One call in the future."""

    def __init__(self, world: World, run: Run, mono_ms: int, callback: Callable[[], object]) -> None:
        self._callback: Callable[[], object] | None = callback
        self._run = run
        world.later(max(mono_ms - world.ms, 0), self._ring)

    def _ring(self, _: None) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            self._run(callback)

    def cancel(self) -> None:
        self._callback = None


class VirtualClock:
    """See the module: a `coordinator.clock.Clock`."""

    def __init__(self, world: World, run: Run = _at_once) -> None:
        self._world = world
        self._run = run

    def now(self) -> Now:
        return self._world.now()

    moment = now

    def mono_ms(self) -> int:
        return self._world.ms

    def mono_us(self) -> int:
        return self._world.ms * 1_000

    def call_soon(self, callback: Callable[[], object]) -> None:
        VirtualTimer(self._world, self._run, self._world.ms, callback)

    def call_at(self, mono_ms: int, callback: Callable[[], object]) -> VirtualTimer:
        return VirtualTimer(self._world, self._run, mono_ms, callback)

    def read_first(self, input_waits: Callable[[], bool]) -> None:
        """No timer is ever late here."""
