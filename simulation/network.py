"""The clients' side of connections: a request is sent as bytes, and its answer arrives, or the client gives up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from muster.protocol import frames
from muster.protocol.api import Api, api_named
from muster.protocol.message import Message
from muster.protocol.messages.join_group import JoinGroupRequest
from muster.protocol.messages.sync_group import SyncGroupRequest
from muster.simulation.actor import Actor
from muster.simulation.process import Owner, Process
from muster.virtual.machine import PORT
from muster.virtual.wires import Wire
from muster.virtual.world import World

OLDER: Final[Mapping[str, int]] = {"OffsetCommit": 9, "OffsetFetch": 9, "Produce": 9, "Fetch": 12}
"""The newest versions of these requests that still name topics by their names."""
PATIENCE_MS: Final = 30_000
"""How long clients wait for the answers of requests that do not wait for other members."""
AGAIN_MS: Final = 200


class Asked(NamedTuple):
    """A request that waits for its answer. `turn` is the turn of its actor when the request was sent."""

    request: Message
    turn: int
    api: Api
    version: int
    correlation: int
    wire: Wire


class Watcher(Owner, Protocol):
    """An observer of all requests and answers."""

    def answered(self, actor: Actor, request: Message, response: Any) -> None:
        """An answer has arrived."""

    def unanswered(self, request: Message) -> None:
        """The client got no answer, though the connection and the process were up all the time."""


class Network:
    """All connections of all actors to the present process."""

    def __init__(
        self,
        world: World,
        process: Callable[[], Process | None],
        watcher: Watcher,
        *,
        patience_ms: int,
        port: Callable[[Message], int] = lambda _: PORT,
    ) -> None:
        """`patience_ms`: how long a client waits if the request may have to wait for other members.

        `port`: gives the port of the broker for a request.
        """
        self.world = world
        self.process = process
        self.watcher = watcher
        self.patience_ms = patience_ms
        self.port = port
        self.connections: dict[Actor, Connection] = {}

    def send(self, actor: Actor, request: Message) -> None:
        """Send a request. The actor continues with the answer, or with None if no answer will arrive."""
        connection = self.connections.get(actor)
        if connection is None:
            connection = self.connections[actor] = Connection(self, actor)
        connection.ask(request)

    def lose_one(self) -> None:
        """Drop one of the connections, chosen at random."""
        if self.connections:
            list(self.connections.values())[int(self.world.random() * len(self.connections))].lose()


class Connection:
    """The connection of one actor. It is opened again after it was closed."""

    def __init__(self, network: Network, actor: Actor) -> None:
        self.network = network
        self.world = network.world
        self.actor = actor
        self.wire: Wire | None = None
        self.asked: Asked | None = None
        self._buffer = b""
        self._correlation = 0

    def ask(self, request: Message) -> None:
        world, actor = self.world, self.actor
        if self.asked is not None:
            self.hang_up()  # the actor has another script, and no longer waits for the last answer
        port = self.network.port(request)
        if self.wire is not None and self.wire.port != port:
            self.hang_up()
        if self.wire is None:
            process = self.network.process()
            if process is None or not process.accepts:
                world.later(1 + int(world.random() * AGAIN_MS), self._lost, actor.turn)
                return
            self.wire = Wire(process, self, max(actor.latency_ms, 1), port)
            self._buffer = b""
        served = api_named(type(request).__name__.removesuffix("Request"))
        version = actor.versions.get(served.name) or OLDER.get(served.name, served.max_version)
        self._correlation += 1
        asked = self.asked = Asked(request, actor.turn, served, version, self._correlation, self.wire)
        self.wire.send(frames.request_frame(served, version, self._correlation, request, actor.name))
        waits = isinstance(request, JoinGroupRequest | SyncGroupRequest)
        patience_ms = (self.network.patience_ms if waits else PATIENCE_MS) + 10 * actor.latency_ms
        world.later(patience_ms, self._give_up, asked)

    def hang_up(self) -> None:
        wire, self.wire, self.asked = self.wire, None, None
        if wire is not None:
            wire.cut()

    def lose(self) -> None:
        """Drop the connection, as a network does. The actor is informed if it waits for an answer."""
        asked = self.asked
        self.hang_up()
        if asked is not None:
            self._lost(asked.turn)

    def _lost(self, turn: int) -> None:
        self.actor.take(turn, None)

    def _give_up(self, asked: Asked) -> None:
        if self.asked is asked:
            if asked.wire.open and asked.wire.process.alive and self.actor.script is not None:
                self.network.watcher.unanswered(asked.request)
            self.hang_up()
            self._lost(asked.turn)

    # ---- the wire's calls

    def received(self, wire: Wire, data: bytes) -> None:
        if wire is not self.wire:
            return
        self._buffer += data
        while len(self._buffer) >= 4:
            end = 4 + int.from_bytes(self._buffer[:4], "big")
            if len(self._buffer) < end:
                break
            frame, self._buffer = self._buffer[4:end], self._buffer[end:]
            self._answered(frame)

    def _answered(self, frame: bytes) -> None:
        watcher, name = self.network.watcher, self.actor.name
        asked, self.asked = self.asked, None
        if asked is None:
            watcher.fault(f"{name} got an answer to nothing: {frame[:20]!r}")
            return
        correlation, body = frames.decode_response_header(asked.api, asked.version, frame, 0, len(frame))
        if correlation != asked.correlation:
            watcher.fault(f"{name} asked {asked.correlation} and got the answer to {correlation}")
        response = asked.api.decode_response(asked.version, frame, body)
        watcher.answered(self.actor, asked.request, response)
        self.actor.take(asked.turn, response)

    def hung_up(self, wire: Wire) -> None:
        """The server has closed the connection, or has ended."""
        if wire is self.wire:
            asked, self.asked, self.wire = self.asked, None, None
            if asked is not None:
                self.world.later(int(self.world.random() * AGAIN_MS), self._lost, asked.turn)
