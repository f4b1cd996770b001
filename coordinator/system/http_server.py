"""A small server of HTTP/1.1 on the event loop, by h11: for what is asked beside Kafka's protocol (metrics, the
control).

What clients may take is limited: bytes, connections and time. Who asks for too much is answered so, or hung up on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

import h11

from muster.coordinator.system.clock import Clock, Timer
from muster.coordinator.system.host_names import CannotListen

READ_BYTES: Final = 64 * 1024
"""Read at once. The line of a request and its headers may have 16 KB, as h11 has it."""


class Request(NamedTuple):
    """What was asked. `body` None: it is larger than allowed."""

    method: str
    target: str
    """As it came: the path and the query."""
    headers: Mapping[bytes, bytes]
    """By name, in small letters."""
    body: bytes | None


class Response(NamedTuple):
    """What is answered; to HEAD without `data`."""

    status: int
    content_type: str
    data: bytes


class Limits(NamedTuple):
    """What clients may take."""

    body_bytes: int
    """Of the body of a request."""
    clients: int
    """Connections that are served; as many more are told that the server is busy, others are hung up on at once."""
    patience_ms: int
    """How long a request may take to come, and its answer to leave; a connection that asks nothing is kept as long."""


class HttpServer:
    """See the module. `port`: where it listens."""

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
        """`port` 0: a free one. `answer` is cancelled when the client hangs up, or the server stops; it raises nothing
        else. `busy`: what clients beyond the limit are told. `purpose`: what it serves, for errors.
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
        """How many connections there are."""
        return len(self._clients)

    async def start(self) -> None:
        """Listen. Raises CannotListen."""
        try:
            self._server = await asyncio.start_server(self._serve, self.host, self.port, limit=READ_BYTES)
        except OSError as error:
            raise CannotListen(error, self.host, self.port, self._purpose) from error
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Listen no more, and answer nobody; harmless when it does not."""
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
            pass  # it has gone, or speaks something else
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
                # whoever has gone waits for nothing any more
                answering.cancel()
            await client.send(answering.result())
            if not client.goes_on:
                return


class _Client:
    """One connection: a request after the other, each side in its time."""

    def __init__(
        self, clock: Clock, limits: Limits, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._clock = clock
        self._limits = limits
        self._reader = reader
        self._writer = writer
        # an answer has left when all of it has: what is left to send when it is closed would wait without a limit
        writer.transport.set_write_buffer_limits(high=0)
        self._http = h11.Connection(h11.SERVER)
        self._is_head = False
        self._reading: asyncio.Task[bytes] | None = None
        """A read that has begun while an answer was made: whether the client is still there."""

    def _hurry(self) -> Timer:
        """Hang up when the client takes too long."""
        return self._clock.call_at(self._clock.mono_ms() + self._limits.patience_ms, self._writer.transport.abort)

    async def read(self) -> Request | None:
        """The next request; None: there is none. Raises OSError and h11.ProtocolError."""
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
        """Wait until this is done. Raises OSError when the client has hung up before."""
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._reader.read(READ_BYTES))
        await asyncio.wait((done, self._reading), return_when=asyncio.FIRST_COMPLETED)
        if not done.done() and not self._reading.result():
            raise ConnectionResetError("the client has gone")
        # it is there, or asks for more already, which waits
        await asyncio.wait((done,))

    async def send(self, response: Response) -> None:
        """An answer. Raises OSError."""
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
        """Whether there may be another request."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    def close(self) -> None:
        """Hang up."""
        if self._reading is not None:
            self._reading.cancel()
        self._writer.close()
