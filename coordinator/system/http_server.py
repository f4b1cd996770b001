"""An HTTP/1.1 server on the running event loop: uvicorn's protocol, with limits that uvicorn does not have.

Clients have limits of bytes, connections and time. A client beyond a limit gets an error, or is disconnected. Uvicorn's
own server, with its signal handlers and its lifespan, is not used.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from muster.coordinator.system.clock import Clock, Timer, pause_s
from muster.coordinator.system.host_names import CannotListen

MAX_HEAD_BYTES: Final = 16 * 1024
"""The most bytes of a request line and headers."""

Message = MutableMapping[str, Any]
App = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]
"""An ASGI application."""


class Limits(NamedTuple):
    """The limits of clients."""

    clients: int
    """The most served connections. As many more connections get the answer "busy"; further connections are closed."""
    patience_ms: int
    """How long a request may take to arrive, and its answer to be sent. An idle connection is kept as long."""


class HttpServer:
    """See the module. `port`: the port of the server."""

    def __init__(
        self,
        clock: Clock,
        host: str,
        port: int,
        limits: Limits,
        app: App,
        busy: App,
        purpose: str = "http",
        context: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        """`port` 0 takes a free port. `app` is cancelled when the client disconnects. `busy` answers clients beyond the
        limit. `purpose`: for `CannotListen`. `context` returns the present TLS of new connections; None: without TLS.
        """
        self.host = host
        self.port = port
        self.clock = clock
        self.limits = limits
        self.busy = _until_gone(busy)
        self.context = context
        self.connections: set[_Connection] = set()
        """The open connections, also those whose TLS handshake is not finished."""
        self._purpose = purpose
        self._server: asyncio.Server | None = None
        self._config = Config(
            _until_gone(app),
            http=H11Protocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
            timeout_keep_alive=limits.patience_ms // 1000 + 1,
        )
        # a malformed request is the client's fault, and gets an answer
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)

    @property
    def is_listening(self) -> bool:
        """Whether the server has started, and has not stopped."""
        return self._server is not None

    @property
    def clients(self) -> int:
        """The number of connections."""
        return len(self.connections)

    async def start(self) -> None:
        """Begin to listen. Raises CannotListen."""
        loop = asyncio.get_running_loop()
        self._config.load()

        def accepted() -> asyncio.Protocol:
            connection = _Connection(self, self._config, loop)
            return connection if self.context is None else _Handshake(connection, self.context(), loop)

        try:
            self._server = await loop.create_server(accepted, self.host, self.port)
        except OSError as error:
            raise CannotListen(error, self.host, self.port, self._purpose) from error
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening, and cancel all answers. The call has no effect when the server does not listen."""
        server, self._server = self._server, None
        if server is None:
            return
        # asyncio would forget a connection without closing it, if it has accepted it and not made its transport yet
        loop = asyncio.get_running_loop()
        for bound in server.sockets:
            loop.remove_reader(bound.fileno())
        await pause_s(0)
        server.close()
        open_connections = [*self.connections]
        for one in open_connections:
            one.abort()
        await asyncio.gather(*[task for one in open_connections for task in one.tasks], return_exceptions=True)


def _until_gone(app: App) -> App:
    """The application, whose call ends silently when it is cancelled, because its client has disconnected."""

    async def call(
        scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        try:
            await app(scope, receive, send)
        except asyncio.CancelledError:
            return

    return call


class _Connection(H11Protocol):
    """One connection. Its one timer limits the time for a request, for an answer that is read slowly, or of silence."""

    def __init__(self, of: HttpServer, config: Config, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(config, ServerState(), {}, loop)
        self._of = of
        self._timer: Timer | None = None
        self._is_read_slowly = False
        """Whether the client has not read all of the present answer that was sent already."""
        self._cut: Callable[[], object] | None = None
        """Cuts the connection; None before it is accepted."""

    def accept(self, cut: Callable[[], object]) -> bool:
        """Count the connection, and begin to wait for its first request. False: the server has too many connections, or
        has stopped since the connection arrived.
        """
        if not self._of.is_listening or len(self._of.connections) >= 2 * self._of.limits.clients:
            return False
        if len(self._of.connections) >= self._of.limits.clients:
            self.app = self._of.busy
        self._of.connections.add(self)
        self._cut = cut
        self._hurry()
        return True

    def abort(self) -> None:
        """Cut the connection. Its answer is cancelled."""
        if self._cut is not None:
            self._cut()
        self.left()

    def left(self) -> None:
        """The connection has ended."""
        self._relax()
        self._of.connections.discard(self)
        if not self._is_idle:
            self.cycle.disconnected = True
        for task in [*self.tasks]:
            task.cancel()

    def _hurry(self) -> None:
        self._relax()
        clock = self._of.clock
        self._timer = clock.call_at(clock.mono_ms() + self._of.limits.patience_ms, self.abort)

    def _relax(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def is_open(self) -> bool:
        """Whether requests may arrive."""
        return self.transport is not None

    @property
    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _look(self) -> None:
        """Stop the timer when a whole request has arrived, because now the client waits."""
        if not self._is_idle and not self.cycle.more_body and not self._is_read_slowly:
            self._relax()

    # ---- calls of the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Begin. With TLS, the connection has been counted already."""
        if self._cut is None and not self.accept(transport.abort):
            transport.abort()
            return
        self._cut = transport.abort
        super().connection_made(transport)
        # bytes that the client does not read are noticed at once: a close would send them without a time limit
        transport.set_write_buffer_limits(high=1, low=0)

    def connection_lost(self, exc: Exception | None) -> None:
        """End. Nobody waits for the answer any more."""
        if self.is_open:
            super().connection_lost(exc)
            self._unset_keepalive_if_required()
        self.left()

    def data_received(self, data: bytes) -> None:
        """Handle bytes of a request."""
        super().data_received(data)
        self._look()

    def pause_writing(self) -> None:
        """The client reads slowly."""
        super().pause_writing()
        if not self._is_read_slowly:
            self._is_read_slowly = True
            self._hurry()

    def resume_writing(self) -> None:
        """The client has read all that was sent until now. An unfinished answer keeps its time limit."""
        super().resume_writing()
        if self._is_idle:
            self._is_read_slowly = False
            self._hurry()

    def on_response_complete(self) -> None:
        """The application has given the whole answer. The next request may be there already."""
        if not self.flow.write_paused:
            self._is_read_slowly = False
            self._hurry()
        super().on_response_complete()
        self._look()


class _Handshake(asyncio.Protocol):
    """A connection until TLS is there. It counts as a connection from the first moment on."""

    def __init__(self, connection: _Connection, context: ssl.SSLContext, loop: asyncio.AbstractEventLoop) -> None:
        self._connection = connection
        self._context = context
        self._loop = loop

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvloop's is no subclass
        """Begin the handshake, on a transport of its own: uvloop would read its first bytes for this protocol."""
        accepted = transport.get_extra_info("socket").dup()
        transport.abort()
        if not self._connection.accept(lambda: None):
            accepted.close()
            return
        # the task ends with the connection
        encrypting = self._loop.create_task(self._encrypt(accepted))
        self._connection.tasks.add(encrypting)
        encrypting.add_done_callback(lambda task: self._encrypted(task, accepted))

    async def _encrypt(self, accepted: socket.socket) -> None:
        with suppress(OSError):
            await self._loop.connect_accepted_socket(lambda: self._connection, accepted, ssl=self._context)

    def _encrypted(self, task: asyncio.Task[None], accepted: socket.socket) -> None:
        self._connection.tasks.discard(task)
        if not self._connection.is_open:
            accepted.close()
            self._connection.left()
