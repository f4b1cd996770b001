"""Connections without sockets.

Bytes arrive in pieces and in order, independently in each direction. A cut can be anywhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from muster.virtual.machine import PORT, VirtualProcess

MAX_READ: Final = 256 * 1024
"""The most bytes that a server reads from a socket in one iteration of its loop, as asyncio does."""


class Wire:
    """A connection. For the server it is the transport; the client calls `send`, `finish` and `cut`.

    `slow_ms`: the longest time that a piece needs to arrive.
    """

    peer = ("127.0.0.1", 40_000)
    """The address of the client."""

    def __init__(self, process: VirtualProcess, client: Any, slow_ms: int, port: int = PORT) -> None:
        """`client`: its `received(wire, data)` and `hung_up(wire)` are called. `port`: the port of the listener."""
        self.process = process
        self.world = process.world
        self.client = client
        self.slow_ms = slow_ms
        self.port = port
        self.open = True
        self._high = 64 * 1024
        self._to_server: deque[bytes] = deque()
        self._arrives_us = 0
        self._is_finished = False
        """Whether the client has sent everything, and the server has not yet read the end."""
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._leaves_us = 0
        self._paused = False
        self._reading = True
        self._closing = False
        self._protocol: Any = None
        process.wires.append(self)
        process.does(self._connect)

    def delay_us(self) -> int:
        """The time that a piece needs to arrive."""
        return int(self.world.random() * self.slow_ms) * 1_000

    # ---- the client's side

    def send(self, data: bytes) -> None:
        """Send bytes in pieces, with pauses. The pieces arrive in order."""
        world = self.world
        at = 0
        while at < len(data):
            size = len(data) if world.random() < 0.8 else 1 + int(world.random() * len(data))
            self._later_to_server(self._arrive, data[at : at + size])
            at += size

    def _later_to_server(self, act: Callable[[Any], object], what: Any) -> None:
        self._arrives_us = max(self._arrives_us, self.world.us + self.delay_us())
        self.world.at_us(self._arrives_us, act, what)

    def _arrive(self, piece: bytes) -> None:
        self._to_server.extend(piece[at : at + MAX_READ] for at in range(0, len(piece), MAX_READ))
        self.process.does(self.read)

    def finish(self, *, cut: bool = False) -> None:
        """End the connection after all sent data: in good order, or with `cut`."""
        self._later_to_server(self._finish, cut)

    def _finish(self, cut: bool) -> None:
        if cut:
            self.cut()
        else:
            self._is_finished = True
            self.process.does(self.read)

    def cut(self) -> None:
        """Cut the connection. All data under way is lost."""
        if self.open:
            self.open = False
            self.process.does(self._lost, ConnectionResetError())

    # ---- the server's side: it does what asyncio would do

    def _connect(self) -> None:
        listener = self.process.listeners.get(self.port)
        if listener is None:
            self._hang_up()
        else:
            listener.accept(self)

    def opened(self, protocol: Any) -> None:
        """The server has accepted the connection."""
        self._protocol = protocol
        protocol.connection_made(self)

    @property
    def _can_read(self) -> bool:
        return self._reading and self.open and not self._closing and self._protocol is not None

    def read(self) -> None:
        """Give the server the data that has arrived."""
        while self._to_server and self._can_read:
            piece = self._to_server.popleft()
            self._protocol.data_received(piece)
            if len(piece) == MAX_READ:
                self.process.does(self.read)  # the next iteration reads the rest
                return
        if self._is_finished and self._can_read:
            self._is_finished = False
            if not self._protocol.eof_received():
                self.close()

    def _lost(self, error: Exception | None = None) -> None:
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(error)

    def _hang_up(self) -> None:
        if self.open:
            self.open = False
            self.world.later(0, lambda _: self.client.hung_up(self), None)

    def get_extra_info(self, name: str) -> Any:
        if name == "socket":
            return None
        return self.peer if name == "peername" else ("127.0.0.1", self.port)

    def set_write_buffer_limits(self, high: int) -> None:
        self._high = high

    def get_write_buffer_size(self) -> int:
        return self._unsent_bytes

    def is_closing(self) -> bool:
        return self._closing or not self.open

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or not self.open or not self.process.alive:
            return
        self.process.check()
        self._unsent.append(bytes(data))
        self._unsent_bytes += len(data)
        world = self.world
        self._leaves_us = max(self._leaves_us, world.us + self.delay_us())
        world.at_us(self._leaves_us, self._deliver)
        if self._unsent_bytes > self._high and not self._paused:
            self._paused = True
            self._protocol.pause_writing()

    def writelines(self, parts: Iterable[bytes | memoryview]) -> None:
        self.write(b"".join(parts))

    def _deliver(self, _: None) -> None:
        data, self._unsent, self._unsent_bytes = b"".join(self._unsent), [], 0
        if not self.open or not (self.process.alive or data):
            return
        if data:
            self.client.received(self, data)
        if self._paused:
            self._paused = False
            self.process.does(self._writable)
        if self._closing:
            self._end()

    def _writable(self) -> None:
        if self._protocol is not None:
            self._protocol.resume_writing()

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self.process.loop.call_soon(self.read)

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            if not self._unsent:
                self._end()

    def abort(self) -> None:
        self._closing = True
        self._unsent, self._unsent_bytes = [], 0
        self._end()

    def _end(self) -> None:
        self._hang_up()
        self.process.does(self._lost)

    def process_gone(self) -> None:
        """The server's process has ended, so the system closes the connection."""
        self._protocol = None
        self._unsent, self._unsent_bytes = [], 0
        self._hang_up()
