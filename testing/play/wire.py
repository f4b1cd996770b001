"""Connections without sockets: the two ends are transports of asyncio. Bytes need a moment to arrive, and arrive in
order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

APART_S: Final = 1e-6
"""The least time between two pieces of one direction."""
Address = tuple[str, int]


class Loop(Protocol):
    """The part of the loop that a wire uses."""

    def time(self) -> float:
        """Virtual seconds."""

    def latency_s(self) -> float:
        """How long bytes need to arrive."""

    def call_soon(self, callback: Any, *args: Any) -> Any:
        """Call back in the next iteration."""

    def call_exactly_at(self, when: float, callback: Any, *args: Any) -> Any:
        """Call back at that time, in the order of the times."""


class End(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, loop: Loop, own: Address, peer: Address) -> None:
        super().__init__({"sockname": own, "peername": peer})
        self.other: End
        self._loop = loop
        self._protocol: Any = None
        self._arrives_s = 0.0
        self._came: deque[Callable[[], object]] = deque()
        """Data that has arrived and was not read yet."""
        self._is_reading = True
        self._is_closing = False

    def opened(self, protocol: Any) -> None:
        """Inform the protocol of this end that the connection is open."""
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
        """Always False."""
        return False

    def get_write_buffer_size(self) -> int:
        """Always 0, because all data is sent at once."""
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
        """Keep arriving data until reading resumes."""
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
        """Close this end: the other end reads the data under way, and then the end of the stream."""
        self._end(lambda: self.other._ended())

    def abort(self) -> None:
        """Reset the connection for the other end."""
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
