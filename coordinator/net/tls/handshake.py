"""The beginning of a TLS connection: its plain socket until TLS is established.

A connection counts, waits and is refused before its handshake, as one without TLS does before its first request: so
clients that never finish a handshake cannot have more of them than max.connections and max.connections.per.ip allow.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING, Any, Final

import structlog

if TYPE_CHECKING:
    import ssl

    from muster.coordinator.net.connection import Connection

log = structlog.get_logger("muster.net")

HANDSHAKE_S: Final = 30.0
"""A handshake that takes longer is given up."""
SHUTDOWN_S: Final = 2.0
"""How long a connection that closes waits for the peer to say so too."""


class PlainSocket:
    """The transport of a connection until TLS is established on its socket."""

    def __init__(self, accepted: socket.socket) -> None:
        self._socket = accepted
        self._about: dict[str, Any] = {"socket": accepted}
        with contextlib.suppress(OSError):  # the peer has gone already
            self._about |= {"sockname": accepted.getsockname(), "peername": accepted.getpeername()}
        self._may_establish: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

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

    async def serve(self, connection: Connection, context: ssl.SSLContext | None) -> None:
        """Establish TLS as soon as `connection` is admitted, and hand it the transport; end it if that fails."""
        loop = asyncio.get_running_loop()
        connection.connection_made(self)  # type: ignore[arg-type]  # as much of a transport as it needs until then
        if not await self._may_establish:
            self._socket.close()
            connection.connection_lost(None)
            return
        try:
            await loop.connect_accepted_socket(
                lambda: connection,
                self._socket,
                ssl=context,
                ssl_handshake_timeout=HANDSHAKE_S,
                ssl_shutdown_timeout=SHUTDOWN_S,
            )
        except OSError as error:  # as are all of ssl
            log.info("a TLS handshake failed", peer=connection.channel.peer, why=str(error))
            connection.connection_lost(None)
