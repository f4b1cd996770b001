"""The machine of a process in virtual time: its event loop, clock, listeners, and threads.

A thread's job runs between two other events.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import Any, Final

from muster.coordinator.log import SharedSync
from muster.coordinator.net.listener import Listener
from muster.coordinator.server.machine import Machine, Post
from muster.coordinator.system import uuids
from muster.coordinator.system.clock import Clock
from muster.virtual.world import VirtualClock, World

PORT: Final = 9_092
"""The default port of a process. It is also the first port that is tried for a listener with port 0."""


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop that runs what is ready, at the world's time. It has no file descriptors and never waits."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self._selector = self

    def time(self) -> float:
        return self.world.us / 1_000_000

    def select(self, timeout: float | None) -> list[Any]:  # noqa: ARG002  # as its own selector
        return []

    def _process_events(self, events: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def iterate(self) -> bool:
        """Iterate once. Returns whether a callback was ready."""
        if not self._ready:  # type: ignore[attr-defined]  # BaseEventLoop's own
            return False
        self.call_soon(self.stop)
        self.run_forever()
        return True


class VirtualProcess:
    """A process that consists of an event loop. `alive`: whether it runs."""

    max_iterations: int
    """If the event loop still has work after this number of iterations, it counts as an endless loop."""
    retry_ms: int
    """While the process is suspended, the jobs of its threads are delayed by this time."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.world = loop.world
        self.alive = True
        self.loop = loop
        self.wires: list[Any] = []
        """The process's connections (`wires.Wire`)."""
        self.listeners: dict[int, VirtualListener] = {}
        """The open listeners, by port."""
        self._held: list[tuple[Callable[..., object], tuple[Any, ...]]] | None = None

    def does(self, what: Callable[..., object], *arguments: Any) -> None:
        """Call a function in the process, and run all callbacks that follow.

        While the process is suspended, the call is delayed.
        """
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
        """Suspend the process, as SIGSTOP or a sleeping laptop does. Data waits in the sockets, and timers are late."""
        if self._held is None and self.alive:
            self._held = []
            self.world.later(for_ms, self._resume)

    def _resume(self, _: None = None) -> None:
        held, self._held = self._held or [], None
        for what, arguments in held:
            self.does(what, *arguments)

    def run(self) -> None:
        """Iterate the event loop until no callback is ready."""
        if self.loop.is_running():
            return  # the call comes from inside of the loop, and the outer call continues
        for _ in range(self.max_iterations):
            if not self.alive or not self.loop.iterate():
                break
        else:
            self.hangs()
        self.settled()

    def check(self) -> None:
        """Raise the exception that ends the process, if it must not continue."""

    def hangs(self) -> None:
        """Called if the event loop never becomes idle."""
        raise NotImplementedError

    def settled(self) -> None:
        """Called when no callback is ready any more."""
        raise NotImplementedError

    def job_delay_ms(self) -> int:
        """The time that a job waits for a thread."""
        return 0

    def run_job(self, job: Callable[[], object]) -> None:
        """Run a job in a thread."""
        job()


class ProcessClock(VirtualClock):
    """The world's time for one process. A callback of `call_soon` runs in the next iteration of the process's loop."""

    def __init__(self, process: VirtualProcess) -> None:
        super().__init__(process.world, process.does)
        self._loop = process.loop

    def call_soon(self, callback: Callable[[], object]) -> None:
        self._loop.call_soon(callback)


class Threads:
    """An executor of threads. Its jobs run one after the other, at times that the world decides."""

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

    def shutdown(self, *, wait: bool) -> None:  # noqa: ARG002  # there is no thread to wait for
        while self._jobs:
            self._jobs.pop(0)()


class VirtualListener(Listener):
    """A listener that accepts the wires of a process."""

    process: VirtualProcess

    async def start(self) -> None:
        """Open the port. Raises OSError if the port is in use."""
        listeners, port = self.process.listeners, self.address.port
        if not port:
            port = PORT
            while port in listeners:
                port += 1
        if port in listeners:
            raise OSError(errno.EADDRINUSE, f"port {port} is in use")
        listeners[port] = self
        self.port = port
        self._waiting: list[Any] = []

    def close(self) -> None:
        if self.process.listeners.get(self.port) is self:
            del self.process.listeners[self.port]
            for wire in self._waiting:
                wire.abort()

    def resume(self) -> None:
        super().resume()
        waiting, self._waiting = self._waiting, []
        for wire in waiting:
            self.accept(wire)
            self.process.does(wire.read)

    def accept(self, wire: Any) -> None:
        """Open the server's end of a new connection. While the listener is paused, the connection waits."""
        if self._is_paused:
            self._waiting.append(wire)
        else:
            wire.opened(self._connection())

    def _set_options(self, transport: Any) -> None:
        """Do nothing: a wire has no socket options."""


class VirtualMachine(Machine):
    """The machine of one process."""

    cleaner_cpu_share = 1.0
    has_sockets = False

    def __init__(self, process: VirtualProcess) -> None:
        self.process = process

    def clock(self) -> Clock:
        return ProcessClock(self.process)

    def draw_uuid(self) -> bytes:
        return uuids.draw_uuid(self.process.world.rng.randbytes)

    def draw_uuid_text(self) -> str:
        return uuids.draw_uuid_text(self.process.world.rng.randbytes)

    def workers(self, post: Post, threads: int) -> SharedSync:
        executor: Any = Threads(self.process)
        return SharedSync(post, threads=threads, executor=executor)

    def listener(self, *arguments: Any) -> Listener:
        listener = VirtualListener(*arguments)
        listener.process = self.process
        return listener
