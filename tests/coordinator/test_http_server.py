"""What clients of the small HTTP server may send, and what they get."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from muster.coordinator.system.clock import ManualClock
from muster.coordinator.system.http_server import HttpServer, Limits, Request, Response
from tests.support.muster import until

LIMITS = Limits(body_bytes=100, clients=2, patience_ms=1_000)
HUGE = 64 * 1024 * 1024
"""More than the buffers of two sockets hold."""


class Asked:
    """The requests that came. `go`: they are answered."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.cancelled = 0
        self.go = asyncio.Event()
        self.go.set()
        self.data = b"yes"

    async def answer(self, request: Request) -> Response:
        self.requests.append(request)
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return Response(200, "text/plain", self.data)


@pytest.fixture
async def asked() -> Asked:
    return Asked()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def server(asked: Asked, clock: ManualClock) -> AsyncIterator[HttpServer]:
    made = HttpServer(clock, "127.0.0.1", 0, LIMITS, asked.answer, Response(503, "text/plain", b"busy"))
    await made.start()
    yield made
    await made.stop()


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, line: str, body: bytes = b"", length: int | None = None) -> None:
        size = len(body) if length is None else length
        self.writer.write(f"{line} HTTP/1.1\r\nHost: x\r\nX-Name: v\r\nContent-Length: {size}\r\n\r\n".encode() + body)

    async def answer(self, *, is_head: bool = False) -> tuple[int, bytes]:
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        return int(head.split()[1]), b"" if is_head else await self.reader.readexactly(length)

    async def ended(self) -> bool:
        with suppress(ConnectionError):
            assert await self.reader.read() == b""
        self.writer.transport.abort()  # whatever it still had to send
        return True


async def client_of(server: HttpServer) -> Client:
    return Client(*await asyncio.open_connection(server.host, server.port))


async def test_http_requests_of_a_connection_are_answered_in_order(server: HttpServer, asked: Asked) -> None:
    client = await client_of(server)
    client.send("POST /a?b=1", b"x" * LIMITS.body_bytes)
    assert await client.answer() == (200, b"yes")
    client.send("HEAD /b")
    assert await client.answer(is_head=True) == (200, b"")
    client.send("GET /c")
    client.send("GET /d")
    assert [await client.answer() for _ in range(2)] == [(200, b"yes")] * 2
    first = asked.requests[0]
    assert (first.method, first.target, first.headers[b"x-name"], first.body) == (
        "POST", "/a?b=1", b"v", b"x" * LIMITS.body_bytes
    )  # fmt: skip
    assert [one.target for one in asked.requests] == ["/a?b=1", "/b", "/c", "/d"]
    client.writer.close()


async def test_a_too_large_http_body_closes_the_connection(server: HttpServer, asked: Asked) -> None:
    client = await client_of(server)
    client.send("POST /", b"x" * (LIMITS.body_bytes + 1), length=1_000_000)
    assert await client.answer() == (200, b"yes")
    assert asked.requests[0].body is None
    assert await client.ended()


async def test_a_malformed_http_request_closes_the_connection(server: HttpServer, asked: Asked) -> None:
    for sent in (b"\x00\x01\x02\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"x" * 200_000):
        client = await client_of(server)
        client.writer.write(sent)
        assert await client.ended()
    assert not asked.requests


async def test_surplus_http_connections_are_refused_with_an_answer_up_to_a_limit(server: HttpServer) -> None:
    clients = [await client_of(server) for _ in range(2 * LIMITS.clients)]
    await until(lambda: server.clients == 2 * LIMITS.clients)
    assert await (await client_of(server)).ended()
    clients[0].send("GET /")
    clients[-1].send("GET /")
    assert await clients[0].answer() == (200, b"yes")
    assert await clients[-1].answer() == (503, b"busy")
    assert await clients[-1].ended()
    for client in clients:
        client.writer.close()


async def test_an_http_client_that_sends_or_reads_nothing_is_closed(
    server: HttpServer, asked: Asked, clock: ManualClock
) -> None:
    silent, slow = await client_of(server), await client_of(server)
    slow.send("POST /", b"x", length=50)
    await until(lambda: server.clients == 2)
    clock.advance(LIMITS.patience_ms)
    assert await silent.ended()
    assert await slow.ended()
    await until(lambda: server.clients == 0)
    asked.data = bytes(HUGE)
    deaf = await client_of(server)
    deaf.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a transport of a socket
    deaf.send("GET /")
    await until(lambda: bool(asked.requests))
    assert server.clients == 1
    while server.clients:
        clock.advance(LIMITS.patience_ms)
        await asyncio.sleep(0)
    deaf.writer.transport.abort()


async def test_a_late_http_answer_is_sent_unless_the_client_has_left(
    server: HttpServer, asked: Asked, clock: ManualClock
) -> None:
    asked.go.clear()
    one, other = await client_of(server), await client_of(server)
    one.send("GET /one")
    other.send("GET /other")
    await until(lambda: len(asked.requests) == 2)
    clock.advance(10 * LIMITS.patience_ms)
    other.writer.close()
    await until(lambda: asked.cancelled == 1)
    asked.go.set()
    assert await one.answer() == (200, b"yes")
    one.writer.close()


async def test_stopping_the_http_server_closes_all_connections(server: HttpServer, asked: Asked) -> None:
    asked.go.clear()
    client = await client_of(server)
    client.send("GET /")
    await until(lambda: bool(asked.requests))
    await server.stop()
    await server.stop()
    assert asked.cancelled == 1
    assert await client.ended()
    with pytest.raises(ConnectionRefusedError):
        await client_of(server)
