"""Real time and a real server for the scripts that otherwise run in virtual time: see `muster.simulation.actor`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from muster.protocol.message import Message
from muster.simulation.actor import Actor
from muster.simulation.network import OLDER
from tests.support.muster import Client


async def _at_once() -> None:
    """Return at once: the server always runs."""


class TcpWorld:
    """One connection to a server for each actor, opened again after a loss. `failures` has the errors of scripts that
    failed.
    """

    def __init__(
        self,
        address: tuple[str, int],
        versions: Mapping[str, int] = OLDER,
        up: Callable[[], Awaitable[object]] = _at_once,
    ) -> None:
        """`versions` has the requests that are sent in an older version; `up` returns when the server runs."""
        self.events = 0
        self.failures: list[Exception] = []
        self._address, self._versions, self._up = address, versions, up
        self._loop = asyncio.get_running_loop()
        self._clients: dict[Actor, Client] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def ms(self) -> int:
        """The real time."""
        return int(self._loop.time() * 1000)

    def later(self, ms: int, act: Callable[[Any], object], what: Any = None) -> None:
        """Call `act(what)` after the given number of ms."""
        self._loop.call_later(ms / 1000, act, what)

    def send(self, actor: Actor, request: Message) -> None:
        """Send the request. The actor gets the answer, or None when the connection is lost first."""
        task = self._loop.create_task(self._exchange(actor, actor.turn, request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _exchange(self, actor: Actor, turn: int, request: Message) -> None:
        response: Any = None
        try:
            if actor not in self._clients:
                await self._up()
                await self.connect(actor)
            version = self._versions.get(type(request).__name__.removesuffix("Request"))
            response = await self._clients[actor].ask(request, version)
        except (OSError, EOFError):
            client = self._clients.pop(actor, None)
            if client is not None:
                client.writer.transport.abort()
        try:
            actor.take(turn, response)
        except Exception as error:  # noqa: BLE001  # whatever a script raises, its owner is to know
            self.failures.append(error)

    async def connect(self, actor: Actor) -> None:
        """Open the actor's connection. Raises OSError."""
        streams = await asyncio.open_connection(*self._address, limit=1 << 24)
        self._clients[actor] = Client(*streams, actor.name)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for the result. Raises the error of a script that fails meanwhile."""
        while not condition():
            passed: asyncio.Future[None] = self._loop.create_future()
            self.later(5, passed.set_result)
            await passed
            for failure in self.failures:
                raise failure

    def close(self) -> None:
        """Stop all scripts, and close all connections."""
        for task in self._tasks:
            task.cancel()
        for actor, client in self._clients.items():
            actor.kill()
            client.writer.transport.abort()
