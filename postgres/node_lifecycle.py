"""The lifecycle of a process of a cluster: it registers, serves while the registration is held, and registers again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import structlog

from muster.coordinator.system.clock import Clock
from muster.postgres.node_session import NodeSession
from muster.postgres.store import NodeRegistration, Store, StoreAway, StoreRefused

CHECK_MS: Final = 500
"""How often a process without a registration tries to register."""

_logger = structlog.get_logger("muster.cluster")


class NodeLifecycle:
    """The lifecycle of one process; see the module."""

    def __init__(
        self, store: Store, clock: Clock, holder: str, address: str, node_id: int | None, lease_ms: int
    ) -> None:
        """`holder`: a name that no other process has, or had. `address`: the name of the node for people. `node_id`:
        the node id to register; None: the first free id.
        """
        self._store = store
        self._clock = clock
        self._holder = holder
        self._address = address
        self._node_id = node_id
        self._lease_ms = lease_ms
        self._was_away = False
        """Whether the database was unavailable before this session. If so, other nodes have lost their registrations as
        well, and will return soon.
        """

    async def run(
        self,
        make_session: Callable[[], NodeSession],
        stop: asyncio.Event,
        serves: Callable[[Any], object] = lambda _: None,
    ) -> None:
        """Run until `stop` is set. `serves(server)`: the node serves. Raises errors that would repeat."""
        while True:
            taken = await self._register(stop)
            if taken is None:
                return
            registration, asked_ms = taken
            session = make_session()
            try:
                await session.begin(registration, asked_ms, self._lease_ms, others_return=self._was_away)
            except StoreAway as error:
                _logger.warning(
                    "the node cannot serve", node=registration.node_id, reason=str(error), what="it begins anew"
                )
                await self._pause(stop)
                continue
            except Exception:  # any error ends this node: others need not wait for the end of the lease
                await self._unregister(registration)
                raise
            serves(session.server)
            await _first_of(stop, session.lost)
            self._was_away = session.writer.was_away
            is_whole = await session.end(hands_over=stop.is_set())
            if stop.is_set():
                if is_whole:
                    await self._unregister(registration)
                return
            await self._pause(stop)

    async def _register(self, stop: asyncio.Event) -> tuple[NodeRegistration, int] | None:
        """Return a registration, and the monotonic time of the request. None: `stop` is set. Raises StoreRefused."""
        logged = ""
        while not stop.is_set():
            asked_ms = self._clock.mono_ms()
            try:
                registration = await self._store.register_node(
                    self._holder, self._address, self._node_id, self._lease_ms
                )
            except StoreAway as error:
                self._was_away = True
                if logged != "away":
                    logged = "away"
                    _logger.warning("the database is away", reason=str(error), what="it is asked again and again")
            else:
                if registration is not None:
                    return registration, asked_ms
                if logged != "taken" and self._node_id is not None:
                    logged = "taken"
                    what = "this process waits for the end of that node's lease; if both run, give each its own node.id"
                    _logger.warning("another node has this id", node=self._node_id, what=what)
            await self._pause(stop)
        return None

    async def _pause(self, stop: asyncio.Event) -> None:
        over = asyncio.Event()
        timer = self._clock.call_at(self._clock.mono_ms() + CHECK_MS, over.set)
        await _first_of(stop, over)
        timer.cancel()

    async def _unregister(self, registration: NodeRegistration) -> None:
        try:
            await self._store.unregister_node(registration.node_id, registration.epoch)
        except (StoreAway, StoreRefused) as error:
            _logger.warning("the registration could not be ended", reason=str(error),
                            what="when the lease is over, other nodes lead its partitions")  # fmt: skip


async def _first_of(*events: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for one in waits:
        one.cancel()
