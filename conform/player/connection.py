"""One socket to one broker."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import struct
import time
from collections.abc import Awaitable, Callable, Iterator

from muster.conform.player import kafka_codec as codec
from muster.conform.player.story import Body, Reply, Send

Open = Callable[[str, int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""Opens a connection, and logs in if the broker wants that."""
RUNNER = "runner"
"""The name of the actor for requests that are not of the story."""


def codes(body: object) -> Iterator[int]:
    """Every error code in a body."""
    if isinstance(body, dict):
        for key, value in body.items():
            if key.endswith("ErrorCode"):
                yield value
            else:
                yield from codes(value)
    elif isinstance(body, list):
        for one in body:
            yield from codes(one)


def unheard(reply: Reply) -> None:
    """Nobody listens to replies."""


async def hang_up(writer: asyncio.StreamWriter) -> None:
    """Close a connection as clients do: without a wait until the broker ends TLS, too.

    Kafka reads nothing from a connection whose last request waits. So the wait would last until that is answered.
    """
    has_tls = not writer.is_closing() and writer.get_extra_info("ssl_object") is not None
    writer.close()
    if has_tls:
        writer.transport.abort()
    with contextlib.suppress(ConnectionError, OSError):
        await writer.wait_closed()


class Connection:
    """One socket; requests may wait in line on it, replies come in order."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        on_reply: Callable[[Reply], object],
    ) -> None:
        self.on_reply = on_reply
        self.open: collections.deque[tuple[Send, float, asyncio.Future[Body] | None]] = collections.deque()
        self.correlation = 0
        self.trouble = ""
        """Why no more answers can be read."""
        self.last = b""
        """The newest answer, without its length."""
        self.reader, self.writer = reader, writer
        self.task = asyncio.create_task(self.read())

    @classmethod
    async def to(
        cls, host: str, port: int, on_reply: Callable[[Reply], object] = unheard, opened: Open = asyncio.open_connection
    ) -> Connection:
        """Connect to a broker."""
        return cls(*await opened(host, port), on_reply)

    async def read(self) -> None:
        """Read answers until the connection ends."""
        try:
            while True:
                (size,) = struct.unpack(">i", await self.reader.readexactly(4))
                self.last = await self.reader.readexactly(size)
                self._take(self.last)
        except (asyncio.IncompleteReadError, OSError):
            self.trouble = "the broker closed the connection"
        except (ValueError, IndexError, struct.error) as problem:
            self.trouble = f"an answer cannot be read by Kafka's own definitions: {problem}"
        for send, _, future in self.open:
            if future is not None and not future.done():
                future.set_exception(ConnectionError(f"{self.trouble}, before {send.api} was answered"))

    def _take(self, frame: bytes) -> None:
        send, sent, future = self.open[0]
        _, body = codec.decode_response(send.api, send.version, frame)
        self.open.popleft()
        if future is None:
            took_ms = (time.monotonic() - sent) * 1000
            self.on_reply(Reply(send.actor, send.api, send.version, send.body, body, took_ms, frame=frame))
        elif not future.done():
            future.set_result(body)

    def send(self, send: Send, future: asyncio.Future[Body] | None = None) -> None:
        """Send a request. The answer goes to the future, or else to `on_reply`."""
        self.correlation += 1
        frame = codec.encode_request(send.api, send.version, self.correlation, send.client_id, send.body)
        self.open.append((send, time.monotonic(), future))
        self.writer.write(struct.pack(">i", len(frame)) + frame)

    async def ask(self, api: str, version: int, body: Body) -> Body:
        """Ask on behalf of the runner: the answer."""
        future: asyncio.Future[Body] = asyncio.get_running_loop().create_future()
        self.send(Send(RUNNER, api, version, RUNNER, body, None), future)
        async with asyncio.timeout(10):
            return await future

    async def close(self) -> None:
        """Close the socket."""
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError, ConnectionError, OSError):
            await self.task
        await hang_up(self.writer)
