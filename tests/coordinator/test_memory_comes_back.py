"""The memory of a connection is free when it has ended, without the cyclic collector, on both event loops."""

from __future__ import annotations

import asyncio
import gc
import socket
import struct
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
import uvloop

from muster.coordinator.server import Server
from tests.support import wire
from tests.support.muster import running

ROUNDS = 3


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def runner(request: pytest.FixtureRequest) -> Iterator[asyncio.Runner]:
    with asyncio.Runner(loop_factory=request.param) as runner:
        yield runner


def member(connection: socket.socket) -> None:
    """A member that joins, and sends heartbeats and commits until both are cached; then its JoinGroup is parked."""
    asked = wire.read_join_group(wire.call(connection, wire.join_group("g", "")))
    joined = wire.read_join_group(wire.call(connection, wire.join_group("g", asked.member)))
    sync = wire.sync_group("g", joined.generation, joined.member, [(joined.member, b"all")])
    assert wire.read_error(wire.call(connection, sync)) == 0
    for number in range(3):
        assert wire.read_error(wire.call(connection, wire.heartbeat("g", joined.generation, joined.member))) == 0
        commit = wire.offset_commit("g", joined.generation, joined.member, "t", 0, number)
        assert wire.read_topic_errors(wire.call(connection, commit)) == [0]
    connection.sendall(wire.frame(wire.leave_group("g", joined.member)))
    wire.receive(connection)


def half(connection: socket.socket) -> None:
    assert wire.call(connection, wire.api_versions()).number("h") == 0
    connection.sendall(struct.pack(">i", 10_000_000) + bytes(2_000_000))


def parked(connection: socket.socket) -> None:
    assert wire.call(connection, wire.api_versions()).number("h") == 0
    connection.sendall(wire.frame(wire.fetch("t", 0, 0, max_wait_ms=60_000)) + wire.frame(wire.api_versions()))


def unread(connection: socket.socket) -> None:
    assert wire.call(connection, wire.api_versions()).number("h") == 0
    connection.sendall(wire.frame(wire.api_versions()) * 500)


def refused(connection: socket.socket) -> None:
    connection.sendall(struct.pack(">i", -1))
    assert not connection.recv(1)


@pytest.mark.parametrize("story", [member, half, parked, unread, refused])
def test_an_ended_connection_leaves_no_reference_cycle(
    runner: asyncio.Runner, story: Callable[[socket.socket], None]
) -> None:
    def client(server: Server) -> None:
        for _ in range(ROUNDS):
            with socket.create_connection(("127.0.0.1", server.bound[0].port), timeout=20) as connection:
                story(connection)

    async def main() -> Counter[str]:
        async with running(topics=["t:1"]) as server:
            gc.collect()
            gc.disable()
            await asyncio.to_thread(client, server)
            assert server.nodes[0].limits is not None
            ended = asyncio.Event()
            server.nodes[0].limits.when_empty(ended.set)
            await ended.wait()
            await asyncio.sleep(0)
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            found = Counter(type(one).__qualname__ for one in gc.garbage)
            gc.set_debug(0)
            gc.garbage.clear()
            return found

    try:
        found = runner.run(main())
    finally:
        gc.set_debug(0)
        gc.enable()
    ours = {
        "Connection",
        "ConnectionRequests",
        "Channel",
        "Exchange",
        "ConnectionRoute",
        "RequestContext",
        "FrameSplitter",
        "_SelectorSocketTransport",
        "TCPTransport",
    }
    assert not ours & set(found), found
