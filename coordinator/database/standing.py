"""What a node does from its start to its end: it stands by until the office is free, serves while it is held, and
stands by again when it is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import structlog

from muster.coordinator.clock import Clock
from muster.coordinator.database.store import Office, Store, StoreAway, StoreRefused
from muster.coordinator.database.term import Term

LOOK_MS: Final = 500
"""How often who stands by asks whether the office is free."""

_logger = structlog.get_logger("muster.cluster")


class Standing:
    """One node."""

    def __init__(self, store: Store, clock: Clock, holder: str, address: str, lease_ms: int) -> None:
        """`holder`: a name that no other process has, or had; `address`: how people call the node."""
        self._store = store
        self._clock = clock
        self._holder = holder
        self._address = address
        self._lease_ms = lease_ms

    async def live(
        self, make_term: Callable[[], Term], stop: asyncio.Event, serves: Callable[[Any], object] = lambda _: None
    ) -> None:
        """Until `stop` is set. `serves(server)` is called each time the node serves. Raises what keeps it from that for
        good.
        """
        while True:
            taken = await self._stand_by(stop)
            if taken is None:
                return
            office, asked_ms = taken
            term = make_term()
            try:
                await term.begin(office, asked_ms, self._lease_ms)
            except StoreAway as error:
                _logger.warning("the office cannot be taken", reason=str(error), what="this node stands by again")
                continue
            except Exception:  # whatever it is ends this node: another one shall not wait for the end of the lease
                await self._give_back(office.epoch)
                raise
            serves(term.server)
            await _first_of(stop, term.lost)
            is_whole = await term.end()
            if stop.is_set():
                if is_whole:
                    await self._give_back(office.epoch)
                return

    async def _stand_by(self, stop: asyncio.Event) -> tuple[Office, int] | None:
        """Wait until the office is this node's: it, and the monotonic time at which it was asked for; None: `stop` is
        set. Raises StoreRefused.
        """
        told: object = None
        while not stop.is_set():
            asked_ms = self._clock.mono_ms()
            try:
                office = await self._store.acquire(self._holder, self._address, self._lease_ms)
            except StoreAway as error:
                if told != "away":
                    told = "away"
                    _logger.warning("the database is away", reason=str(error), what="it is asked again and again")
            else:
                if office.holder == self._holder:
                    return office, asked_ms
                if told != office.epoch:
                    told = office.epoch
                    in_office = office.address or office.holder
                    _logger.info("standing by", in_office=in_office, epoch=office.epoch)
            await self._pause(stop)
        return None

    async def _pause(self, stop: asyncio.Event) -> None:
        over = asyncio.Event()
        timer = self._clock.call_at(self._clock.mono_ms() + LOOK_MS, over.set)
        await _first_of(stop, over)
        timer.cancel()

    async def _give_back(self, epoch: int) -> None:
        """Let another node take the office at once. What cannot be told now, the end of the lease tells."""
        try:
            await self._store.release(self._holder, epoch)
        except (StoreAway, StoreRefused) as error:
            _logger.warning("the office could not be given back", reason=str(error),
                            what="another node takes it when the lease is over")  # fmt: skip


async def _first_of(*events: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for one in waits:
        one.cancel()
