"""One server process in virtual time: from its start, on the disk of the process before, to its end.

It is `coordinator.server.Server` on a virtual machine. This has an event loop without sockets, and the world's clock.
Its threads alternate with everything else, and its disk may fail. All else is what `muster serve` runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from muster.coordinator.api.intercept import NO_INTERCEPT, Intercept
from muster.coordinator.config import load
from muster.coordinator.log import SharedSync, Storage
from muster.coordinator.net.listener import Listener
from muster.coordinator.server import Server
from muster.coordinator.server.machine import Machine, Post
from muster.coordinator.system import uuids
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import Worker, outcome
from muster.simulation.faulty_storage import Died, FaultyStorage
from muster.simulation.world import VirtualClock, World

MOST_TURNS: Final = 5_000
"""An event loop that still has work after so many iterations never becomes idle."""
PORT: Final = 9092
"""The default port of a process."""
JOB_MS: Final = 12
"""The longest time before a job of a thread begins."""


class Owner(Protocol):
    """The owner of a process, which is informed about its start, its end and its faults."""

    def started(self) -> None:
        """The process listens."""

    def start_failed(self, error: BaseException) -> None:
        """The process ended before it listened."""

    def ended(self, *, was_clean: bool) -> None:
        """The process has ended."""

    def fault(self, what: str, cause: BaseException | None = None) -> None:
        """A fault of the server."""


class Process:
    """See the module. `up`: it listens; `alive`: the process runs."""

    def __init__(
        self,
        world: World,
        owner: Owner,
        storage: FaultyStorage,
        properties: Mapping[str, str],
        *,
        topics: Sequence[str] = (),
        slow_disk: float = 1.0,
        syncs_all: bool = False,
        intercept: Intercept = NO_INTERCEPT,
        listen: str | None = f"127.0.0.1:{PORT}",
        users: Sequence[str] = (),
    ) -> None:
        """`slow_disk`: how long a job waits at most, in units of JOB_MS. `syncs_all`: one sync serves all files.
        `topics`, `users`: the values of `--topic` and `--user`. `listen` None: the properties have the listeners.
        """
        self.world, self.storage, self.slow_disk, self.syncs_all = world, storage, slow_disk, syncs_all
        self.alive = True
        self.up = self.stopping = False
        self.wires: list[Any] = []
        """Its connections: `wires.Wire`."""
        self.listeners: dict[int, VirtualListener] = {}
        """By port."""
        self.loop = VirtualLoop()
        self.loop.set_exception_handler(self._met)
        self._owner = owner
        self._held: list[tuple[Callable[..., object], tuple[Any, ...]]] | None = None
        self._task: asyncio.Task[Any]
        config = load(
            file=None, environment={}, overrides=[f"{name}={value}" for name, value in properties.items()],
            listen=listen, advertise=None, data_dir=Path("/virtual"), in_memory=False, topics=list(topics),
            users=list(users),
        )  # fmt: skip
        self.server = Server(config, machine=VirtualMachine(self), intercept=intercept)

    def begin(self) -> None:
        """The process starts."""
        self._task = self.loop.create_task(self.server.start())
        self._ends = self._started
        self.turns()

    # ---- events

    def does(self, what: Callable[..., object], *arguments: Any) -> None:
        """Do something to the process, with all its effects at once; later, while it is suspended."""
        if self._held is not None:
            self._held.append((what, arguments))
        elif self.alive:
            self.loop.call_soon(what, *arguments)
            if not self.loop.is_running():
                self.turns()

    @property
    def stands_still(self) -> bool:
        """Whether the process is suspended."""
        return self._held is not None

    def stand_still(self, for_ms: int) -> None:
        """Suspend it, as SIGSTOP or a sleeping laptop does: arriving data waits in the sockets, and timers are late."""
        if self.up and self._held is None and not self.stopping:
            self._held = []
            self.world.later(for_ms, self._go_on)

    def _go_on(self, _: None) -> None:
        held, self._held = self._held or [], None
        for what, arguments in held:
            self.does(what, *arguments)

    def turns(self) -> None:
        """Iterate the event loop until nothing is left to do now."""
        if self.loop.is_running():
            return  # called from inside: the outer call continues
        for _ in range(MOST_TURNS):
            if not self.alive or not self.loop.turn():
                break
        else:
            self._owner.fault("the event loop never comes to rest")
        if self.storage.dead:
            self.died()
        task = self._task
        if self.alive and task.done():
            error = task.exception()
            if isinstance(error, Died):
                self.died()
            else:
                self._ends(error)

    def _met(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if self.alive and not isinstance(error, Died):
            self._owner.fault(f"a fault in the event loop: {context.get('message')}: {error!r}", error)

    # ---- start and end

    def _started(self, error: BaseException | None) -> None:
        if error is not None:
            self._end()
            self._owner.start_failed(error)
        elif not self.up:
            self.up = True
            self._owner.started()

    @property
    def accepts(self) -> bool:
        """Whether new connections are taken."""
        return self.up and self.alive and not self.stopping

    def stop(self) -> None:
        """SIGTERM."""
        if self._held is not None:
            self._go_on(None)
        if self.up and not self.stopping:
            self.stopping = True
            self._task = self.loop.create_task(self.server.stop())
            self._ends = self._stopped
            self.turns()

    def _stopped(self, error: BaseException | None) -> None:
        if error is not None:
            self._owner.fault(f"the stop failed: {error!r}", error)
        self._end()
        self._owner.ended(was_clean=True)

    def kill(self) -> None:
        """SIGKILL, or a power cut."""
        self.storage.dead = True
        self.died()

    def died(self) -> None:
        """The process has ended, in the middle of its work."""
        if self.alive:
            self._end()
            self._owner.ended(was_clean=False)

    def _end(self) -> None:
        self.alive = self.up = False
        for wire in self.wires:
            wire.process_gone()
        self.wires = []


# ---- its machine


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
        """One iteration; returns whether there was anything to do."""
        if not self._ready:  # type: ignore[attr-defined]  # BaseEventLoop's own
            return False
        self.call_soon(self.stop)
        self.run_forever()
        return True


class ProcessClock(VirtualClock):
    """The world's time for one process. A callback of `call_soon` runs in the next iteration of its loop."""

    def __init__(self, process: Process) -> None:
        super().__init__(process.world, process.does)
        self._loop = process.loop

    def call_soon(self, callback: Callable[[], object]) -> None:
        self._loop.call_soon(callback)


class Threads:
    """An executor whose jobs run, one after the other, when the world says so."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._jobs: list[Callable[[], object]] = []

    def submit(self, job: Callable[[], object]) -> None:
        self._jobs.append(job)
        world = self._process.world
        world.later(1 + int(world.random() * self._process.slow_disk * JOB_MS), self._work)

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

    def __init__(self, process: Process) -> None:
        self._process = process

    def run(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], object]) -> None:
        process, world = self._process, self._process.world

        def begin(_: None) -> None:
            if process.stands_still:
                process.does(lambda: done(*outcome(work)))
            elif process.alive:  # not within an iteration of the loop, whose length is watched
                try:
                    done_with = outcome(work)
                except Died:
                    process.died()
                else:
                    process.does(done, *done_with)

        world.later(1 + int(world.random() * JOB_MS), begin)

    def close(self) -> None:
        """Nothing of it goes on by itself."""


class WholeDisk:
    """Syncs the whole disk at once."""

    def __init__(self, storage: FaultyStorage) -> None:
        self.sync = storage.sync_all

    def close(self) -> None:
        """There is nothing to close."""


class VirtualListener(Listener):
    """Takes connections from the world."""

    async def start(self) -> None:
        self.port = self.address.port

    def close(self) -> None:
        """No more connections."""
        self.port = 0

    def connect(self, transport: Any) -> Any:
        """The server's side of a new connection; None when it accepts none any more."""
        if not self.port:
            return None
        connection = self._connection()
        connection.connection_made(transport)
        return connection

    def _set_options(self, transport: Any) -> None:
        pass


class VirtualMachine(Machine):
    """One process's machine."""

    cleaner_cpu_share = 1.0
    has_sockets = False

    def __init__(self, process: Process) -> None:
        self._process = process

    def clock(self) -> Clock:
        return ProcessClock(self._process)

    def draw_uuid(self) -> bytes:
        return uuids.draw_uuid(self._process.world.rng.randbytes)

    def draw_uuid_text(self) -> str:
        return uuids.draw_uuid_text(self._process.world.rng.randbytes)

    def storage(self, directory: Path | None) -> Storage:  # noqa: ARG002
        return self._process.storage

    def workers(self, post: Post, threads: int) -> SharedSync:
        executor: Any = Threads(self._process)
        return SharedSync(post, threads=threads, executor=executor)

    def thread(self, post: Post) -> Worker:  # noqa: ARG002
        return LargeWork(self._process)

    def whole_disk(self, directory: Path | None) -> Any:  # noqa: ARG002
        return WholeDisk(self._process.storage) if self._process.syncs_all else None

    def listener(self, *arguments: Any) -> Listener:
        listener = VirtualListener(*arguments)
        self._process.listeners[listener.address.port] = listener
        return listener
