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
    """The server is always there."""


class TcpWorld:
    """A connection to one server for each actor, made anew when it is gone.

    `failures`: what scripts have raised; they are over then.
    """

    def __init__(
        self,
        address: tuple[str, int],
        versions: Mapping[str, int] = OLDER,
        up: Callable[[], Awaitable[object]] = _at_once,
    ) -> None:
        """`versions`: of requests that are not to be sent in the newest one; `up` returns when the server is there."""
        self.events = 0
        self.failures: list[Exception] = []
        self._address, self._versions, self._up = address, versions, up
        self._loop = asyncio.get_running_loop()
        self._clients: dict[Actor, Client] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def ms(self) -> int:
        """Real time."""
        return int(self._loop.time() * 1000)

    def later(self, ms: int, act: Callable[[Any], object], what: Any = None) -> None:
        """Call `act(what)` in so many ms."""
        self._loop.call_later(ms / 1000, act, what)

    def send(self, actor: Actor, request: Message) -> None:
        """The actor goes on with the answer; with None when the connection is lost before that."""
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
        except Exception as error:  # noqa: BLE001 - whatever a script raises, its owner is to know
            self.failures.append(error)

    async def connect(self, actor: Actor) -> None:
        """Open its connection. Raises OSError."""
        streams = await asyncio.open_connection(*self._address, limit=1 << 24)
        self._clients[actor] = Client(*streams, actor.name)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for it. Raises what a script has raised meanwhile."""
        while not condition():
            passed: asyncio.Future[None] = self._loop.create_future()
            self.later(5, passed.set_result)
            await passed
            for failure in self.failures:
                raise failure

    def close(self) -> None:
        """No script goes on; all connections are dropped."""
        for task in self._tasks:
            task.cancel()
        for actor, client in self._clients.items():
            actor.kill()
            client.writer.transport.abort()
