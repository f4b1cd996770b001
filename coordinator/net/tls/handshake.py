"""The beginning of a TLS connection: its plain socket until TLS is established.

A connection counts, waits and is refused before its handshake, as one without TLS does before its first request: so
clients that never finish a handshake cannot have more of them than max.connections and max.connections.per.ip allow.

A handshake costs the server a signature, some 1 ms. It begins when the client has sent something, and only so many
begin in one turn of the loop: however many clients come together, the others' requests are handled in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import structlog

from muster.coordinator.net.tls.alert import OF_THIS_TASK

if TYPE_CHECKING:
    from muster.coordinator.clock import Clock
    from muster.coordinator.net.connection import Connection
    from muster.coordinator.net.tls.renewal import ListenerTls

log = structlog.get_logger("muster.net")

HANDSHAKE_S: Final = 30
"""A handshake that takes longer is given up; so is a client that sends nothing for so long."""
SHUTDOWN_S: Final = 2.0
"""How long a connection that closes waits for the peer to say so too."""
MOST_HANDSHAKES: Final = 1_000
"""Of one listener at the same time: for another one the oldest is given up."""
MOST_IN_ONE_TURN: Final = 10
"""Handshakes of one listener that begin in one turn of the loop."""
_TLS_RECORD: Final = b"\x16"
"""The first byte of every TLS connection; no request of Kafka's begins so, that would be one of 369 MB."""


class Handshakes:
    """Those of one listener that are under way: see `MOST_HANDSHAKES` and `MOST_IN_ONE_TURN`."""

    def __init__(self) -> None:
        self._under_way: dict[PlainSocket, None] = {}
        self._in_turn: deque[asyncio.Future[None]] = deque()
        self._begun = 0

    def __len__(self) -> int:
        return len(self._under_way)

    def enter(self, plain: PlainSocket) -> None:
        """Another one, which was admitted."""
        if len(self._under_way) >= MOST_HANDSHAKES:
            oldest = next(iter(self._under_way))
            del self._under_way[oldest]
            oldest.give_up(f"there are {MOST_HANDSHAKES} handshakes under way, and it is the oldest")
        self._under_way[plain] = None

    def leave(self, plain: PlainSocket) -> None:
        """It is done, or has failed."""
        self._under_way.pop(plain, None)

    async def turn(self) -> None:
        """Return when one may begin."""
        if self._begun >= MOST_IN_ONE_TURN:
            waits: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._in_turn.append(waits)
            await waits
            return
        if not self._begun:
            asyncio.get_running_loop().call_soon(self._next_turn)
        self._begun += 1

    def _next_turn(self) -> None:
        self._begun = min(MOST_IN_ONE_TURN, len(self._in_turn))
        for _ in range(self._begun):
            self._in_turn.popleft().set_result(None)
        if self._begun:
            asyncio.get_running_loop().call_soon(self._next_turn)


class PlainSocket:
    """The transport of a connection until TLS is established on its socket."""

    def __init__(self, accepted: socket.socket) -> None:
        self._socket = accepted
        self._about: dict[str, Any] = {"socket": accepted}
        with contextlib.suppress(OSError):  # the peer has gone already
            self._about |= {"sockname": accepted.getsockname(), "peername": accepted.getpeername()}
        self._may_establish: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._why: str | None = None

    def get_extra_info(self, name: str) -> Any:
        """What asyncio's transports tell."""
        return self._about.get(name)

    def establish_tls(self) -> None:
        """The connection was admitted."""
        self._may_establish.set_result(True)

    def abort(self) -> None:
        """End the connection; a handshake that is under way fails."""
        if not self._may_establish.done():
            self._may_establish.set_result(False)
        with contextlib.suppress(OSError):  # it has ended already
            self._socket.shutdown(socket.SHUT_RDWR)

    close = abort

    def give_up(self, why: str) -> None:
        """`abort`, with the reason that the log shall show."""
        self._why = self._why or why
        self.abort()

    async def serve(self, connection: Connection, tls: ListenerTls, handshakes: Handshakes, clock: Clock) -> None:
        """Establish TLS as soon as `connection` is admitted, and hand it the transport; end it if that fails."""
        loop = asyncio.get_running_loop()
        connection.connection_made(self)  # type: ignore[arg-type]  # as much of a transport as it needs until then
        if not await self._may_establish:
            self._socket.close()
            connection.connection_lost(None)
            return
        handshakes.enter(self)
        try:
            if await self._speaks_tls(clock):
                await handshakes.turn()
                OF_THIS_TASK.set(self._socket)  # of this task, and of what it starts
                await loop.connect_accepted_socket(
                    lambda: connection,
                    self._socket,
                    ssl=tls.now.context,
                    ssl_handshake_timeout=HANDSHAKE_S,
                    ssl_shutdown_timeout=SHUTDOWN_S,
                )
                return
            self._socket.close()
        except OSError as error:  # as are all of ssl
            self._why = self._why or str(error) or "the client has ended it"
        finally:
            handshakes.leave(self)
        if self._why is not None:
            log.info("a TLS handshake failed", peer=connection.channel.peer, listener=connection.channel.listener,
                     why=self._why)  # fmt: skip
        connection.connection_lost(None)

    async def _speaks_tls(self, clock: Clock) -> bool:
        """Wait for the first byte, which stays in the socket; no other protocol is answered."""
        loop = asyncio.get_running_loop()
        came: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self._socket, _come, came)
        timer = clock.call_at(
            clock.mono_ms() + int(HANDSHAKE_S * 1000), lambda: self.give_up("the client has sent nothing")
        )
        try:
            await came
            first = self._socket.recv(1, socket.MSG_PEEK)
        finally:
            timer.cancel()
            loop.remove_reader(self._socket)
        if first and first != _TLS_RECORD and self._why is None:
            self._why = "the client speaks no TLS, and this listener nothing else: its security.protocol is another one"
        return first == _TLS_RECORD and self._why is None


def _come(came: asyncio.Future[None]) -> None:
    if not came.done():
        came.set_result(None)
