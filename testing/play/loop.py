"""The event loop of a play. Its time passes only when nothing is left to do now, and then at once, to the next timer.

It has no sockets. A client that connects to the server's address gets one end of a connection, and nothing else can be
reached. Timers
with the same deadline run in an order that is drawn from the seed.
"""

from __future__ import annotations

import asyncio
import errno
import math
import random
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

APART_S: Final = 1e-6
"""The least time between two pieces of one direction."""
Address = tuple[str, int]


class End(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, loop: PlayLoop, own: Address, peer: Address) -> None:
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


def connected(loop: PlayLoop, client: Address, server: Address) -> tuple[End, End]:
    """The client's end and the server's."""
    near, far = End(loop, client, server), End(loop, server, client)
    near.other, far.other = far, near
    return near, far


BEGAN_S: Final = 1_000.0
"""The loop's time when it begins."""
TOGETHER_S: Final = 1e-7
"""Timers that are less than this apart run in an order that is drawn."""
LATENCY_S: Final = (0.000_1, 0.001)
"""The limits of the time that bytes need to arrive, which is drawn each time."""
FIRST_PORT: Final = 9_092
PEER_PORT: Final = 40_000
"""The first port of the clients."""


class TimeIsUp(AssertionError):
    """The limit of virtual time has passed before the story has ended, or no event is left."""


class Listens(Protocol):
    """What accepts connections."""

    def connect(self, end: End) -> None:
        """The server's end of a new connection."""


class _Selector:
    """The selector of `BaseEventLoop`."""

    def __init__(self, wait: Callable[[float | None], None]) -> None:
        self._wait = wait

    def select(self, timeout: float | None) -> list[Any]:
        """Only the loop itself makes work ready."""
        self._wait(timeout)
        return []

    def close(self) -> None:
        """Do nothing."""


class PlayLoop(asyncio.BaseEventLoop):
    """See the module. `until_s`: the limit of its time; `random`: the source of all random choices."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = random.Random(f"play {seed}")
        self.until_s = math.inf
        self._now_s = BEGAN_S
        self._selector = _Selector(self._wait)
        self._listeners: dict[int, Listens] = {}
        self._peers = PEER_PORT
        self._posted = threading.Event()
        self._working = 0
        """How many calls other threads execute for the loop now."""

    # ---- the time

    def time(self) -> float:
        """The virtual time in seconds."""
        return self._now_s

    def call_at(  # type: ignore[override]  # of what it calls nothing is known here
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """See `asyncio`; the order of timers with the same deadline is drawn."""
        return super().call_at(when + self.random.random() * TOGETHER_S, callback, *args, context=context)

    def call_exactly_at(self, when: float, callback: Callable[..., object], *args: Any) -> asyncio.TimerHandle:
        """The same, in the order of the deadlines: for calls that must not overtake others."""
        return super().call_at(when, callback, *args)

    def _wait(self, timeout: float | None) -> None:
        """Let time pass, since nothing is left to do now (if `timeout` is not 0)."""
        if timeout == 0:
            return
        if self._working:
            # time is frozen while a thread works for the play: the duration of that work must not matter
            self._posted.wait()
            self._posted.clear()
            return
        scheduled: list[Any] = self._scheduled  # type: ignore[attr-defined]  # BaseEventLoop's own, as `_ready` is
        if not scheduled:
            self.until_s = math.inf
            raise TimeIsUp("nothing will happen any more: what is waited for cannot come")
        if scheduled[0].when() > self.until_s:
            passed_s, self.until_s = self.until_s - BEGAN_S, math.inf
            raise TimeIsUp(f"it has not ended after {passed_s:g} s of virtual time")
        self._now_s = max(self._now_s, scheduled[0].when())

    def _process_events(self, _: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        self._posted.set()

    def run_in_executor(  # type: ignore[override]  # as above
        self, executor: Any, func: Any, *args: Any
    ) -> asyncio.Future[Any]:
        """See `asyncio`; time is frozen meanwhile."""
        self._working += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._worked)
        return future

    def _worked(self, _: object) -> None:
        self._working -= 1

    async def shutdown_default_executor(self, *limit: Any) -> None:
        """See `asyncio`: another thread waits for the others, and time is frozen meanwhile."""
        self._working += 1
        try:
            await super().shutdown_default_executor(*limit)
        finally:
            self._working -= 1

    # ---- the network

    def latency_s(self) -> float:
        """How long bytes need to arrive."""
        return self.random.uniform(*LATENCY_S)

    def listen(self, listener: Listens, port: int) -> int:
        """Accept connections to this port, or to the next free one if it is 0. Returns the port. Raises OSError."""
        if not port:
            port = next(one for one in range(FIRST_PORT, PEER_PORT) if one not in self._listeners)
        if port in self._listeners:
            raise OSError(errno.EADDRINUSE, f"port {port} is in use")
        self._listeners[port] = listener
        return port

    def listen_no_more(self, port: int) -> None:
        """Accept no more connections to this port; has no effect if nobody listens there."""
        self._listeners.pop(port, None)

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> list[Any]:
        """Resolve a name: every name exists here."""
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]

    async def create_connection(
        self, protocol_factory: Callable[[], Any], host: Any = None, port: Any = None, *, ssl: Any = None, **_: Any
    ) -> tuple[End, Any]:
        """See `asyncio`. Raises ConnectionRefusedError where the server of the play does not listen."""
        if ssl:
            raise NotImplementedError("there is no TLS in a play: connect with security_protocol PLAINTEXT")
        await asyncio.sleep(self.latency_s())
        listener = self._listeners.get(port)
        if listener is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nothing in this play listens at {host}:{port}")
        self._peers += 1
        protocol = protocol_factory()
        near, far = connected(self, ("127.0.0.1", self._peers), (str(host), port))
        near.opened(protocol)
        listener.connect(far)
        return near, protocol
