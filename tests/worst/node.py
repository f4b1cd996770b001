"""A node in virtual time, as the generator has it: everybody may do everything, by access control entries and not as a
super user; all that is asked goes over one connection that has said who it is, and each answer is waited for.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Final

from muster.coordinator.api.registry import SERVED, handler
from muster.coordinator.log import MemoryStorage
from muster.protocol.api import Api, api, api_named
from muster.protocol.frames import decode_response_header, request_frame
from muster.protocol.message import Message
from muster.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from muster.protocol.messages.sasl_handshake import SaslHandshakeRequest
from muster.simulation.process import Process
from muster.virtual.faulty_storage import FaultyStorage
from muster.virtual.machine import PORT
from muster.virtual.wires import Wire
from muster.virtual.world import World
from tests.worst.meter import CuttingClock, Meter

NEVER: Final = 1 << 60
START_MS: Final = 60_000
PATIENCE_MS: Final = 600_000
REST_MS: Final = 100
"""After an answer: for what is written and told behind it."""
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
PROPERTIES: Final = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "3000",
    "group.max.session.timeout.ms": "1800000",
    "listeners": f"SASL_PLAINTEXT://127.0.0.1:{PORT}",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{_PLAIN} required user_alice="pw";',
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "delegation.token.secret.key": "secret",
}


class Machine(World):
    """A world in which nothing is left to chance."""

    def __init__(self) -> None:
        super().__init__(Random(1))
        self.random = lambda: 0.0

    def started(self) -> None:
        """The node listens."""

    def start_failed(self, error: BaseException) -> None:
        raise error

    def ended(self, *, was_clean: bool) -> None:
        """The node is gone."""

    def fault(self, what: str, cause: BaseException | None = None) -> None:
        raise AssertionError(what) from cause


class Link:
    """One connection of a client. `answers`: decoded, in their order."""

    def __init__(self, process: Process) -> None:
        self.answers: list[Any] = []
        self.is_closed = False
        self._world, self._received, self._number = process.world, b"", 0
        self._asked: deque[tuple[Api, int]] = deque()
        self.wire = Wire(process, self, 0)

    def send(self, request: Message, version: int | None = None) -> None:
        """A request; in the newest version that is served unless another one is given."""
        api = api_named(type(request).__name__.removesuffix("Request"))
        version = SERVED[api.key].max_version if version is None else version
        self._number += 1
        frame = request_frame(api, version, self._number, request, "worst")
        self._asked.append((api, version))
        self.wire.send(frame)

    def ask(self, request: Message, version: int | None = None) -> Any:
        """The answer; None when the connection was closed instead."""
        self.send(request, version)
        self._world.run(lambda: not self._asked or self.is_closed, PATIENCE_MS)
        assert self.is_closed or not self._asked, f"no answer to {type(request).__name__} {version}"
        return None if self.is_closed else self.answers[-1]

    def received(self, wire: Wire, data: bytes) -> None:
        """Bytes of the node."""
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


class WorstNode:
    """See the module."""

    def __init__(self, meter: Meter, **properties: str) -> None:
        """`properties`: with underscores for dots."""
        self.meter = meter
        self.world = Machine()
        given = PROPERTIES | {name.replace("_", "."): value for name, value in properties.items()}
        storage = FaultyStorage(1, NEVER, on=MemoryStorage())
        self.process = Process(self.world, self.world, storage, given, listen=None)
        for key in SERVED:  # no import is to be measured
            handler(key)
            api(key).load()
        self.process.begin()
        assert self.world.run(lambda: self.process.up, START_MS)
        slices = self.process.server.slices
        slices._clock = CuttingClock(slices._clock, meter)
        self._link: Link | None = None

    @property
    def link(self) -> Link:
        """The connection, which has said who it is."""
        if self._link is None or self._link.is_closed:
            self._link = self.connect()
        return self._link

    def connect(self, *, logs_in: bool = True) -> Link:
        """Another connection."""
        link = Link(self.process)
        if logs_in:
            assert link.ask(SaslHandshakeRequest("PLAIN")).error_code == 0
            assert link.ask(SaslAuthenticateRequest(b"\0alice\0pw")).error_code == 0
        return link

    def ask(self, request: Message, version: int | None = None) -> Any:
        """The answer to a request over `link`."""
        return self.link.ask(request, version)

    def measure(self, requests: Iterable[tuple[Message, int]], link: Link | None = None) -> int:
        """The longest piece of work of these requests and of all that follows them, in instructions."""
        link = link or self.link
        asked = list(requests)
        self.meter.reset()
        with self.meter.measuring():
            for request, version in asked:
                if not link.is_closed:
                    link.ask(request, version)
            self.world.run(lambda: False, REST_MS)
        return self.meter.worst

    def close(self) -> None:
        """End it, as a kill would."""
        self.process.kill()
        self.process.loop.close()


@contextmanager
def without_collections() -> Iterator[None]:
    """A collection of what the test holds is no work of the node's, and takes long."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
