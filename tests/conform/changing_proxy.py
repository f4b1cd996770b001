"""A proxy that changes the answers of a broker on their way to a client: what a broker would be that is wrong there.

Standard library and the player's codec only, because the clients that it stands before judge the product.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any

from muster.conform.player import kafka_codec as codec
from muster.conform.probes.catalogue import NAMES

Change = Callable[[str, int, dict[str, Any], bytes], "bytes | dict[str, Any] | None"]
"""Gets the API, the version, the request's body and the answer's frame. It gives the body that the answer shall have,
a frame, or None for the answer as it is.
"""


class ChangingProxy:
    def __init__(self, target: tuple[str, int], change: Change) -> None:
        self.target, self.change = target, change
        self.server: asyncio.Server | None = None
        self.own: tuple[str, int] | None = None
        """The address that clients get for every broker. None means that they get the brokers' own."""
        self.changed = 0
        """How many answers were changed."""
        self.tasks: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        assert self.server is not None
        return int(self.server.sockets[0].getsockname()[1])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs, ours = await asyncio.open_connection(*self.target)
        asked: dict[int, tuple[str, int, dict[str, Any]]] = {}
        both = asyncio.gather(self.requests(reader, ours, asked), self.answers(theirs, writer, asked))
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, OSError, asyncio.CancelledError):
            await both
        both.cancel()
        for one in (writer, ours):
            one.close()

    async def requests(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        asked: dict[int, tuple[str, int, dict[str, Any]]],
    ) -> None:
        while True:
            frame = await framed_bytes(reader)
            key, version, correlation = struct.unpack_from(">hhi", frame)
            api = NAMES.get(key, "")
            if api and codec.in_range(codec.MESSAGES[api + "Request"]["validVersions"], version):
                asked[correlation] = api, version, request_body(api, version, frame)
            writer.write(struct.pack(">i", len(frame)) + frame)

    def redirected(self, api: str, version: int, frame: bytes) -> bytes:
        """The answer with the address of the proxy in place of the brokers' addresses."""
        if self.own is None or api not in ("Metadata", "FindCoordinator"):
            return frame
        host, port = self.own
        body = body_of(api, version, frame)
        for row in [body, *body.get("Brokers", []), *body.get("Coordinators", [])]:
            if row.get("Host"):
                row |= {"Host": host, "Port": port}
        return frame[: codec.answer_begins_at(api, version)] + codec.encode(api + "Response", version, body)

    async def answers(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        asked: dict[int, tuple[str, int, dict[str, Any]]],
    ) -> None:
        while True:
            frame = await framed_bytes(reader)
            about = asked.pop(struct.unpack_from(">i", frame)[0], None)
            if about is not None:
                api, version, body = about
                frame = self.redirected(api, version, frame)
                made = self.change(api, version, body, frame)
                if isinstance(made, dict):
                    made = frame[: codec.answer_begins_at(api, version)] + codec.encode(api + "Response", version, made)
                if made is not None:
                    self.changed += made != frame
                    frame = made
            writer.write(struct.pack(">i", len(frame)) + frame)


async def framed_bytes(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


def request_body(api: str, version: int, frame: bytes) -> dict[str, Any]:
    size = struct.unpack_from(">h", frame, 8)[0]
    at = 10 + max(size, 0)
    if codec.is_flexible(api + "Request", version):
        at += 1
    return codec.decode(api + "Request", version, frame, at)


def body_of(api: str, version: int, frame: bytes) -> dict[str, Any]:
    return codec.decode(api + "Response", version, frame, codec.answer_begins_at(api, version))


@contextlib.asynccontextmanager
async def changing(target: tuple[str, int], change: Change) -> AsyncIterator[ChangingProxy]:
    proxy = ChangingProxy(target, change)
    proxy.server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    try:
        yield proxy
    finally:
        proxy.server.close()
