"""A small HTTP/1.1 server on the event loop, by h11, for metrics and the test control.

Clients have limits of bytes, connections and time. A client beyond a limit gets an error, or is disconnected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

import h11

from muster.coordinator.system.clock import Clock, Timer
from muster.coordinator.system.host_names import CannotListen

READ_BYTES: Final = 64 * 1024
"""The most bytes of one read. By h11's limit the request line and the headers may have 16 KB."""


class Request(NamedTuple):
    """A request. `body` is None when it is larger than allowed."""

    method: str
    target: str
    """The path and the query, unchanged."""
    headers: Mapping[bytes, bytes]
    """The headers by name, in lower case."""
    body: bytes | None


class Response(NamedTuple):
    """An answer. To a HEAD request the answer is sent without `data`."""

    status: int
    content_type: str
    data: bytes


class Limits(NamedTuple):
    """The limits of clients."""

    body_bytes: int
    """The most bytes of a request's body."""
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
        answer: Callable[[Request], Awaitable[Response]],
        busy: Response,
        purpose: str = "http",
    ) -> None:
        """`port` 0 takes a free port. `answer` raises nothing, and is cancelled when the client disconnects.

        `busy`: the answer to clients beyond the limit. `purpose`: for `CannotListen`.
        """
        self.host = host
        self.port = port
        self._clock = clock
        self._limits = limits
        self._answer = answer
        self._busy = busy
        self._purpose = purpose
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[Any]] = set()

    @property
    def clients(self) -> int:
        """The number of connections."""
        return len(self._clients)

    async def start(self) -> None:
        """Begin to listen. Raises CannotListen."""
        try:
            self._server = await asyncio.start_server(self._serve, self.host, self.port, limit=READ_BYTES)
        except OSError as error:
            raise CannotListen(error, self.host, self.port, self._purpose) from error
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening, and cancel all answers. The call has no effect when the server does not listen."""
        if self._server is None:
            return
        self._server.close()
        for task in self._clients:
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        client = _Client(self._clock, self._limits, reader, writer)
        try:
            if len(self._clients) <= 2 * self._limits.clients:
                await self._converse(client)
        except (OSError, h11.ProtocolError):
            pass  # the client has disconnected, or uses another protocol
        except asyncio.CancelledError:
            writer.transport.abort()  # the server stops
        finally:
            self._clients.discard(task)
            client.close()

    async def _converse(self, client: _Client) -> None:
        is_busy = len(self._clients) > self._limits.clients
        while (request := await client.read()) is not None:
            if is_busy:
                await client.send(self._busy)
                return
            answering = asyncio.ensure_future(self._answer(request))
            try:
                await client.stays_until(answering)
            finally:
                # a disconnected client waits for nothing
                answering.cancel()
            await client.send(answering.result())
            if not client.goes_on:
                return


class _Client:
    """One connection: one request after the other, with a time limit for each side."""

    def __init__(
        self, clock: Clock, limits: Limits, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._clock = clock
        self._limits = limits
        self._reader = reader
        self._writer = writer
        # `drain` waits until the transport has no bytes left: a close would send remaining bytes without a time limit
        writer.transport.set_write_buffer_limits(high=0)
        self._http = h11.Connection(h11.SERVER)
        self._is_head = False
        self._reading: asyncio.Task[bytes] | None = None
        """A read that began while an answer was made: it notices that the client has disconnected."""

    def _hurry(self) -> Timer:
        return self._clock.call_at(self._clock.mono_ms() + self._limits.patience_ms, self._writer.transport.abort)

    async def read(self) -> Request | None:
        """Return the next request; None at the end. Raises OSError and h11.ProtocolError."""
        timer = self._hurry()
        try:
            return await self._read()
        finally:
            timer.cancel()

    async def _read(self) -> Request | None:
        head: h11.Request | None = None
        body = bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                reading, self._reading = self._reading, None
                self._http.receive_data(await (self._reader.read(READ_BYTES) if reading is None else reading))
            elif isinstance(event, h11.Request):
                head = event
                self._is_head = event.method == b"HEAD"
            elif isinstance(event, h11.Data) and len(body) + len(event.data) <= self._limits.body_bytes:
                body += event.data
            elif head is not None and isinstance(event, h11.Data | h11.EndOfMessage):
                whole = bytes(body) if isinstance(event, h11.EndOfMessage) else None
                return Request(head.method.decode("latin-1"), head.target.decode("latin-1"), dict(head.headers), whole)
            else:
                return None

    async def stays_until(self, done: asyncio.Future[Any]) -> None:
        """Wait until `done` is done. Raises OSError when the client disconnects before."""
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._reader.read(READ_BYTES))
        await asyncio.wait((done, self._reading), return_when=asyncio.FIRST_COMPLETED)
        if not done.done() and not self._reading.result():
            raise ConnectionResetError("the client has gone")
        # the client is still connected, or has sent the next request, which waits
        await asyncio.wait((done,))

    async def send(self, response: Response) -> None:
        headers = [("Content-Type", response.content_type), ("Content-Length", str(len(response.data)))]
        begin = h11.Response(status_code=response.status, headers=headers)
        data = b"" if self._is_head else response.data
        for event in (begin, h11.Data(data=data), h11.EndOfMessage()):
            self._writer.write(self._http.send(event) or b"")
        timer = self._hurry()
        try:
            await self._writer.drain()
        finally:
            timer.cancel()

    @property
    def goes_on(self) -> bool:
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        self._writer.close()
