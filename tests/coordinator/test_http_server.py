"""What clients of the HTTP server may send, and what they get."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from muster.coordinator.system.clock import ManualClock
from muster.coordinator.system.http_server import HttpServer, Limits
from tests.support.certificates import Authority
from tests.support.muster import until

LIMITS = Limits(clients=2, patience_ms=1_000)
BUSY = PlainTextResponse("busy", 503, {"Connection": "close"})
HUGE = 64 * 1024 * 1024
"""More than the buffers of two sockets hold."""


class Asked:
    """The requests that came. `go`: they are answered."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, bytes]] = []
        self.cancelled = 0
        self.go = asyncio.Event()
        self.go.set()
        self.data = b"yes"

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        self.requests.append((request.method, str(request.url), await request.body()))
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        await Response(self.data)(scope, receive, send)


@pytest.fixture
async def asked() -> Asked:
    return Asked()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def server(asked: Asked, clock: ManualClock) -> AsyncIterator[HttpServer]:
    made = HttpServer(clock, "127.0.0.1", 0, LIMITS, asked.app, BUSY)
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

    async def ended(self, rest: bytes = b"") -> bool:
        with suppress(ConnectionError):
            assert await self.reader.read() == rest
        self.writer.transport.abort()  # whatever it still had to send
        return True


async def client_of(server: HttpServer) -> Client:
    return Client(*await asyncio.open_connection(server.host, server.port))


async def test_http_requests_of_a_connection_are_answered_in_order(server: HttpServer, asked: Asked) -> None:
    client = await client_of(server)
    client.send("POST /a?b=1", b"x" * 100)
    assert await client.answer() == (200, b"yes")
    client.send("HEAD /b")
    assert await client.answer(is_head=True) == (200, b"")
    client.send("GET /c")
    client.send("GET /d")
    assert [await client.answer() for _ in range(2)] == [(200, b"yes")] * 2
    assert asked.requests == [
        ("POST", "http://x/a?b=1", b"x" * 100),
        ("HEAD", "http://x/b", b""),
        ("GET", "http://x/c", b""),
        ("GET", "http://x/d", b""),
    ]
    client.writer.close()


async def test_a_malformed_http_request_closes_the_connection(server: HttpServer, asked: Asked) -> None:
    for sent in (b"\x00\x01\x02\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"x" * 200_000):
        client = await client_of(server)
        client.writer.write(sent)
        head = await client.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400")
        assert await client.ended(b"Invalid HTTP request received.")
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
    deaf.writer.transport.pause_reading()
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


@pytest.mark.parametrize("turns", range(5))
async def test_a_connection_that_arrives_while_the_http_server_stops_is_closed(server: HttpServer, turns: int) -> None:
    with socket.create_connection((server.host, server.port)) as late:
        late.setblocking(False)
        for _ in range(turns):  # in its second turn, the event loop has accepted, and has made no transport yet
            await asyncio.sleep(0)
        await server.stop()
        with suppress(ConnectionError):
            assert await asyncio.get_running_loop().sock_recv(late, 1) == b""
    assert server.clients == 0


async def test_a_tls_handshake_counts_as_a_connection_and_has_a_time_limit(
    asked: Asked, clock: ManualClock, tmp_path: Path
) -> None:
    authority = Authority()
    file = authority.signed("CN=door", host="127.0.0.1").pem(tmp_path / "door.pem")
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(file)
    trusting = ssl.create_default_context(cadata=authority.pem)
    server = HttpServer(clock, "127.0.0.1", 0, LIMITS, asked.app, BUSY, context=lambda: served)
    await server.start()
    silent = [await client_of(server) for _ in range(2)]
    await until(lambda: server.clients == 2)
    third = Client(*await asyncio.open_connection(server.host, server.port, ssl=trusting))
    third.send("GET /")
    assert await third.answer() == (503, b"busy")
    clock.advance(LIMITS.patience_ms)
    for one in (*silent, third):
        assert await one.ended()
    await until(lambda: server.clients == 0)
    plain = await client_of(server)
    plain.send("GET /")
    assert not (await plain.reader.read()).startswith(b"HTTP")
    first = Client(*await asyncio.open_connection(server.host, server.port, ssl=trusting))
    first.send("GET /a")
    assert await first.answer() == (200, b"yes")
    asked.data = bytes(1_000_000)
    first.send("GET /b")
    assert len((await first.answer())[1]) == len(asked.data)
    assert [url for _, url, _ in asked.requests] == ["https://x/a", "https://x/b"]
    await server.stop()
    await until(lambda: server.clients == 0)
    plain.writer.transport.abort()
    first.writer.transport.abort()
