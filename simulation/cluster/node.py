"""One node of a cluster in virtual time. It runs what `muster serve --cluster` runs, over a `FaultyStore`.

The simulation chooses the server that the node has in each node session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from muster.coordinator.config import load
from muster.coordinator.log import MemoryStorage, Storage
from muster.coordinator.server.machine import Machine, Post
from muster.coordinator.system import uuids
from muster.coordinator.system.jobs import AtOnce, Worker
from muster.postgres.node_lifecycle import NodeLifecycle
from muster.postgres.node_session import NodeSession
from muster.simulation.cluster.faulty_store import FaultyStore
from muster.simulation.cluster.tables import Tables
from muster.virtual.machine import VirtualLoop, VirtualMachine, VirtualProcess
from muster.virtual.world import World


class Node(VirtualProcess):
    """A node of the simulated cluster. `server`: the server of the present node session."""

    max_iterations = 20_000
    retry_ms = 10

    def __init__(
        self, world: World, tables: Tables, name: str, lease_ms: int, open_server: Callable[..., Any],
        fault: Callable[[str], object], properties: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """`open_server(node, config, machine, membership)` makes the server. `properties`: the properties of the
        broker, each as NAME=VALUE.
        """
        super().__init__(VirtualLoop(world))
        self.name = name
        self.loop.set_exception_handler(self._met)
        self._fault = fault
        self.store, self.reads = [
            FaultyStore(world, tables, self.does, world.rng, timeout_ms=lease_ms // 3) for _ in range(2)
        ]
        self.machine = NodeMachine(self)
        self.clock = self.machine.clock()
        self.server: Any = None
        config = load(listen="127.0.0.1:9092", in_memory=True, overrides=properties)
        holder = uuids.draw_uuid_text(world.rng.randbytes)
        lifecycle = NodeLifecycle(self.reads, self.clock, holder, name, None, lease_ms)
        self._stop = asyncio.Event()

        def make_session() -> NodeSession:
            opens = self._open(open_server)
            return NodeSession(config, self.store, self.reads, self.machine, self.clock, None, open_server=opens)

        self._task = self.loop.create_task(lifecycle.run(make_session, self._stop))
        self.run()

    def _open(self, open_server: Callable[..., Any]) -> Callable[..., Any]:
        def make(config: Any, machine: Machine, loaded: Any, membership: Any) -> Any:  # noqa: ARG001  # its caller names it
            self.server = open_server(self, config, machine, membership)
            return self.server

        return make

    def _met(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if self.alive:
            self._fault(f"{self.name}: {context.get('message')}: {context.get('exception')!r}")

    # ---- events

    def hangs(self) -> None:
        self._fault(f"{self.name}: the event loop never comes to rest")

    def settled(self) -> None:
        if self.alive and self._task.done():
            self.alive = False
            error = self._task.exception()
            if error is not None:
                self._fault(f"{self.name} ended: {error!r}")

    def job_delay_ms(self) -> int:
        return 1 + self.world.rng.randrange(10)

    def cut(self, is_cut: bool) -> None:
        self.store.is_cut = self.reads.is_cut = is_cut

    def stop(self) -> None:
        if self._held is not None:
            self._resume()
        self.does(self._stop.set)

    def kill(self) -> None:
        self.alive = False

    def close(self) -> None:
        """End the node for ever: it is dead, and its event loop is closed."""
        self.alive = False
        for task in asyncio.all_tasks(self.loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # a killed process logs nothing
        # the objects of this loop must not wake or start anything while they are destroyed
        loop: Any = self.loop
        loop.call_soon = lambda *_, **__: None
        loop.create_task = lambda coroutine, **_: coroutine.close()
        self.loop.close()


class NodeMachine(VirtualMachine):
    """The machine of one node."""

    def storage(self, directory: Any) -> Storage:  # noqa: ARG002  # a parameter of Machine's method
        return MemoryStorage()

    def thread(self, post: Post) -> Worker:  # noqa: ARG002  # a parameter of Machine's method
        return AtOnce()
