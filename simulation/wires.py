"""Connections without sockets. Bytes arrive in pieces and in order, each direction by itself; a cut can be anywhere."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, Final

from muster.simulation.faulty_storage import Died
from muster.simulation.process import PORT, Process

MOST_READ: Final = 256 * 1024
"""Bytes that a server reads from a socket in one iteration of its loop, as asyncio and uvloop do."""


class Wire:
    """One connection. The server has it as its transport; the client calls `send` and `cut`.

    `slow_ms`: the longest time that a piece needs to arrive.
    """

    def __init__(self, process: Process, client: Any, slow_ms: int, port: int = PORT) -> None:
        """`client`: its `received(data)` and `hung_up()` are called; `port`: of the listener."""
        self.process = process
        self.world = process.world
        self.client = client
        self.slow_ms = slow_ms
        self.port = port
        self.open = True
        self._high = 64 * 1024
        self._to_server: deque[bytes] = deque()
        self._arrives_ms = 0
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._leaves_ms = 0
        self._paused = False
        self._reading = True
        self._closing = False
        self._protocol: Any = None
        process.wires.append(self)
        process.does(self._connect)

    # ---- the client's side

    def send(self, data: bytes) -> None:
        """Send bytes in pieces, with pauses; they arrive in order."""
        world = self.world
        at = 0
        while at < len(data):
            size = len(data) if world.random() < 0.8 else 1 + int(world.random() * len(data))
            self._later_to_server(data[at : at + size])
            at += size

    def _later_to_server(self, piece: bytes) -> None:
        world = self.world
        self._arrives_ms = max(self._arrives_ms, world.ms + int(world.random() * self.slow_ms))
        world.later(self._arrives_ms - world.ms, self._arrive, piece)

    def _arrive(self, piece: bytes) -> None:
        self._to_server.extend(piece[at : at + MOST_READ] for at in range(0, len(piece), MOST_READ))
        self.process.does(self._read)

    def cut(self) -> None:
        """Cut the connection, with all data under way."""
        if self.open:
            self.open = False
            self.process.does(self._lost, ConnectionResetError())

    # ---- the server's side: what asyncio would do

    def _connect(self) -> None:
        listener = self.process.listeners.get(self.port)
        self._protocol = None if listener is None else listener.connect(self)
        if self._protocol is None:
            self._hang_up()

    def _read(self) -> None:
        while self._to_server and self._reading and self.open and not self._closing and self._protocol is not None:
            piece = self._to_server.popleft()
            self._protocol.data_received(piece)
            if len(piece) == MOST_READ:
                self.process.does(self._read)  # the next iteration reads the rest
                return

    def _lost(self, error: Exception | None = None) -> None:
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(error)

    def _hang_up(self) -> None:
        """The client sees the end."""
        if self.open:
            self.open = False
            self.world.later(0, lambda _: self.client.hung_up(self), None)

    def get_extra_info(self, name: str) -> Any:
        if name == "socket":
            return None
        return ("127.0.0.1", 40_000) if name == "peername" else ("127.0.0.1", self.port)

    def set_write_buffer_limits(self, high: int) -> None:
        self._high = high

    def get_write_buffer_size(self) -> int:
        return self._unsent_bytes

    def is_closing(self) -> bool:
        return self._closing or not self.open

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or not self.open or not self.process.alive:
            return
        if self.process.storage.dead:
            raise Died
        self._unsent.append(bytes(data))
        self._unsent_bytes += len(data)
        world = self.world
        self._leaves_ms = max(self._leaves_ms, world.ms + int(world.random() * self.slow_ms))
        world.later(self._leaves_ms - world.ms, self._deliver, None)
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
        self.process.loop.call_soon(self._read)

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
