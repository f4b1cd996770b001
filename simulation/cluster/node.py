"""One node of a cluster in virtual time: what `muster serve --cluster` runs, over a `FaultyStore`. In each node session
it has a server of the simulation's choice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from muster.coordinator.config import load
from muster.coordinator.log import MemoryStorage, SharedSync, Storage
from muster.coordinator.server.machine import Machine, Post
from muster.coordinator.system import uuids
from muster.coordinator.system.clock import Clock
from muster.postgres.node_lifecycle import NodeLifecycle
from muster.postgres.node_session import NodeSession
from muster.simulation.cluster.database import FaultyStore, Tables
from muster.simulation.process import VirtualLoop
from muster.simulation.world import VirtualClock, World

MOST_TURNS = 20_000


class Node:
    """See the module. `alive`: the process runs. `server`: the server of the present node session."""

    def __init__(
        self, world: World, tables: Tables, name: str, lease_ms: int, open_server: Callable[..., Any],
        fault: Callable[[str], object], properties: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """`properties`: of the broker, each as NAME=VALUE."""
        self.world, self.name = world, name
        self.alive = True
        self.loop = VirtualLoop()
        self.loop.set_exception_handler(self._met)
        self._fault = fault
        self._held: list[Callable[[], object]] | None = None
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
        self.turns()

    def _open(self, open_server: Callable[..., Any]) -> Callable[..., Any]:
        def make(config: Any, machine: Machine, loaded: Any, membership: Any) -> Any:  # noqa: ARG001
            self.server = open_server(self, machine, membership, config.node_id)
            return self.server

        return make

    def _met(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if self.alive:
            self._fault(f"{self.name}: {context.get('message')}: {context.get('exception')!r}")

    # ---- events

    def does(self, what: Callable[[], object]) -> None:
        """Do something to the process; later, while it is suspended."""
        if self._held is not None:
            self._held.append(what)
        elif self.alive:
            self.loop.call_soon(what)
            if not self.loop.is_running():
                self.turns()

    def turns(self) -> None:
        """Iterate the event loop until nothing is left to do now."""
        for _ in range(MOST_TURNS):
            if not self.alive or not self.loop.turn():
                break
        else:
            self._fault(f"{self.name}: the event loop never comes to rest")
        if self.alive and self._task.done():
            self.alive = False
            error = self._task.exception()
            if error is not None:
                self._fault(f"{self.name} ended: {error!r}")

    @property
    def stands_still(self) -> bool:
        return self._held is not None

    def stand_still(self, for_ms: int) -> None:
        """Suspend it, as SIGSTOP does."""
        if self._held is None and self.alive:
            self._held = []
            self.world.later(for_ms, self._go_on)

    def _go_on(self, _: None) -> None:
        held, self._held = self._held or [], None
        for what in held:
            self.does(what)

    def cut(self, is_cut: bool) -> None:
        """Cut the node off from the database, or connect it again."""
        self.store.is_cut = self.reads.is_cut = is_cut

    def stop(self) -> None:
        """SIGTERM."""
        if self._held is not None:
            self._go_on(None)
        self.does(self._stop.set)

    def kill(self) -> None:
        """SIGKILL."""
        self.alive = False

    def close(self) -> None:
        """End the observation. The node is not continued: it is dead."""
        self.alive = False
        for task in asyncio.all_tasks(self.loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # a process that was killed tells nothing
        # objects that are thrown away with it must wake nobody, and begin nothing
        loop: Any = self.loop
        loop.call_soon = lambda *_, **__: None
        loop.create_task = lambda coroutine, **_: coroutine.close()
        self.loop.close()


class _Threads:
    """An executor whose jobs run when the world says so."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._jobs: list[Callable[[], object]] = []

    def submit(self, job: Callable[[], object]) -> None:
        self._jobs.append(job)
        self._node.world.later(1 + self._node.world.rng.randrange(10), self._work)

    def _work(self, _: None) -> None:
        if self._node.stands_still:
            self._node.world.later(10, self._work)
        elif self._jobs and self._node.alive:
            self._jobs.pop(0)()
            self._node.turns()

    def shutdown(self, *, wait: bool) -> None:  # noqa: ARG002
        while self._jobs:
            self._jobs.pop(0)()


class NodeMachine(Machine):
    """One node's machine."""

    cleaner_cpu_share = 1.0

    def __init__(self, node: Node) -> None:
        self._node = node

    def clock(self) -> Clock:
        return NodeClock(self._node)

    def draw_uuid(self) -> bytes:
        return uuids.draw_uuid(self._node.world.rng.randbytes)

    def draw_uuid_text(self) -> str:
        return uuids.draw_uuid_text(self._node.world.rng.randbytes)

    def storage(self, directory: Any) -> Storage:  # noqa: ARG002
        return MemoryStorage()

    def workers(self, post: Post, threads: int) -> SharedSync:
        executor: Any = _Threads(self._node)
        return SharedSync(post, threads=threads, executor=executor)


class NodeClock(VirtualClock):
    """The world's time as one node sees it."""

    def __init__(self, node: Node) -> None:
        super().__init__(node.world, node.does)
        self._loop = node.loop

    def call_soon(self, callback: Callable[[], object]) -> None:
        self._loop.call_soon(callback)
