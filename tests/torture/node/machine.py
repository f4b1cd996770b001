"""The machine that a node stands on here: an event loop without sockets, a clock that the world moves, threads that
take turns with everything else, a disk that fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.coordinator.clock import Clock
from muster.coordinator.core.interface import Now
from muster.coordinator.log import SharedSync, Storage
from muster.coordinator.machine import Machine, Post
from muster.coordinator.net.listener import Listener
from muster.coordinator.slices import Worker, outcome
from muster.simulation.faulty_storage import Died, FaultyStorage

if TYPE_CHECKING:
    from tests.torture.node.life import Life

JOB_MS = 12
"""A job of a thread begins within so many ms."""


class _NoSelector:
    def select(self, timeout: float | None) -> list[Any]:
        return []

    def close(self) -> None:
        pass


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs what is ready; knows no descriptor and never waits."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _NoSelector()

    def _process_events(self, events: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def turn(self) -> bool:
        """One turn; whether there was anything to do."""
        if not self._ready:
            return False
        self.call_soon(self.stop)
        self.run_forever()
        return True


class VirtualTimer:
    """One call in the future of one life."""

    def __init__(self, life: Life, mono_ms: int, callback: Callable[[], object]) -> None:
        self._callback: Callable[[], object] | None = callback
        self._life = life
        life.world.later(max(mono_ms - life.world.ms, 0), self._ring, None)

    def _ring(self, _: None) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            self._life.does(callback)

    def cancel(self) -> None:
        self._callback = None


class VirtualClock(Clock):
    """The world's time, as one process sees it."""

    def __init__(self, life: Life) -> None:
        self._life = life

    def now(self) -> Now:
        world = self._life.world
        return Now(world.ms, world.wall_ms)

    moment = now

    def mono_ms(self) -> int:
        return self._life.world.ms

    def call_soon(self, callback: Callable[[], object]) -> None:
        self._life.loop.call_soon(callback)

    def call_at(self, mono_ms: int, callback: Callable[[], object]) -> VirtualTimer:
        return VirtualTimer(self._life, mono_ms, callback)


class Threads:
    """An executor whose jobs run, one after the other, when the world says so."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._jobs: list[Callable[[], object]] = []

    def submit(self, job: Callable[[], object]) -> None:
        self._jobs.append(job)
        world = self._life.world
        world.later(1 + int(world.random() * world.weather.slow_disk * JOB_MS), self._work, None)

    def _work(self, _: None) -> None:
        if self._life.stands_still:
            self._life.world.later(JOB_MS, self._work, None)
        elif self._jobs and self._life.alive:
            job = self._jobs.pop(0)
            try:
                job()
            except Died:
                self._life.died()
            self._life.turns()

    def shutdown(self, *, wait: bool) -> None:
        while self._jobs:
            self._jobs.pop(0)()


class LargeWork(Worker):
    """The thread for large requests."""

    def __init__(self, life: Life) -> None:
        self._life = life

    def run(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], object]) -> None:
        world = self._life.world
        world.later(1 + int(world.random() * JOB_MS), lambda _: self._life.does(lambda: done(*outcome(work))), None)

    def close(self) -> None:
        """Nothing of it goes on by itself."""


class WholeDisk:
    """What syncs all there is at once."""

    def __init__(self, storage: FaultyStorage) -> None:
        self._storage = storage

    def sync(self) -> None:
        self._storage.sync_all()

    def close(self) -> None:
        pass


class VirtualListener(Listener):
    """Takes connections from the world."""

    async def start(self) -> None:
        self.port = 9092

    def close(self) -> None:
        """Nobody can come any more."""
        self.port = 0

    def connect(self, transport: Any) -> Any:
        """The server's side of a new connection."""
        connection = self._connection()
        connection.connection_made(transport)
        return connection

    def _set_options(self, transport: Any) -> None:
        pass


class VirtualMachine(Machine):
    """One process's machine."""

    cleaner_cpu_share = 1.0

    def __init__(self, life: Life, storage: FaultyStorage) -> None:
        self._life = life
        self._storage = storage
        self.listeners: list[VirtualListener] = []

    def clock(self) -> Clock:
        return VirtualClock(self._life)

    def draw_uuid(self) -> bytes:
        return self._life.world.rng.randbytes(16)

    def draw_uuid_text(self) -> str:
        return self._life.world.rng.randbytes(16).hex()

    def storage(self, directory: Path | None) -> Storage:
        return self._storage

    def workers(self, post: Post, threads: int) -> SharedSync:
        return SharedSync(post, threads=threads, executor=Threads(self._life))  # type: ignore[arg-type]  # a part of it

    def thread(self, post: Post) -> Worker:
        return LargeWork(self._life)

    def whole_disk(self, directory: Path | None) -> Any:
        return WholeDisk(self._storage) if self._life.world.weather.syncs_all else None

    def listener(self, *arguments: Any) -> Listener:
        self.listeners.append(VirtualListener(*arguments))
        return self.listeners[-1]
