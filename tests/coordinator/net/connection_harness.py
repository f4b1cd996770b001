"""A connection between a short transport and requests that echo."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from muster.coordinator.api.context import Channel
from muster.coordinator.api.layers import CloseConnection
from muster.coordinator.net.connection import Connection, Shared
from muster.coordinator.net.connection_core import (
    OUTPUT_HIGH_BYTES,
)
from muster.coordinator.net.limits import Limits
from muster.coordinator.net.settings import NetSettings
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.topics.cluster_image import Endpoint


class Transport:
    """Keeps the written bytes. A slow transport asks the protocol to pause."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.reading = True
        self.closed = ""
        self.high = 0
        self.slow: Connection | None = None
        self.unsent = 0

    def set_write_buffer_limits(self, high: int) -> None:
        self.high = high

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.writes.append(bytes(data))
        if self.slow is not None and len(data) > self.high:
            self.unsent = len(data)
            self.slow.pause_writing()

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def get_extra_info(self, name: str) -> None:
        """Return None: there is no socket."""

    def writelines(self, parts: Iterable[bytes]) -> None:
        self.write(b"".join(parts))

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def close(self) -> None:
        self.closed = self.closed or "closed"

    def abort(self) -> None:
        self.closed = "aborted"


class Echo:
    """Answers each request with its content in a frame. It answers requests that begin with "park" later, returns the
    answer for "now", and answers all others at once.
    """

    def __init__(self, channel: Channel, connection: Connection) -> None:
        self.connection = connection
        self.seen: list[bytes] = []
        self.parked: bytes | None = None
        self.current: object | None = None
        self.is_reading = False
        self.ended = 0

    def handle(self, data: bytes, start: int, end: int) -> Any:
        request = data[start:end]
        self.seen.append(request)
        self.current = request
        if request.startswith(b"bad"):
            raise CloseConnection("no request", api="Echo")
        if request.startswith(b"now"):
            self.current = None
            return [frame(request)[:4], memoryview(request)] if b"parts" in request else frame(request)
        if request.startswith(b"read"):
            self.is_reading = True
        if request.startswith((b"park", b"read")):
            self.parked = request
        elif request.startswith(b"silent"):
            self.answer(None)
        elif request.startswith(b"parts"):
            self.answer([frame(request)[:4], memoryview(request)])
        elif request.startswith(b"huge"):
            self.answer(b"x" * (OUTPUT_HIGH_BYTES + 1))
        else:
            self.answer(frame(request))
        return None

    def answer(self, answer: Any) -> None:
        self.current = None
        self.connection.answer(answer)

    def release(self) -> None:
        assert self.parked is not None
        request, self.parked = self.parked, None
        self.answer(frame(request))

    def closed(self) -> None:
        self.current = None
        self.ended += 1


def frame(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


class ConnectionHarness:
    """A connection and both of its sides."""

    def __init__(self, max_bytes: int = 1_000_000, **changes: Any) -> None:
        self.clock = ManualClock(0)
        self.limits = Limits(replace(NetSettings(), **changes), self.clock)
        self.max_bytes = max_bytes
        self.connection, self.transport, self.echo = self.connect()

    def connect(self, host: str = "10.0.0.9") -> tuple[Connection, Transport, Echo]:
        made: list[Echo] = []

        def open_requests(channel: Channel, connection: Connection) -> Echo:
            made.append(Echo(channel, connection))
            return made[0]

        channel = Channel("PLAINTEXT", Endpoint("h", 1), f"{host}:5", "/" + host)
        shared = Shared(self.limits, self.max_bytes, lambda _: channel, open_requests, lambda _: None)
        connection = Connection(shared)
        transport: Any = Transport()
        connection.connection_made(transport)
        return connection, transport, made[0] if made else None

    def receive(self, *contents: bytes) -> None:
        self.connection.data_received(b"".join(map(frame, contents)))

    def reads(self) -> bool:
        """Whether the connection reads from its socket."""
        return self.transport.reading

    def closed(self) -> str:
        """How the transport was closed; "" when it was not."""
        return self.transport.closed

    @property
    def sent(self) -> bytes:
        return b"".join(self.transport.writes)


class TickingClock:
    """A clock on which a millisecond passes with each request."""

    def __init__(self, mono_ms: Callable[[], int]) -> None:
        self.mono_ms = mono_ms
        self._soon: list[Callable[[], object]] = []

    @property
    def machine(self) -> TickingClock:
        return self

    def call_soon(self, callback: Callable[[], object]) -> None:
        self._soon.append(callback)

    def begin_iteration(self) -> None:
        soon, self._soon = self._soon, []
        for callback in soon:
            callback()


def reads(transport: Transport) -> bool:
    return transport.reading


async def turn() -> None:
    """Run the callbacks of one iteration of the loop."""
    done = asyncio.Event()
    asyncio.get_running_loop().call_soon(done.set)
    await done.wait()
