from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import uvloop

from muster.coordinator.api.context import Channel
from muster.coordinator.net.connection import Connection
from muster.coordinator.net.limits import Limits
from muster.coordinator.net.listener import ACCEPTED_AT_ONCE, PAUSE_MS, Listener, ListenerAddress
from muster.coordinator.net.settings import NetSettings
from muster.coordinator.system.clock import LoopClock, ManualClock


class Silent:
    """Answers nothing, and keeps its channels, and the buffers of their sockets."""

    current = None

    def __init__(self) -> None:
        self.channels: list[Channel] = []
        self.buffers: tuple[int, int] | None = None
        self.seen = asyncio.Event()

    def open(self, channel: Channel, connection: Connection) -> Any:
        self.channels.append(channel)
        sock = connection._transport.get_extra_info("socket")
        self.buffers = buffers(sock)
        self.seen.set()
        return self

    def handle(self, data: bytes, start: int, end: int) -> None:
        raise AssertionError("nothing was sent")

    def closed(self) -> None:
        """Do nothing."""


def buffers(sock: Any) -> tuple[int, int]:
    """The sizes of a socket's send and receive buffer, as the system reports them."""
    return tuple(sock.getsockopt(socket.SOL_SOCKET, one) for one in (socket.SO_SNDBUF, socket.SO_RCVBUF))


async def first_connection(address: ListenerAddress, connect_to: str, **settings: Any) -> tuple[Silent, int, int]:
    """The `Silent` of the first connection, the port, and the client's own port."""
    silent, changed = Silent(), replace(NetSettings(), **settings)
    limits = Limits(changed, LoopClock(asyncio.get_running_loop()))
    listener = Listener(address, changed, limits, silent.open)
    await listener.start()
    gone = asyncio.Event()
    try:
        _, writer = await asyncio.open_connection(connect_to, listener.port)
        own_port = writer.get_extra_info("sockname")[1]
        await silent.seen.wait()
        writer.close()
        await writer.wait_closed()
        limits.when_empty(gone.set)
        await gone.wait()
    finally:
        limits.stop()
        listener.close()
        listener.close()
    return silent, listener.port, own_port


async def first_channel(address: ListenerAddress, connect_to: str) -> tuple[Channel, int, int]:
    """The channel of the first connection, the port, and the client's own port."""
    silent, port, own_port = await first_connection(address, connect_to)
    return silent.channels[0], port, own_port


async def test_the_channel_has_the_addresses_of_both_ends() -> None:
    channel, port, own_port = await first_channel(ListenerAddress("PLAINTEXT", "127.0.0.1", 0), "127.0.0.1")
    assert channel.listener == "PLAINTEXT"
    assert channel.endpoint == ("127.0.0.1", port)
    assert (channel.peer, channel.host) == (f"127.0.0.1:{own_port}", "/127.0.0.1")
    assert channel.closed


async def test_the_channel_has_the_advertised_address() -> None:
    address = ListenerAddress("PLAINTEXT", "127.0.0.1", 0, "broker.example", 9999)
    channel, _, _ = await first_channel(address, "127.0.0.1")
    assert channel.endpoint == ("broker.example", 9999)


async def test_an_advertised_host_without_port_gets_the_bound_port() -> None:
    channel, port, _ = await first_channel(ListenerAddress("A", "127.0.0.1", 0, "broker.example", 0), "127.0.0.1")
    assert channel.endpoint == ("broker.example", port)


@pytest.mark.parametrize("host", ["", "0.0.0.0"])
async def test_a_listener_may_listen_on_all_addresses(host: str) -> None:
    channel, port, _ = await first_channel(ListenerAddress("A", host, 0), "127.0.0.1")
    assert channel.endpoint == ("127.0.0.1", port)
    assert channel.host == "/127.0.0.1"


@pytest.mark.parametrize("wanted", [8192, 65536])
async def test_socket_buffers_are_set_when_they_are_given(wanted: int) -> None:
    silent, _, _ = await first_connection(
        ListenerAddress("A", "127.0.0.1", 0),
        "127.0.0.1",
        socket_send_buffer_bytes=wanted,
        socket_receive_buffer_bytes=wanted,
    )
    with socket.socket() as own:  # the system's result for a buffer of that size: twice as much, on Linux
        own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, wanted)
        own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, wanted)
        assert silent.buffers == buffers(own)


async def test_the_error_about_a_used_port_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}: "):
            await first_channel(ListenerAddress("A", "127.0.0.1", port), "127.0.0.1")


async def test_the_error_about_an_unusable_host_names_it() -> None:
    with pytest.raises(OSError, match=r"cannot listen on 192\.0\.2\.1:0: "):
        await first_channel(ListenerAddress("A", "192.0.2.1", 0), "127.0.0.1")


# ---- many at once


@contextlib.contextmanager
def clients(port: int, count: int) -> Iterator[list[socket.socket]]:
    """Connections that the system has, and that the listener has not accepted yet."""
    made = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
    try:
        yield made
    finally:
        for one in made:
            one.close()


@contextlib.asynccontextmanager
async def listening(clock: ManualClock) -> AsyncIterator[tuple[Listener, Silent]]:
    silent, limits = Silent(), Limits(NetSettings(), clock)
    listener = Listener(ListenerAddress("A", "127.0.0.1", 0), NetSettings(), limits, silent.open)
    await listener.start()
    try:
        yield listener, silent
    finally:
        listener.close()
        for one in limits.connections:
            one.abort()
        gone = asyncio.Event()
        limits.when_empty(gone.set)
        await gone.wait()
        limits.stop()


async def turn() -> None:
    """Run one iteration of the loop, with a look at every socket."""
    passed = asyncio.Event()
    asyncio.get_running_loop().call_later(0, passed.set)
    await passed.wait()


def on_asyncio() -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop()


def on_uvloop() -> asyncio.AbstractEventLoop:
    return pytest.importorskip("uvloop").new_event_loop()


@pytest.mark.parametrize("loop", [on_asyncio, on_uvloop])
def test_connections_that_arrive_together_are_accepted_together(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    # one connection in each iteration: then each of a thousand members that join at once would cause its own rebalance
    async def connect() -> None:
        async with listening(ManualClock()) as (listener, silent):
            with clients(listener.port, ACCEPTED_AT_ONCE - 1):
                for _ in range(5):
                    await turn()
                assert len(silent.channels) == ACCEPTED_AT_ONCE - 1

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(connect())


async def test_many_new_connections_are_accepted_over_several_iterations() -> None:
    async with listening(ManualClock()) as (listener, silent):
        with clients(listener.port, 3 * ACCEPTED_AT_ONCE):
            listener._accept()
            assert len(listener._opening) == ACCEPTED_AT_ONCE
            while len(silent.channels) < 3 * ACCEPTED_AT_ONCE:
                await turn()
            await turn()
            assert not listener._opening


async def test_accepting_pauses_when_no_file_descriptor_is_left() -> None:
    clock = ManualClock()
    async with listening(clock) as (listener, silent):
        with clients(listener.port, 1):
            limits = resource.getrlimit(resource.RLIMIT_NOFILE)
            spare = os.open(os.devnull, os.O_RDONLY)
            os.close(spare)  # the lowest free number: no number above it can be used
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (spare, limits[1]))
                for _ in range(5):
                    await turn()
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            for _ in range(5):
                await turn()
            assert not silent.channels
            clock.advance(PAUSE_MS)
            await silent.seen.wait()


async def test_a_connection_in_acceptance_is_closed_with_the_listener() -> None:
    async with listening(ManualClock()) as (listener, silent):
        with clients(listener.port, 1) as (client,):
            listener._accept()
            listener.close()
            await listener.settled()
            client.settimeout(10)
            assert client.recv(1) == b""
            assert not silent.channels


@pytest.mark.parametrize("turns", range(5))
def test_no_connection_stays_half_open_when_the_listener_closes(turns: int) -> None:
    async def main() -> None:
        async with listening(ManualClock()) as (listener, _):
            with clients(listener.port, 3):
                listener._accept()
                for _ in range(turns):
                    await turn()
                listener.close()
                await listener.settled()
                gone = asyncio.Event()
                listener._limits.when_empty(gone.set)
                for connection in listener._limits.connections:
                    connection.close()
                await asyncio.wait_for(gone.wait(), 10)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
