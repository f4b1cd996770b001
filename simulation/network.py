"""The clients' ends of their connections to a process: a request out as bytes, its answer in, and what a client does
when none comes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from muster.protocol.message import Message
from muster.protocol.messages.join_group import JoinGroupRequest
from muster.protocol.messages.sync_group import SyncGroupRequest
from muster.simulation.actor import Actor
from muster.simulation.exchange import Broken, Exchange
from muster.simulation.process import Process
from muster.simulation.wires import Wire
from muster.simulation.world import World

PATIENCE_MS: Final = 30_000
"""For what need not wait for other members."""
AGAIN_MS: Final = 200


class Watcher(Protocol):
    """What sees all requests and answers."""

    def answered(self, actor: Actor, request: Message, response: Any) -> None:
        """An answer has come."""

    def unanswered(self, request: Message) -> None:
        """None came, though the connection and the process were there all the time."""

    def fault(self, what: str, cause: BaseException | None = None) -> None:
        """Something that must not be."""


class Network:
    """All connections of all actors to the process that is there now."""

    def __init__(
        self, world: World, process: Callable[[], Process | None], watcher: Watcher, *, patience_ms: int
    ) -> None:
        """`patience_ms`: how long a client waits for what may have to wait for other members."""
        self.world = world
        self.process = process
        self.watcher = watcher
        self.patience_ms = patience_ms
        self.connections: dict[Actor, Connection] = {}

    def send(self, actor: Actor, request: Message) -> None:
        """The actor goes on with the answer, or with None when it will not come."""
        connection = self.connections.get(actor)
        if connection is None:
            connection = self.connections[actor] = Connection(self, actor)
        connection.ask(request)

    def lose_one(self) -> None:
        """Some connection is dropped."""
        if self.connections:
            list(self.connections.values())[int(self.world.random() * len(self.connections))].lose()


class Connection:
    """One actor's connection, made anew when it is gone."""

    def __init__(self, network: Network, actor: Actor) -> None:
        self.network = network
        self.world = network.world
        self.actor = actor
        self.wire: Wire | None = None
        self._exchange = Exchange(actor.name)
        self._turn = 0
        """The actor's, when it asked what waits for its answer."""

    def ask(self, request: Message) -> None:
        """Send it."""
        world, actor = self.world, self.actor
        if self._exchange.asked is not None:
            self.hang_up()  # it does not wait for the answer any more: a client of another life
        self._turn = actor.turn
        if self.wire is None:
            process = self.network.process()
            self.wire = None if process is None else process.connect(self, max(actor.latency_ms, 1))
            self._exchange = Exchange(actor.name)
        if self.wire is None:
            world.later(1 + int(world.random() * AGAIN_MS), self._lost, actor.turn)
            return
        self.wire.send(self._exchange.ask(request))
        waits = isinstance(request, JoinGroupRequest | SyncGroupRequest)
        patience_ms = (self.network.patience_ms if waits else PATIENCE_MS) + 10 * actor.latency_ms
        world.later(patience_ms, self._give_up, (request, self.wire, actor.turn))

    def hang_up(self) -> None:
        """The client closes its connection."""
        wire, self.wire, self._exchange.asked = self.wire, None, None
        if wire is not None:
            wire.cut()

    def lose(self) -> None:
        """The network drops the connection: the actor learns it, if it waits for something."""
        waits = self._exchange.asked is not None
        self.hang_up()
        if waits:
            self._lost(self._turn)

    def _lost(self, turn: int) -> None:
        self.actor.take(turn, None)

    def _give_up(self, waited: tuple[Message, Wire, int]) -> None:
        request, wire, turn = waited
        if self._exchange.asked is request:
            if wire.open and wire.process.alive and self.actor.script is not None:
                self.network.watcher.unanswered(request)
            self.hang_up()
            self._lost(turn)

    # ---- the wire's calls

    def received(self, wire: Wire, data: bytes) -> None:
        """Bytes of the server."""
        if wire is not self.wire:
            return
        turn = self._turn
        try:
            for request, response in self._exchange.received(data):
                self.network.watcher.answered(self.actor, request, response)
                self.actor.take(turn, response)
        except Broken as error:
            self.network.watcher.fault(f"{self.actor.name}: {error}")

    def hung_up(self, wire: Wire) -> None:
        """The server has closed the connection, or is no more."""
        if wire is self.wire:
            self.wire = None
            if self._exchange.asked is not None:
                self._exchange.asked = None
                self.world.later(int(self.world.random() * AGAIN_MS), self._lost, self._turn)
