"""Metrics as Prometheus reads them, and the HTTP server that serves them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from muster.coordinator.server.metrics import (
    COUNTER,
    GAUGE,
    MAX_CLIENTS,
    PATIENCE_MS,
    Metric,
    MetricsServer,
    prometheus_text,
    single,
)
from muster.coordinator.system.clock import ManualClock
from tests.support.muster import until


def test_metrics_have_the_text_format_of_prometheus() -> None:
    odd = 'a "group"\\\n'
    metrics = [
        single("muster_up", GAUGE, "It is\nup \\ down.", 1),
        Metric("muster_x_total", COUNTER, "X.", {("b", odd): 2.5, ("a", ""): 12345678901}, ("one", "two")),
        Metric("muster_none", GAUGE, "Nothing yet.", {}, ("state",)),
    ]
    assert prometheus_text(metrics) == (
        "# HELP muster_up It is\\nup \\\\ down.\n"
        "# TYPE muster_up gauge\n"
        "muster_up 1\n"
        "# HELP muster_x_total X.\n"
        "# TYPE muster_x_total counter\n"
        'muster_x_total{one="a",two=""} 12345678901\n'
        'muster_x_total{one="b",two="a \\"group\\"\\\\\\n"} 2.5\n'
        "# HELP muster_none Nothing yet.\n"
        "# TYPE muster_none gauge\n"
    )
    assert prometheus_text([]) == ""


class MetricsRequests:
    fails = False

    async def __call__(self) -> list[Metric]:
        if self.fails:
            raise RuntimeError("a fault")
        return [single("muster_up", GAUGE, "Up.", 1)]


@pytest.fixture
def requests() -> MetricsRequests:
    return MetricsRequests()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def server(requests: MetricsRequests, clock: ManualClock) -> AsyncIterator[MetricsServer]:
    made = MetricsServer(clock, "127.0.0.1", 0, requests)
    await made.start()
    yield made
    await made.stop()


async def exchange(server: MetricsServer, *requests: bytes) -> list[tuple[bytes, bytes]]:
    """Status lines and bodies, over one connection."""
    reader, writer = await asyncio.open_connection(server.http.host, server.http.port)
    found = []
    for request in requests:
        writer.write(request + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        body = b"" if request.startswith(b"HEAD") else await reader.readexactly(length)
        found.append((head.split(b"\r\n")[0].split(b" ")[1], body))
    writer.close()
    return found


async def test_the_metrics_server_answers_get_metrics_only(server: MetricsServer, requests: MetricsRequests) -> None:
    whole = b"# HELP muster_up Up.\n# TYPE muster_up gauge\nmuster_up 1\n"
    assert await exchange(server, b"GET /metrics", b"GET /metrics?x=1", b"HEAD /metrics", b"GET /metrics") == [
        (b"200", whole), (b"200", whole), (b"200", b""), (b"200", whole)
    ]  # fmt: skip
    assert (await exchange(server, b"GET /"))[0][0] == b"404"
    assert (await exchange(server, b"DELETE /metrics"))[0][0] == b"405"
    requests.fails = True
    assert (await exchange(server, b"GET /metrics"))[0][0] == b"500"
    requests.fails = False
    assert (await exchange(server, b"GET /metrics"))[0][0] == b"200"


async def test_a_malformed_http_request_closes_the_connection(server: MetricsServer) -> None:
    for sent in (b"\x00\x01\x02 hello\r\n\r\n", b"GET /metrics HTTP/1.1\r\nHost: x\r\nA: " + b"x" * 200_000):
        reader, writer = await asyncio.open_connection(server.http.host, server.http.port)
        writer.write(sent)
        with suppress(ConnectionResetError):  # more events had not arrived yet
            assert await reader.read() == b""
        writer.transport.abort()
    assert (await exchange(server, b"GET /metrics"))[0][0] == b"200"


async def test_silent_http_clients_do_not_block_others_for_long(server: MetricsServer, clock: ManualClock) -> None:
    silent = [await asyncio.open_connection(server.http.host, server.http.port) for _ in range(MAX_CLIENTS)]
    await until(lambda: server.http.clients == MAX_CLIENTS)
    assert await exchange(server, b"GET /metrics") == [(b"503", b"20 connections are open already\n")]
    clock.advance(PATIENCE_MS)
    for reader, writer in silent:
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
    await until(lambda: server.http.clients == 0)
    assert (await exchange(server, b"GET /metrics"))[0][0] == b"200"


async def test_stopping_the_metrics_server_closes_its_connections(server: MetricsServer) -> None:
    reader, writer = await asyncio.open_connection(server.http.host, server.http.port)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    await reader.readuntil(b"muster_up 1\n")
    await server.stop()
    await server.stop()
    assert await reader.read() == b""
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(server.http.host, server.http.port)
