"""Connections without sockets: the two ends are transports of asyncio. Bytes are on their way for a moment, and arrive
in order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

APART_S: Final = 1e-6
"""Between two pieces of one direction."""
Address = tuple[str, int]


class Loop(Protocol):
    """What a wire needs of its loop."""

    def time(self) -> float:
        """Virtual seconds."""

    def latency_s(self) -> float:
        """How long some bytes are on their way."""

    def call_soon(self, callback: Any, *args: Any) -> Any:
        """In the next turn."""

    def call_exactly_at(self, when: float, callback: Any, *args: Any) -> Any:
        """Then, in the order of the times."""


class End(asyncio.Transport):
    """One end."""

    def __init__(self, loop: Loop, own: Address, peer: Address) -> None:
        super().__init__({"sockname": own, "peername": peer})
        self.other: End
        self._loop = loop
        self._protocol: Any = None
        self._arrives_s = 0.0
        self._came: deque[Callable[[], object]] = deque()
        """What has arrived and was not taken yet."""
        self._is_reading = True
        self._is_closing = False

    def opened(self, protocol: Any) -> None:
        """The protocol of this end is told."""
        self._protocol = protocol
        protocol.connection_made(self)
        self._take()

    # ---- sending

    def write(self, data: Any) -> None:
        """See `asyncio.Transport`."""
        if not self._is_closing and len(data):
            piece = bytes(data)
            self._send(lambda: self.other._protocol.data_received(piece))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """See `asyncio.Transport`."""
        self.write(b"".join(list_of_data))

    def _send(self, arrival: Callable[[], object]) -> None:
        loop = self._loop
        self._arrives_s = max(self._arrives_s + APART_S, loop.time() + loop.latency_s())
        loop.call_exactly_at(self._arrives_s, self.other._arrived, arrival)

    def can_write_eof(self) -> bool:
        """It cannot."""
        return False

    def get_write_buffer_size(self) -> int:
        """All is on its way at once."""
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """See `get_write_buffer_size`."""

    # ---- receiving

    def _arrived(self, arrival: Callable[[], object]) -> None:
        self._came.append(arrival)
        self._take()

    def _take(self) -> None:
        while self._came and self._is_reading and not self._is_closing and self._protocol is not None:
            self._came.popleft()()

    def is_reading(self) -> bool:
        """See `asyncio.Transport`."""
        return self._is_reading and not self._is_closing

    def pause_reading(self) -> None:
        """What arrives waits."""
        self._is_reading = False

    def resume_reading(self) -> None:
        """See `asyncio.Transport`."""
        if not self._is_reading:
            self._is_reading = True
            self._loop.call_soon(self._take)

    # ---- ending

    def is_closing(self) -> bool:
        """See `asyncio.Transport`."""
        return self._is_closing

    def close(self) -> None:
        """The other end reads what is on its way, and then the end."""
        self._end(lambda: self.other._ended())

    def abort(self) -> None:
        """The other end learns that it was reset."""
        self._end(lambda: self.other._lost(ConnectionResetError("the connection was reset")))

    def _end(self, arrival: Callable[[], object]) -> None:
        if not self._is_closing:
            self._send(arrival)
            self._lost(None)

    def _ended(self) -> None:
        if not self._protocol.eof_received():
            self.close()

    def _lost(self, error: Exception | None) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._came.clear()
            if self._protocol is not None:
                self._loop.call_soon(self._protocol.connection_lost, error)

    def get_protocol(self) -> Any:
        """See `asyncio.Transport`."""
        return self._protocol

    def set_protocol(self, protocol: Any) -> None:
        """See `asyncio.Transport`."""
        self._protocol = protocol


def connected(loop: Loop, client: Address, server: Address) -> tuple[End, End]:
    """The client's end and the server's."""
    near, far = End(loop, client, server), End(loop, server, client)
    near.other, far.other = far, near
    return near, far
