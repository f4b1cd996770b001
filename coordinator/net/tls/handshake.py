"""The start of a TLS connection: its plain socket until the TLS handshake is complete.

A connection counts, waits and is refused before its handshake, so limits include unfinished handshakes.

A handshake costs the server 1.3 ms, and begins when the client has sent bytes. One iteration of the event loop does
only some steps of handshakes. So the requests of other clients are handled in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import structlog

from muster.coordinator.net.tls.context import HANDSHAKE_OF_TASK

if TYPE_CHECKING:
    from muster.coordinator.net.connection import Connection
    from muster.coordinator.net.tls.context import ListenerTls
    from muster.coordinator.system.clock import Clock

log = structlog.get_logger("muster.net")

HANDSHAKE_S: Final = 30
"""The time limit of a handshake, and of a client that sends nothing."""
SHUTDOWN_S: Final = 2.0
"""How long a closing connection waits for the peer's close."""
MAX_HANDSHAKES: Final = 1_000
"""The limit of concurrent handshakes of one listener. Beyond the limit, the oldest handshake fails."""
MAX_STEPS_AT_ONCE: Final = 10
"""The most steps of handshakes in one iteration of the event loop. A step is a start, or received bytes."""
_TLS_RECORD: Final = b"\x16"
"""The first byte of every TLS connection. No Kafka request begins with this byte: the request would have 369 MB."""


class Handshakes:
    """The handshakes of one listener in progress: see `MAX_HANDSHAKES` and `MAX_STEPS_AT_ONCE`."""

    def __init__(self) -> None:
        self._in_progress: dict[PlainSocket, None] = {}
        self._waiting: deque[Callable[[], object]] = deque()
        self._done = 0

    def __len__(self) -> int:
        return len(self._in_progress)

    def enter(self, plain: PlainSocket) -> None:
        """Add a handshake of a connection that was admitted."""
        if len(self._in_progress) >= MAX_HANDSHAKES:
            oldest = next(iter(self._in_progress))
            del self._in_progress[oldest]
            oldest.give_up(f"there are {MAX_HANDSHAKES} handshakes in progress, and this is the oldest")
        self._in_progress[plain] = None

    def leave(self, plain: PlainSocket) -> None:
        """Remove a handshake that is complete or has failed."""
        self._in_progress.pop(plain, None)

    async def wait_for_step(self) -> None:
        """Wait until a step may be done."""
        allowed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not self.may_step(partial(_set_done, allowed)):
            await allowed

    def may_step(self, allowed: Callable[[], object]) -> bool:
        """Whether a step may be done now. If not, `allowed` is called when the step may be done."""
        if self._done >= MAX_STEPS_AT_ONCE:
            self._waiting.append(allowed)
            return False
        if not self._done:
            asyncio.get_running_loop().call_soon(self._next_iteration)
        self._done += 1
        return True

    def _next_iteration(self) -> None:
        self._done = min(MAX_STEPS_AT_ONCE, len(self._waiting))
        if self._done:
            asyncio.get_running_loop().call_soon(self._next_iteration)
        for _ in range(self._done):
            self._waiting.popleft()()


class PlainSocket:
    """The transport of a connection until its TLS handshake is complete: a `HandshakeInProgress`."""

    def __init__(self, accepted: socket.socket) -> None:
        self.socket = accepted
        self.received = b""
        self._about: dict[str, Any] = {"socket": accepted}
        with contextlib.suppress(OSError):  # the peer has disconnected already
            self._about |= {"sockname": accepted.getsockname(), "peername": accepted.getpeername()}
        self._may_establish: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._why: str | None = None
        self._handshakes: Handshakes | None = None
        self._below: asyncio.Transport | None = None
        self._may_step = self._waits = False

    def get_extra_info(self, name: str) -> Any:
        return self._about.get(name)

    def establish_tls(self) -> None:
        """The connection was admitted: begin the handshake."""
        self._may_establish.set_result(True)

    def abort(self) -> None:
        """End the connection. A handshake in progress fails."""
        if not self._may_establish.done():
            self._may_establish.set_result(False)
        with contextlib.suppress(OSError):  # the handshake has ended already
            self.socket.shutdown(socket.SHUT_RDWR)

    close = abort

    def give_up(self, why: str) -> None:
        """Do `abort`, with the reason for the log."""
        self._why = self._why or why
        self.abort()

    def may_continue(self) -> bool:
        if self._may_step or self._handshakes is None:
            self._may_step = False
            return True
        if not self._waits:
            self._waits = not self._handshakes.may_step(self._go_on)
            return not self._waits
        return False

    def _go_on(self) -> None:
        self._waits = False
        if self._below is not None:  # the handshake is still in progress
            self._may_step = True
            # the protocol of `ssl` has received bytes already: a call with 0 new bytes makes the protocol handle them
            self._below.get_protocol().buffer_updated(0)  # type: ignore[attr-defined]  # a BufferedProtocol
            self._may_step = False

    async def serve(self, connection: Connection, tls: ListenerTls, handshakes: Handshakes, clock: Clock) -> None:
        """Begin TLS as soon as `connection` is admitted, and give it the transport. Close `connection` if TLS fails."""
        loop = asyncio.get_running_loop()
        connection.connection_made(self)  # type: ignore[arg-type]  # as much of a transport as it needs until then
        if not await self._may_establish:
            self.socket.close()
            connection.connection_lost(None)
            return
        handshakes.enter(self)
        try:
            if await self._speaks_tls(clock):
                await handshakes.wait_for_step()
                HANDSHAKE_OF_TASK.set(self)  # the value holds for this task, and for the tasks that it starts
                self._handshakes = handshakes
                self._below, below = await loop.connect_accepted_socket(_PlainProtocol, self.socket)
                if below.has_ended:
                    self._below.abort()
                    raise ConnectionAbortedError("the client has ended it")
                self.received = below.data
                early = _EarlyBytes()
                transport = await loop.start_tls(
                    self._below,
                    early,
                    tls.now.context,
                    server_side=True,
                    ssl_handshake_timeout=HANDSHAKE_S,
                    ssl_shutdown_timeout=SHUTDOWN_S,
                )
                assert transport is not None  # the transport exists unless the handshake has failed
                early.hand_over(transport, connection)
                return
            self.socket.close()
        except OSError as error:  # the errors of ssl are OSErrors too
            self._why = self._why or str(error) or "the client has ended it"
        finally:
            self._below = None
            handshakes.leave(self)
        if self._why is not None:
            log.info("a TLS handshake failed", peer=connection.channel.peer, listener=connection.channel.listener,
                     why=self._why)  # fmt: skip
        connection.connection_lost(None)

    async def _speaks_tls(self, clock: Clock) -> bool:
        """Wait for the first byte, which stays in the socket. Protocols other than TLS get no answer."""
        loop = asyncio.get_running_loop()
        readable: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self.socket, _set_done, readable)
        timer = clock.call_at(
            clock.mono_ms() + int(HANDSHAKE_S * 1000), lambda: self.give_up("the client has sent nothing")
        )
        try:
            await readable
            first = self.socket.recv(1, socket.MSG_PEEK)
        finally:
            timer.cancel()
            loop.remove_reader(self.socket)
        if first and first != _TLS_RECORD and self._why is None:
            self._why = "the client speaks no TLS, but this listener does: the client needs another security.protocol"
        return first == _TLS_RECORD and self._why is None


def _set_done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class _PlainProtocol(asyncio.Protocol):
    """The protocol of the plain transport until `ssl` takes the transport over. It keeps bytes, because uvloop reads at
    once.
    """

    def __init__(self) -> None:
        self.data = b""
        self.has_ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.pause_reading()  # type: ignore[attr-defined]  # it reads; those of uvloop are no asyncio.Transport

    def data_received(self, data: bytes) -> None:
        self.data += data

    def eof_received(self) -> bool:
        self.has_ended = True
        return True

    def connection_lost(self, _: Exception | None) -> None:
        self.has_ended = True


class _EarlyBytes(asyncio.Protocol):
    """Keeps bytes that arrive right behind a handshake until the connection has the transport."""

    def __init__(self) -> None:
        self._data: list[bytes] = []
        self._is_lost = False
        self._error: Exception | None = None

    def data_received(self, data: bytes) -> None:
        self._data.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost, self._error = True, exc

    def hand_over(self, transport: asyncio.Transport, connection: Connection) -> None:
        transport.set_protocol(connection)
        connection.connection_made(transport)
        for data in self._data:
            connection.data_received(data)
        if self._is_lost:
            connection.connection_lost(self._error)
