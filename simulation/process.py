"""One server process in virtual time: from its start, on the disk of the process before, to its end.

The process is a `coordinator.server.Server` on a `VirtualMachine`, whose disk may fail. All other code is what `muster
serve` runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from muster.coordinator.api.exchange import NO_INTERCEPT, Intercept
from muster.coordinator.api.observer import RequestObserver
from muster.coordinator.config import load
from muster.coordinator.log import Storage
from muster.coordinator.server import Server
from muster.coordinator.server.machine import Post
from muster.coordinator.server.metrics import ServerMetrics
from muster.coordinator.system.jobs import Worker, outcome
from muster.virtual.faulty_storage import Died, FaultyStorage
from muster.virtual.machine import PORT, VirtualLoop, VirtualMachine, VirtualProcess
from muster.virtual.world import World

JOB_MS: Final = 12
"""The longest time before a job of a thread begins."""


class Owner(Protocol):
    """The owner of a process. The process informs its owner about its start, its end and its faults."""

    def started(self) -> None:
        """The process has started, and listens."""

    def start_failed(self, error: BaseException) -> None:
        """The process ended before it listened."""

    def ended(self, *, was_clean: bool) -> None:
        """The process has ended."""

    def fault(self, what: str, cause: BaseException | None = None) -> None:
        """Report a bug of the server."""


class Process(VirtualProcess):
    """A server process. `up`: whether it listens."""

    max_iterations = 5_000
    retry_ms = JOB_MS

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
        observer: RequestObserver | None = None,
        caches: bool = True,
        listen: str | None = f"127.0.0.1:{PORT}",
        users: Sequence[str] = (),
    ) -> None:
        """`slow_disk`: how long a job waits at most, in units of JOB_MS.

        `syncs_all`: whether one sync serves all files. `topics`, `users`: the values of `--topic` and `--user`.
        `listen`: the address to listen on; None: the properties have the listeners.
        """
        super().__init__(VirtualLoop(world))
        self.storage, self.slow_disk, self.syncs_all = storage, slow_disk, syncs_all
        self.up = self.stopping = False
        self.loop.set_exception_handler(self._met)
        self._owner = owner
        self._task: asyncio.Task[Any]
        config = load(
            file=None, environment={}, overrides=[f"{name}={value}" for name, value in properties.items()],
            listen=listen, advertise=None, data_dir=Path("/virtual"), in_memory=False, topics=list(topics),
            users=list(users),
        )  # fmt: skip
        figures = observer.coordinator.shards if isinstance(observer, ServerMetrics) else None
        self.server = Server(
            config,
            machine=ServerMachine(self),
            intercept=intercept,
            observer=observer,
            caches=caches,
            figures=figures,
        )

    def begin(self) -> None:
        self._task = self.loop.create_task(self.server.start())
        self._ends = self._started
        self.run()

    # ---- events

    def suspend(self, for_ms: int) -> None:
        """Suspend the process (see `VirtualProcess`). This has no effect before it listens, or while it stops."""
        if self.up and not self.stopping:
            super().suspend(for_ms)

    def check(self) -> None:
        if self.storage.dead:
            raise Died

    def hangs(self) -> None:
        self._owner.fault("the event loop never comes to rest")

    def settled(self) -> None:
        if self.storage.dead:
            self.died()
        task = self._task
        if self.alive and task.done():
            error = task.exception()
            if isinstance(error, Died):
                self.died()
            else:
                self._ends(error)

    def job_delay_ms(self) -> int:
        return 1 + int(self.world.random() * self.slow_disk * JOB_MS)

    def run_job(self, job: Callable[[], object]) -> None:
        try:
            job()
        except Died:
            self.died()

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
        return self.up and self.alive and not self.stopping

    def stop(self) -> None:
        if self._held is not None:
            self._resume()
        if self.up and not self.stopping:
            self.stopping = True
            self._task = self.loop.create_task(self.server.stop())
            self._ends = self._stopped
            self.run()

    def _stopped(self, error: BaseException | None) -> None:
        if error is not None:
            self._owner.fault(f"the stop failed: {error!r}", error)
        self._end()
        self._owner.ended(was_clean=True)

    def kill(self) -> None:
        """Kill the process, by SIGKILL or a power cut."""
        self.storage.dead = True
        self.died()

    def died(self) -> None:
        if self.alive:
            self._end()
            self._owner.ended(was_clean=False)

    def _end(self) -> None:
        self.alive = self.up = False
        for wire in self.wires:
            wire.process_gone()
        self.wires = []


# ---- its machine


class LargeWork(Worker):
    """The thread for large requests."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def run(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], object]) -> None:
        process, world = self._process, self._process.world

        def begin(_: None) -> None:
            if process.is_suspended:
                process.does(lambda: done(*outcome(work)))
            # the work does not run within an iteration of the loop, because the length of an iteration is watched
            elif process.alive:
                try:
                    done_with = outcome(work)
                except Died:
                    process.died()
                else:
                    process.does(done, *done_with)

        world.later(1 + int(world.random() * JOB_MS), begin)

    def close(self) -> None:
        """Do nothing: no work continues by itself."""


class WholeDisk:
    """A disk that is synced as a whole."""

    def __init__(self, storage: FaultyStorage) -> None:
        self.sync = storage.sync_all

    def close(self) -> None:
        """Do nothing: there is no file to close."""


class ServerMachine(VirtualMachine):
    """The machine of a server."""

    process: Process

    def storage(self, directory: Path | None) -> Storage:  # noqa: ARG002  # a parameter of Machine's method
        return self.process.storage

    def thread(self, post: Post) -> Worker:  # noqa: ARG002  # a parameter of Machine's method
        return LargeWork(self.process)

    def whole_disk(self, directory: Path | None) -> Any:  # noqa: ARG002  # a parameter of Machine's method
        return WholeDisk(self.process.storage) if self.process.syncs_all else None
