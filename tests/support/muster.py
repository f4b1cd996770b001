"""A server in the event loop of the test, on a free port, and a small client that sends messages. The fixture
`muster_server` of tests/coordinator is such a server in memory; its groups settle at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from muster.coordinator.api.exchange import NO_INTERCEPT, Intercept
from muster.coordinator.api.observer import RequestObserver
from muster.coordinator.config import load
from muster.coordinator.server import Server
from muster.coordinator.server.metrics import ServerMetrics
from muster.protocol import frames
from muster.protocol.api import api, api_named
from muster.protocol.message import Message

QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "group.share.assignment.interval.ms": "0",
    "share.coordinator.state.topic.num.partitions": "2",
}


@asynccontextmanager
async def running(
    properties: dict[str, str] | None = None,
    *,
    data_dir: Path | None = None,
    topics: list[str] | None = None,
    intercept: Intercept = NO_INTERCEPT,
    observer: RequestObserver | None = None,
    caches: bool = True,
) -> AsyncIterator[Server]:
    """A server that runs inside the block, and is stopped at its end."""
    overrides = [f"{name}={value}" for name, value in {**QUICK, **(properties or {})}.items()]
    config = load(
        file=None,
        environment={},
        overrides=overrides,
        listen=None if properties and "listeners" in properties else "127.0.0.1:0",
        advertise=None,
        data_dir=data_dir,
        in_memory=data_dir is None,
        topics=topics or [],
    )
    figures = observer.coordinator.shards if isinstance(observer, ServerMetrics) else None
    server = Server(config, intercept=intercept, observer=observer, caches=caches, figures=figures)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


class Client:
    """A connection that sends requests as messages and reads the answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str | None) -> None:
        self.reader = reader
        self.writer = writer
        self.client_id = client_id
        self._correlation_id = 0

    def send(self, request: Message, version: int | None = None) -> tuple[int, int, int]:
        """Send a request, by default in the newest version, and return what `receive` needs."""
        served = api_named(type(request).__name__.removesuffix("Request"))
        version = served.max_version if version is None else version
        self._correlation_id += 1
        self.writer.write(frames.request_frame(served, version, self._correlation_id, request, self.client_id))
        return served.key, version, self._correlation_id

    async def receive(self, asked: tuple[int, int, int]) -> Any:
        """Read the next answer, which must belong to the request."""
        key, version, wanted = asked
        data = await self.reader.readexactly(int.from_bytes(await self.reader.readexactly(4), "big"))
        correlation_id, body = frames.decode_response_header(api(key), version, data, 0, len(data))
        assert correlation_id == wanted
        return api(key).decode_response(version, data, body)

    async def ask(self, request: Message, version: int | None = None) -> Any:
        """Send a request and read its answer."""
        return await self.receive(self.send(request, version))

    async def closed(self) -> bool:
        """Wait until the server has closed the connection, and ignore all bytes until then."""
        with suppress(ConnectionResetError):
            while await self.reader.read(65536):
                pass
        return True


@asynccontextmanager
async def connected(server: Server, client_id: str | None = "test") -> AsyncIterator[Client]:
    """A connection to the first listener, closed at the end of the block."""
    bound = server.bound[0]
    reader, writer = await asyncio.open_connection(bound.host or "127.0.0.1", bound.port, limit=1 << 24)
    try:
        yield Client(reader, writer, client_id)
    finally:
        writer.close()
        # the server may have reset the connection: some tests are about that
        with suppress(OSError):
            await writer.wait_closed()


async def until(condition: Callable[[], bool], turns: int = 20_000) -> None:
    """Run the event loop until the condition holds, and fail when it never does."""
    loop = asyncio.get_running_loop()
    for _ in range(turns):
        if condition():
            return
        turned: Awaitable[None] = _turn(loop)
        await turned
    raise AssertionError("it never came true")


def _turn(loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
    turned: asyncio.Future[None] = loop.create_future()
    loop.call_soon(turned.set_result, None)
    return turned
