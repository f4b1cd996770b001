"""One node in virtual time, and connections of clients to it. Nothing is left to chance: two runs do the same work."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from random import Random
from typing import Any, Final

from muster.coordinator.api.observer import RequestObserver
from muster.coordinator.api.registry import SERVED, handler
from muster.coordinator.config import Config
from muster.coordinator.log import MemoryStorage
from muster.coordinator.server import Server
from muster.coordinator.server.machine import Machine as ServerMachine
from muster.postgres.membership import Membership
from muster.protocol.api import Api, api, api_named
from muster.protocol.frames import decode_response_header, request_frame
from muster.protocol.message import Message
from muster.simulation.cluster.node import Node
from muster.simulation.cluster.tables import Tables
from muster.simulation.process import Process
from muster.virtual.faulty_storage import FaultyStorage
from muster.virtual.machine import PORT, VirtualProcess
from muster.virtual.wires import Wire
from muster.virtual.world import World

NEVER: Final = 1 << 60
START_MS: Final = 60_000
MAX_WAIT_MS: Final = 600_000
LEASE_MS: Final = 3_600_000
"""Long enough that no lease is extended while requests are counted."""


class Machine(World):
    """A world whose random numbers are all 0."""

    def __init__(self) -> None:
        super().__init__(Random(1))
        self.random = lambda: 0.0

    def started(self) -> None:
        """Note that the node listens."""

    def start_failed(self, error: BaseException) -> None:
        raise error

    def ended(self, *, was_clean: bool) -> None:
        """Note that the node has ended."""

    def fault(self, what: str, cause: BaseException | None = None) -> None:
        raise AssertionError(what) from cause


class Link:
    """One connection of a client. `answers`: the decoded answers, in their order."""

    def __init__(self, process: VirtualProcess, port: int = PORT) -> None:
        self.answers: list[Any] = []
        self.is_closed = False
        self._world, self._received, self._number = process.world, b"", 0
        self._asked: deque[tuple[Api, int]] = deque()
        self.wire = Wire(process, self, 0, port)

    def send(self, request: Message, version: int | None = None) -> None:
        """Send a request, in the newest version that is served, or in `version`."""
        api = api_named(type(request).__name__.removesuffix("Request"))
        version = SERVED[api.key].max_version if version is None else version
        self._number += 1
        frame = request_frame(api, version, self._number, request, "worst")
        self._asked.append((api, version))
        self.wire.send(frame)

    def ask(self, request: Message, version: int | None = None) -> Any:
        """Return the answer, or None when the connection was closed instead."""
        self.send(request, version)
        self._world.run(lambda: not self._asked or self.is_closed, MAX_WAIT_MS)
        assert self.is_closed or not self._asked, f"no answer to {type(request).__name__} {version}"
        return None if self.is_closed else self.answers[-1]

    def received(self, wire: Wire, data: bytes) -> None:
        """Receive bytes of the node."""
        self._received += data
        while len(self._received) >= 4:
            end = 4 + int.from_bytes(self._received[:4], "big")
            if len(self._received) < end:
                return
            frame, self._received = self._received[4:end], self._received[end:]
            api, version = self._asked.popleft()
            _, body = decode_response_header(api, version, frame, 0, len(frame))
            self.answers.append(api.decode_response(version, frame, body, len(frame)))

    def hung_up(self, wire: Wire) -> None:
        """The node has closed the connection."""
        self.is_closed = True


class VirtualNode:
    """A node that has started, with all handlers and messages imported."""

    def __init__(
        self, properties: Mapping[str, str], *, observer: RequestObserver | None = None, listen: str | None = None
    ) -> None:
        """`listen` None: the properties have the listeners."""
        self.world = Machine()
        storage = FaultyStorage(1, NEVER, on=MemoryStorage())
        self.process = Process(self.world, self.world, storage, properties, listen=listen, observer=observer)
        _import_all()
        self.process.begin()
        assert self.world.run(lambda: self.process.up, START_MS)

    def connect(self, port: int = PORT) -> Link:
        """Return a new connection."""
        return Link(self.process, port)

    def rest(self, for_ms: int) -> None:
        """Let this time pass, for the work that the node does after its answers."""
        self.world.run(lambda: False, for_ms)

    def close(self) -> None:
        """End the node, as SIGKILL would."""
        self.process.kill()
        self.process.loop.close()


class ClusterNode:
    """The only node of a cluster, with the methods of `VirtualNode`. Its database is in memory, and never fails."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.world = Machine()
        self.process = Node(
            self.world, Tables(self.world), "node", LEASE_MS, _open_server, self.world.fault,
            [f"{name}={value}" for name, value in properties.items()],
        )  # fmt: skip
        _import_all()
        assert self.world.run(lambda: PORT in self.process.listeners, START_MS)

    def connect(self, port: int = PORT) -> Link:
        """Return a new connection."""
        return Link(self.process, port)

    def rest(self, for_ms: int) -> None:
        """Let this time pass: for what the node does after its answers."""
        self.world.run(lambda: False, for_ms)

    def close(self) -> None:
        """End the node, as a kill would."""
        self.process.close()


def _open_server(_: Node, config: Config, machine: ServerMachine, membership: Membership) -> Server:
    return Server(config, machine=machine, membership=membership)


def _import_all() -> None:
    """Import all handlers and messages: no import is to be measured."""
    for key in SERVED:
        handler(key)
        api(key).load()


def errors_in(answer: Any) -> set[int]:
    """Return all error codes of an answer except 0."""
    if isinstance(answer, list | tuple):
        return set().union(*map(errors_in, answer)) if answer else set()
    if not hasattr(answer, "__slots__"):
        return set()
    codes = {getattr(answer, "error_code", 0) or 0}
    for name in answer.__slots__:
        codes |= errors_in(getattr(answer, name))
    return codes - {0}
