"""One server process in virtual time: from its start on a disk as the last one left it, to its end, by whatever.

It is `coordinator.server.Server` on a `VirtualMachine`: everything but the event loop, the sockets, the threads and the
disk is what `muster serve` runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from muster.coordinator.api.intercept import NO_INTERCEPT, Intercept
from muster.coordinator.config import load
from muster.coordinator.server import Server
from muster.simulation.faulty_storage import Died, FaultyStorage
from muster.simulation.machine import VirtualLoop, VirtualMachine
from muster.simulation.wires import Wire
from muster.simulation.world import World

MOST_TURNS: Final = 5_000
"""An event loop that still has work after so many turns goes round in circles."""


class Owner(Protocol):
    """Who started the process and is told what becomes of it."""

    def started(self) -> None:
        """It listens."""

    def start_failed(self, error: BaseException) -> None:
        """It ended before it listened."""

    def ended(self, *, was_clean: bool) -> None:
        """It is gone."""

    def fault(self, what: str, cause: BaseException | None = None) -> None:
        """Something that must not be."""


class Process:
    """See the module. `up`: it listens; `alive`: the process is there."""

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
    ) -> None:
        """`slow_disk`, `syncs_all`: see `VirtualMachine`; `topics`: as `--topic` has them."""
        self.world = world
        self.storage = storage
        self.alive = True
        self.up = False
        self.stopping = False
        self._owner = owner
        self._held: list[tuple[Callable[..., object], tuple[Any, ...]]] | None = None
        self.wires: list[Wire] = []
        self.loop = VirtualLoop()
        self.loop.set_exception_handler(self._met)
        self.machine = VirtualMachine(self, storage, slow_disk=slow_disk, syncs_all=syncs_all)
        config = load(
            file=None, environment={}, overrides=[f"{name}={value}" for name, value in properties.items()],
            listen="127.0.0.1:9092", advertise=None, data_dir=Path("/virtual"), in_memory=False, topics=list(topics),
        )  # fmt: skip
        self.server = Server(config, machine=self.machine, intercept=intercept)

    def begin(self) -> None:
        """The process starts."""
        self._task: asyncio.Task[Any] = self.loop.create_task(self.server.start())
        self._ends = self._started
        self.turns()

    # ---- doing things

    def does(self, what: Callable[..., object], *arguments: Any) -> None:
        """Something happens to the process, and all that follows at once; later, when it stands still."""
        if self._held is not None:
            self._held.append((what, arguments))
        elif self.alive:
            self.loop.call_soon(what, *arguments)
            if not self.loop.is_running():
                self.turns()

    @property
    def stands_still(self) -> bool:
        """Between `stand_still` and its end."""
        return self._held is not None

    def stand_still(self, for_ms: int) -> None:
        """As after SIGSTOP, or while a laptop sleeps: what comes lies in the sockets, timers ring late."""
        if self.up and self._held is None and not self.stopping:
            self._held = []
            self.world.later(for_ms, self._go_on)

    def _go_on(self, _: None) -> None:
        held, self._held = self._held or [], None
        for what, arguments in held:
            self.does(what, *arguments)

    def turns(self) -> None:
        """Until nothing is left to do now."""
        if self.loop.is_running():
            return  # from inside: the turns go on anyway
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
        if isinstance(error, Died) or not self.alive:
            return
        self._owner.fault(f"a fault in the event loop: {context.get('message')}: {error!r}", error)

    # ---- coming and going

    def _started(self, error: BaseException | None) -> None:
        if error is not None:
            self._end()
            self._owner.start_failed(error)
        elif not self.up:
            self.up = True
            self._owner.started()

    def connect(self, client: Any, slow_ms: int) -> Wire | None:
        """A client's new connection; None while there is nobody to take it."""
        if not (self.up and self.alive) or self.stopping:
            return None
        wire = Wire(self, client, slow_ms)
        self.wires.append(wire)
        return wire

    def accept(self, wire: Wire) -> Any:
        """The server's side of a new connection; None when nobody listens any more."""
        listener = self.machine.listeners[0]
        return listener.connect(wire) if listener.port else None

    def check_alive(self) -> None:
        """Raises Died when it has died in the midst of this turn."""
        if self.storage.dead:
            raise Died

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
        """SIGKILL, or the power is cut."""
        self.storage.dead = True
        self.died()

    def died(self) -> None:
        """The process is gone, in the midst of whatever it did."""
        if self.alive:
            self._end()
            self._owner.ended(was_clean=False)

    def _end(self) -> None:
        self.alive = self.up = False
        for wire in self.wires:
            wire.process_gone()
        self.wires = []
