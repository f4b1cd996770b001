from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from typing import Any

import pytest

from muster.coordinator.api.context import Channel
from muster.coordinator.clock import LoopClock
from muster.coordinator.net.connection import Connection
from muster.coordinator.net.limits import Limits
from muster.coordinator.net.listener import Listener, ListenerAddress
from muster.coordinator.net.settings import NetSettings


class Silent:
    """Answers nothing, and keeps the channels it has seen."""

    current = None

    def __init__(self) -> None:
        self.channels: list[Channel] = []
        self.seen = asyncio.Event()

    def open(self, channel: Channel, connection: Connection) -> Any:
        self.channels.append(channel)
        self.seen.set()
        return self

    def handle(self, data: bytes, start: int, end: int) -> None:
        raise AssertionError("nothing was sent")

    def closed(self) -> None:
        """Nothing to do."""


async def first_channel(address: ListenerAddress, connect_to: str, **settings: Any) -> tuple[Channel, int, int]:
    """The channel of the first connection, the port, and the client's own port."""
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
    return silent.channels[0], listener.port, own_port


async def test_the_channel_says_who_is_where() -> None:
    channel, port, own_port = await first_channel(ListenerAddress("PLAINTEXT", "127.0.0.1", 0), "127.0.0.1")
    assert channel.listener == "PLAINTEXT"
    assert channel.endpoint == ("127.0.0.1", port)
    assert (channel.peer, channel.host) == (f"127.0.0.1:{own_port}", "/127.0.0.1")
    assert channel.closed


async def test_the_advertised_address_is_told_instead() -> None:
    address = ListenerAddress("PLAINTEXT", "127.0.0.1", 0, "broker.example", 9999)
    channel, _, _ = await first_channel(address, "127.0.0.1")
    assert channel.endpoint == ("broker.example", 9999)


async def test_a_port_alone_may_be_left_to_the_connection() -> None:
    channel, port, _ = await first_channel(ListenerAddress("A", "127.0.0.1", 0, "broker.example", 0), "127.0.0.1")
    assert channel.endpoint == ("broker.example", port)


@pytest.mark.parametrize("host", ["", "0.0.0.0"])
async def test_all_addresses(host: str) -> None:
    channel, port, _ = await first_channel(ListenerAddress("A", host, 0), "127.0.0.1")
    assert channel.endpoint == ("127.0.0.1", port)
    assert channel.host == "/127.0.0.1"


async def test_socket_buffers_are_set_when_they_are_given() -> None:
    await first_channel(
        ListenerAddress("A", "127.0.0.1", 0),
        "127.0.0.1",
        socket_send_buffer_bytes=8192,
        socket_receive_buffer_bytes=8192,
    )


async def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}: "):
            await first_channel(ListenerAddress("A", "127.0.0.1", port), "127.0.0.1")


async def test_a_host_that_is_not_there_is_named() -> None:
    with pytest.raises(OSError, match=r"cannot listen on 192\.0\.2\.1:0: "):
        await first_channel(ListenerAddress("A", "192.0.2.1", 0), "127.0.0.1")
