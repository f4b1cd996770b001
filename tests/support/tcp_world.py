"""Real time and a real server for the scripts that otherwise run in virtual time: see `muster.simulation.actor`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from muster.protocol.message import Message
from muster.simulation.actor import Actor
from muster.simulation.exchange import OLDER, Exchange


async def _reachable() -> None:
    """A server that is always there."""


class TcpWorld:
    """Connections of actors to one server, each made when its actor first asks, and anew when it is gone.

    `failures`: what scripts have raised; they are over then.
    """

    calm = True

    def __init__(
        self,
        address: tuple[str, int],
        versions: Mapping[str, int] = OLDER,
        up: Callable[[], Awaitable[object]] = _reachable,
    ) -> None:
        """`versions`: see `Exchange`; `up` returns when the server can be reached."""
        self.events = 0
        self.failures: list[Exception] = []
        self._address = address
        self._versions = versions
        self._up = up
        self._loop = asyncio.get_running_loop()
        self._connections: dict[Actor, _Connection] = {}
        self._opening: set[asyncio.Task[None]] = set()

    @property
    def ms(self) -> int:
        """Real time."""
        return int(self._loop.time() * 1000)

    def later(self, ms: int, act: Callable[[Any], object], what: Any = None) -> None:
        """Call `act(what)` in so many ms."""
        self._loop.call_later(ms / 1000, act, what)

    def send(self, actor: Actor, request: Message) -> None:
        """The actor goes on with the answer; with None when the connection is lost before that."""
        connection = self._connections.get(actor)
        if connection is not None:
            connection.ask(request)
        else:
            task = self._loop.create_task(self._send_first(actor, request))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _send_first(self, actor: Actor, request: Message) -> None:
        turn = actor.turn
        try:
            await self._up()
            await self.connect(actor)
        except OSError:
            actor.take(turn, None)
        else:
            self._connections[actor].ask(request)

    async def connect(self, actor: Actor) -> None:
        """Open its connection. Raises OSError."""
        await self._loop.create_connection(lambda: _Connection(self, actor), *self._address)

    def opened(self, connection: _Connection) -> None:
        """It may be asked over."""
        self._connections[connection.actor] = connection

    def lost(self, connection: _Connection) -> None:
        """It is no more."""
        self._connections.pop(connection.actor, None)

    def new_connection(self, actor: Actor) -> Exchange:
        """The bytes of one connection."""
        return Exchange(actor.name, self._versions)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for it. Raises what a script has raised meanwhile."""
        while not condition():
            passed: asyncio.Future[None] = self._loop.create_future()
            self.later(5, passed.set_result)
            await passed
            for failure in self.failures:
                raise failure

    def close(self) -> None:
        """Nobody goes on; all connections are dropped."""
        for task in self._opening:
            task.cancel()
        for connection in list(self._connections.values()):
            connection.actor.kill()
            connection.drop()


class _Connection(asyncio.Protocol):
    def __init__(self, world: TcpWorld, actor: Actor) -> None:
        self.actor = actor
        self._world = world
        self._exchange = world.new_connection(actor)
        self._turn = 0
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._world.opened(self)

    def ask(self, request: Message) -> None:
        self._turn = self.actor.turn
        self._transport.write(self._exchange.ask(request))

    def drop(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            for _, response in self._exchange.received(data):
                self.actor.take(self._turn, response)
        except Exception as error:  # noqa: BLE001 - whatever a script raises, its owner is to know
            self._world.failures.append(error)
            self.actor.kill()

    def connection_lost(self, _: Exception | None) -> None:
        self._world.lost(self)
        if self._exchange.asked is not None:
            self._world.later(0, lambda _: self.actor.take(self._turn, None))
