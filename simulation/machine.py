"""The machine that a node stands on in virtual time: an event loop without sockets, the world's clock, threads that
take turns with everything else, and a disk that may fail.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from muster.coordinator.clock import Clock
from muster.coordinator.log import SharedSync, Storage
from muster.coordinator.machine import Machine, Post
from muster.coordinator.net.listener import Listener
from muster.coordinator.slices import Worker, outcome
from muster.simulation.clock import VirtualClock
from muster.simulation.faulty_storage import Died, FaultyStorage
from muster.simulation.host import Host

JOB_MS = 12
"""A job of a thread begins within so many ms."""


class _NoSelector:
    def select(self, timeout: float | None) -> list[Any]:  # noqa: ARG002
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
        if not self._ready:  # type: ignore[attr-defined]  # BaseEventLoop's own
            return False
        self.call_soon(self.stop)
        self.run_forever()
        return True


class ProcessClock(VirtualClock):
    """The world's time as one process sees it: what is to be called soon is called in the next turn of its loop."""

    def __init__(self, process: Host) -> None:
        super().__init__(process.world, process.does)
        self._loop = process.loop

    def call_soon(self, callback: Callable[[], object]) -> None:
        self._loop.call_soon(callback)


class Threads:
    """An executor whose jobs run, one after the other, when the world says so."""

    def __init__(self, process: Host, slow: float) -> None:
        self._process = process
        self._slow = slow
        self._jobs: list[Callable[[], object]] = []

    def submit(self, job: Callable[[], object]) -> None:
        self._jobs.append(job)
        world = self._process.world
        world.later(1 + int(world.random() * self._slow * JOB_MS), self._work)

    def _work(self, _: None) -> None:
        process = self._process
        if process.stands_still:
            process.world.later(JOB_MS, self._work)
        elif self._jobs and process.alive:
            job = self._jobs.pop(0)
            try:
                job()
            except Died:
                process.died()
            process.turns()

    def shutdown(self, *, wait: bool) -> None:  # noqa: ARG002
        while self._jobs:
            self._jobs.pop(0)()


class LargeWork(Worker):
    """The thread for large requests."""

    def __init__(self, process: Host) -> None:
        self._process = process

    def run(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], object]) -> None:
        process, world = self._process, self._process.world
        world.later(1 + int(world.random() * JOB_MS), lambda _: process.does(lambda: done(*outcome(work))))

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

    def __init__(self, process: Host, storage: FaultyStorage, *, slow_disk: float, syncs_all: bool) -> None:
        """`slow_disk`: how long a job waits at most, in units of JOB_MS; `syncs_all`: one sync serves all files."""
        self._process = process
        self._storage = storage
        self._slow_disk = slow_disk
        self._syncs_all = syncs_all
        self.listeners: list[VirtualListener] = []

    def clock(self) -> Clock:
        return ProcessClock(self._process)

    def draw_uuid(self) -> bytes:
        return self._process.world.rng.randbytes(16)

    def draw_uuid_text(self) -> str:
        return self._process.world.rng.randbytes(16).hex()

    def storage(self, directory: Path | None) -> Storage:  # noqa: ARG002
        return self._storage

    def workers(self, post: Post, threads: int) -> SharedSync:
        executor: Any = Threads(self._process, self._slow_disk)
        return SharedSync(post, threads=threads, executor=executor)

    def thread(self, post: Post) -> Worker:  # noqa: ARG002
        return LargeWork(self._process)

    def whole_disk(self, directory: Path | None) -> Any:  # noqa: ARG002
        return WholeDisk(self._storage) if self._syncs_all else None

    def listener(self, *arguments: Any) -> Listener:
        self.listeners.append(VirtualListener(*arguments))
        return self.listeners[-1]
