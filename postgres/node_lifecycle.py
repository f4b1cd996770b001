"""The lifecycle of a process of a cluster. The process registers, serves while the registration is held, and registers
anew after a loss.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import structlog

from muster.coordinator.system.clock import Clock
from muster.postgres.node_session import Term
from muster.postgres.store import NodeRegistration, Store, StoreAway, StoreRefused

LOOK_MS: Final = 500
"""How often a process without a registration tries to register."""

_logger = structlog.get_logger("muster.cluster")


class NodeLifecycle:
    """The lifecycle of one process; see the module."""

    def __init__(
        self, store: Store, clock: Clock, holder: str, address: str, node_id: int | None, lease_ms: int
    ) -> None:
        """`holder`: a name that no other process has, or had. `address`: the name of the node for people. `node_id`:
        the node id to register; None: the first free one.
        """
        self._store = store
        self._clock = clock
        self._holder = holder
        self._address = address
        self._node_id = node_id
        self._lease_ms = lease_ms
        self._was_away = False
        """The database was unavailable before this session. Other nodes have lost their registrations as well, and will
        return soon.
        """

    async def run(
        self, make_term: Callable[[], Term], stop: asyncio.Event, serves: Callable[[Any], object] = lambda _: None
    ) -> None:
        """Run until `stop` is set. `serves(server)` is called each time the node serves. Raises errors that a new
        attempt would not mend.
        """
        while True:
            taken = await self._take_seat(stop)
            if taken is None:
                return
            seat, asked_ms = taken
            term = make_term()
            try:
                await term.begin(seat, asked_ms, self._lease_ms, others_come_back=self._was_away)
            except StoreAway as error:
                _logger.warning("the node cannot serve", node=seat.node_id, reason=str(error), what="it begins anew")
                await self._pause(stop)
                continue
            except Exception:  # any error ends this node: others need not wait for the end of the lease
                await self._leave_seat(seat)
                raise
            serves(term.server)
            await _first_of(stop, term.lost)
            self._was_away = term.shipper.was_away
            is_whole = await term.end(hands_over=stop.is_set())
            if stop.is_set():
                if is_whole:
                    await self._leave_seat(seat)
                return
            await self._pause(stop)

    async def _take_seat(self, stop: asyncio.Event) -> tuple[NodeRegistration, int] | None:
        """Wait for a registration; return it with the monotonic time at which it was requested. None: `stop` is set.
        Raises StoreRefused.
        """
        told = ""
        while not stop.is_set():
            asked_ms = self._clock.mono_ms()
            try:
                seat = await self._store.register_node(self._holder, self._address, self._node_id, self._lease_ms)
            except StoreAway as error:
                self._was_away = True
                if told != "away":
                    told = "away"
                    _logger.warning("the database is away", reason=str(error), what="it is asked again and again")
            else:
                if seat is not None:
                    return seat, asked_ms
                if told != "taken" and self._node_id is not None:
                    told = "taken"
                    what = "this one waits for the end of its lease; if it lives, give each its own node.id, or none"
                    _logger.warning("another node has this id", node=self._node_id, what=what)
            await self._pause(stop)
        return None

    async def _pause(self, stop: asyncio.Event) -> None:
        over = asyncio.Event()
        timer = self._clock.call_at(self._clock.mono_ms() + LOOK_MS, over.set)
        await _first_of(stop, over)
        timer.cancel()

    async def _leave_seat(self, seat: NodeRegistration) -> None:
        """Free the registration at once. If that fails, the registration ends with its lease."""
        try:
            await self._store.unregister_node(seat.node_id, seat.epoch)
        except (StoreAway, StoreRefused) as error:
            _logger.warning("the seat could not be given up", reason=str(error),
                            what="others lead what it led when the lease is over")  # fmt: skip


async def _first_of(*events: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for one in waits:
        one.cancel()
