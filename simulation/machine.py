"""The machine of a process in virtual time: its event loop, its clock, and its threads. A job of a thread runs between
two other events. `process.Process` is a server on it, and `cluster.node.Node` a node of a cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from muster.coordinator.log import SharedSync
from muster.coordinator.server.machine import Machine, Post
from muster.coordinator.system import uuids
from muster.coordinator.system.clock import Clock
from muster.simulation.world import VirtualClock, World


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

    def iterate(self) -> bool:
        """Iterate once; returns whether there was anything to do."""
        if not self._ready:  # type: ignore[attr-defined]  # BaseEventLoop's own
            return False
        self.call_soon(self.stop)
        self.run_forever()
        return True


class VirtualProcess:
    """A process that consists of an event loop. `alive`: it runs."""

    max_iterations: int
    """An event loop that still has work after so many iterations never becomes idle."""
    retry_ms: int
    """While the process is suspended, the jobs of its threads are delayed by this time."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.alive = True
        self.loop = VirtualLoop()
        self._held: list[tuple[Callable[..., object], tuple[Any, ...]]] | None = None

    def does(self, what: Callable[..., object], *arguments: Any) -> None:
        """Do something to the process, with all its effects at once; later, while it is suspended."""
        if self._held is not None:
            self._held.append((what, arguments))
        elif self.alive:
            self.loop.call_soon(what, *arguments)
            if not self.loop.is_running():
                self.run()

    @property
    def is_suspended(self) -> bool:
        """Whether the process is suspended."""
        return self._held is not None

    def suspend(self, for_ms: int) -> None:
        """Suspend it, as SIGSTOP or a sleeping laptop does: arriving data waits in the sockets, and timers are late."""
        if self._held is None and self.alive:
            self._held = []
            self.world.later(for_ms, self._resume)

    def _resume(self, _: None = None) -> None:
        held, self._held = self._held or [], None
        for what, arguments in held:
            self.does(what, *arguments)

    def run(self) -> None:
        """Iterate the event loop until nothing is left to do now."""
        if self.loop.is_running():
            return  # called from inside: the outer call continues
        for _ in range(self.max_iterations):
            if not self.alive or not self.loop.iterate():
                break
        else:
            self.hangs()
        self.settled()

    def hangs(self) -> None:
        """The event loop never becomes idle."""
        raise NotImplementedError

    def settled(self) -> None:
        """Nothing is left to do now."""
        raise NotImplementedError

    def job_delay_ms(self) -> int:
        """How long a job waits for a thread."""
        raise NotImplementedError

    def run_job(self, job: Callable[[], object]) -> None:
        """Run a job of a thread."""
        job()


class ProcessClock(VirtualClock):
    """The world's time for one process. A callback of `call_soon` runs in the next iteration of its loop."""

    def __init__(self, process: VirtualProcess) -> None:
        super().__init__(process.world, process.does)
        self._loop = process.loop

    def call_soon(self, callback: Callable[[], object]) -> None:
        self._loop.call_soon(callback)


class Threads:
    """An executor whose jobs run, one after the other, when the world says so."""

    def __init__(self, process: VirtualProcess) -> None:
        self._process = process
        self._jobs: list[Callable[[], object]] = []

    def submit(self, job: Callable[[], object]) -> None:
        self._jobs.append(job)
        self._process.world.later(self._process.job_delay_ms(), self._work)

    def _work(self, _: None) -> None:
        process = self._process
        if process.is_suspended:
            process.world.later(process.retry_ms, self._work)
        elif self._jobs and process.alive:
            process.run_job(self._jobs.pop(0))
            process.run()

    def shutdown(self, *, wait: bool) -> None:  # noqa: ARG002
        while self._jobs:
            self._jobs.pop(0)()


class VirtualMachine(Machine):
    """The machine of one process."""

    cleaner_cpu_share = 1.0

    def __init__(self, process: VirtualProcess) -> None:
        self._of = process

    def clock(self) -> Clock:
        return ProcessClock(self._of)

    def draw_uuid(self) -> bytes:
        return uuids.draw_uuid(self._of.world.rng.randbytes)

    def draw_uuid_text(self) -> str:
        return uuids.draw_uuid_text(self._of.world.rng.randbytes)

    def workers(self, post: Post, threads: int) -> SharedSync:
        executor: Any = Threads(self._of)
        return SharedSync(post, threads=threads, executor=executor)
