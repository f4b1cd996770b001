"""The server of the control: HTTP/1.1 on the server's own event loop, by h11.

Without a token it is for programs on this machine: it listens on loopback only, and refuses what a page in a browser
sends.
"""

from __future__ import annotations

import asyncio
import hmac
import inspect
import json
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import h11
import structlog

from muster.coordinator.clock import Clock, Timer
from muster.coordinator.rehearsal.errors import CannotBeDone, WaitFailed, WrongValue
from muster.coordinator.rehearsal.faults.errors import NoSuchFault
from muster.coordinator.rehearsal.http import shown
from muster.coordinator.rehearsal.http.body import Fields
from muster.coordinator.rehearsal.http.failures import Failure
from muster.coordinator.rehearsal.http.routes import find
from muster.coordinator.rehearsal.http.verbs import Asked
from muster.coordinator.rehearsal.rehearsal import Rehearsal
from muster.coordinator.rehearsal.virtual_time import RanInVain

log = structlog.get_logger("muster.rehearsal")

MOST_BYTES: Final = 1024 * 1024
"""Of the body of a request: what can be read as JSON in some 30 ms."""
MOST_CONNECTIONS: Final = 100
"""More are told that it is busy."""
PATIENCE_MS: Final = 60_000
"""How long a client may take to send a request, or to take its answer; a connection without one is kept as long."""
READ_BYTES: Final = 64 * 1024
LOOPBACK: Final = frozenset(("127.0.0.1", "::1", "localhost"))
"""Hosts that nobody but this machine reaches."""


class _Client:
    """One connection: a request after the other, each side in its time."""

    def __init__(self, clock: Clock, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clock = clock
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER)
        self._reading: asyncio.Task[bytes] | None = None
        """A read that has begun while an answer was made: whether the client is still there."""

    def _hurry(self) -> Timer:
        """Hang up when the client takes too long."""
        return self._clock.call_at(self._clock.mono_ms() + PATIENCE_MS, self._writer.transport.abort)

    async def read(self) -> tuple[h11.Request | None, bytes | None]:
        """The next request and its body; None for a body that is too large, and for the request when there is none."""
        timer = self._hurry()
        try:
            return await self._read()
        finally:
            timer.cancel()

    async def _read(self) -> tuple[h11.Request | None, bytes | None]:
        request: h11.Request | None = None
        body = bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                reading, self._reading = self._reading, None
                self._http.receive_data(await (self._reader.read(READ_BYTES) if reading is None else reading))
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > MOST_BYTES:
                    return request, None
            elif isinstance(event, h11.EndOfMessage):
                return request, bytes(body)
            else:
                return None, b""

    async def stays_until(self, done: asyncio.Future[Any]) -> None:
        """Wait until this is done. Raises OSError when the client has hung up before."""
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._reader.read(READ_BYTES))
        await asyncio.wait((done, self._reading), return_when=asyncio.FIRST_COMPLETED)
        if not done.done() and not self._reading.result():
            raise ConnectionResetError("the client has gone")
        # it is there, or asks for more already, which waits
        await asyncio.wait((done,))

    def close(self) -> None:
        """Hang up."""
        if self._reading is not None:
            self._reading.cancel()
        self._writer.close()

    async def answer(self, status: int, answer: Any) -> None:
        """Send it."""
        data = json.dumps(answer, ensure_ascii=False).encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(data)))]
        said = [h11.Response(status_code=status, headers=headers)]
        for event in (*said, h11.Data(data=data), h11.EndOfMessage()):
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


class ControlServer:
    """See the module. `port`: where it listens."""

    def __init__(self, rehearsal: Rehearsal, host: str, port: int, token: str | None = None) -> None:
        """`port` 0: a free one; `token`: what a client must show. Raises ValueError: off loopback without a token."""
        if token is None and host not in LOOPBACK:
            raise ValueError(f"{host} can be reached from other machines: that needs a token")
        self.host = host
        self.port = port
        self._rehearsal = rehearsal
        self._token = token
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        """Listen. Raises OSError."""
        self._server = await asyncio.start_server(self._serve, self.host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        log.info("the control listens", address=f"{self.host}:{self.port}")

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
        client = _Client(self._rehearsal.server.clock.machine, reader, writer)
        try:
            await self._converse(client)
        except (OSError, h11.RemoteProtocolError):
            pass  # it has gone, or speaks something else
        except asyncio.CancelledError:
            pass  # the server stops
        finally:
            self._clients.discard(task)
            client.close()

    async def _converse(self, client: _Client) -> None:
        is_busy = len(self._clients) > MOST_CONNECTIONS
        while True:
            request, body = await client.read()
            if request is None:
                return
            if is_busy:
                busy = Failure("busy", f"{MOST_CONNECTIONS} connections are open already")
                await client.answer(busy.status, busy.to_json())
                return
            answering = asyncio.ensure_future(self._answer(request, body))
            try:
                await client.stays_until(answering)
            finally:
                # whoever has gone waits for nothing any more
                answering.cancel()
            await client.answer(*answering.result())
            if not client.goes_on:
                return

    async def _answer(self, request: h11.Request, body: bytes | None) -> tuple[int, Any]:
        try:
            try:
                return 200, await self._do(request, body)
            except CannotBeDone as refusal:
                raise Failure("conflict", str(refusal)) from refusal
            except WrongValue as wrong:
                raise Failure("bad-request", str(wrong)) from wrong
            except NoSuchFault as missing:
                raise Failure("not-found", str(missing)) from missing
            except WaitFailed as failed:
                raise self._waited(failed) from failed
            except RanInVain as failed:
                raise Failure("timeout", str(failed)) from failed
            except Exception as error:  # a fault of ours costs this request, not the control: its caller is told
                if isinstance(error, Failure):
                    raise
                log.error("the control failed", path=request.target.decode("latin-1"), exc_info=error)
                raise Failure("fault", f"a fault of the server: {error!r}") from error
        except Failure as failure:
            return failure.status, failure.to_json()

    def _waited(self, failed: WaitFailed) -> Failure:
        group = shown.group(self._rehearsal, self._rehearsal.groups.describe(failed.group_id))
        details = {"waited_for": failed.waited_for, "group": group, "timeline": list(failed.timeline)}
        return Failure("timeout", str(failed), details)

    async def _do(self, request: h11.Request, body: bytes | None) -> Any:
        self._admit(request)
        target = urlsplit(request.target.decode("latin-1"))
        verb, named = find(request.method.decode("latin-1"), target.path)
        if body is None:
            raise Failure("too-large", f"a body may have {MOST_BYTES} bytes")
        try:
            fields = Fields(json.loads(body) if body.strip() else {})
        except ValueError as error:
            raise Failure("bad-request", f"the body is no JSON: {error}") from error
        except RecursionError:
            raise Failure("bad-request", "the body is JSON that is nested too deep") from None
        answer = verb(self._rehearsal, Asked(named, dict(parse_qsl(target.query)), fields))
        return await answer if inspect.isawaitable(answer) else answer

    def _admit(self, request: h11.Request) -> None:
        """Raises Failure for who may not do anything."""
        headers = dict(request.headers)
        if self._token is not None:
            shown_token = headers.get(b"authorization", b"")
            if not hmac.compare_digest(shown_token, b"Bearer " + self._token.encode()):
                raise Failure("unauthorized", "the token is missing, or another one: Authorization: Bearer …")
        elif b"origin" in headers or not _is_here(headers.get(b"host", b"localhost")):
            raise Failure("unauthorized", "a page in a browser may not do that without a token")


def _is_here(host: bytes) -> bool:
    """Whether a Host is this machine: a page whose name was made to lead here has another one."""
    name = urlsplit(f"//{host.decode('latin-1')}").hostname
    return name in LOOPBACK
