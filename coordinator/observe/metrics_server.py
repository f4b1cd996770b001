"""Answers `GET /metrics` by HTTP/1.1, on the server's own event loop, by h11. It says what there is, and changes
nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import h11
import structlog

from muster.coordinator.observe.metrics import CONTENT_TYPE, Metric, text

log = structlog.get_logger("muster.metrics")

READ_BYTES: Final = 16 * 1024
MOST_BYTES: Final = 64 * 1024
"""Of a request, with what comes behind it."""
MOST_CLIENTS: Final = 20
"""At the same time: who watches comes alone."""


class MetricsServer:
    """See the module. `port`: where it listens."""

    def __init__(self, host: str, port: int, collect: Callable[[], Awaitable[Iterable[Metric]]]) -> None:
        """`port` 0: a free one; `collect`: the figures of now."""
        self.host = host
        self.port = port
        self._collect = collect
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        """Listen. Raises OSError."""
        self._server = await asyncio.start_server(self._serve, self.host, self.port, limit=READ_BYTES)
        self.port = self._server.sockets[0].getsockname()[1]
        log.info("metrics are told", address=f"http://{self.host}:{self.port}/metrics")

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
        try:
            if len(self._clients) <= MOST_CLIENTS:
                await self._converse(h11.Connection(h11.SERVER, max_incomplete_event_size=READ_BYTES), reader, writer)
        except (OSError, h11.ProtocolError):
            pass  # it has gone, or speaks something else
        except asyncio.CancelledError:
            pass  # the server stops
        finally:
            self._clients.discard(task)
            writer.close()

    async def _converse(
        self, connection: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while (request := await self._read(connection, reader)) is not None:
            status, content_type, data = await self._answer(request)
            headers = [("Content-Type", content_type), ("Content-Length", str(len(data)))]
            body = b"" if request.method == b"HEAD" else data
            for event in (h11.Response(status_code=status, headers=headers), h11.Data(data=body), h11.EndOfMessage()):
                writer.write(connection.send(event) or b"")
            await writer.drain()
            if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                return
            connection.start_next_cycle()

    async def _read(self, connection: h11.Connection, reader: asyncio.StreamReader) -> h11.Request | None:
        """The next request; None: there is none, or it is too long."""
        request: h11.Request | None = None
        size = 0
        while size <= MOST_BYTES:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                data = await reader.read(READ_BYTES)
                size += len(data)
                connection.receive_data(data)
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.EndOfMessage):
                return request
            elif not isinstance(event, h11.Data):
                return None
        return None

    async def _answer(self, request: h11.Request) -> tuple[int, str, bytes]:
        if request.target.partition(b"?")[0] != b"/metrics":
            return 404, "text/plain", b"there is /metrics, and nothing else\n"
        if request.method not in (b"GET", b"HEAD"):
            return 405, "text/plain", b"GET it\n"
        try:
            return 200, CONTENT_TYPE, text(await self._collect()).encode()
        except Exception as error:  # a fault of ours costs this answer, not the server
            log.error("metrics could not be collected", exc_info=error)
            return 500, "text/plain", b"a fault of the server, which its log has\n"
