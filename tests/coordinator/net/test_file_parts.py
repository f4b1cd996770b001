"""Answers whose records are parts of files, on a real socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from muster.coordinator.api.context import Channel
from muster.coordinator.log import FilePart, FileStorage
from muster.coordinator.net import file_parts
from muster.coordinator.net.connection import Connection, Shared
from muster.coordinator.net.connection_core import INPUT
from muster.coordinator.net.limits import Limits
from muster.coordinator.net.settings import NetSettings
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.topics.cluster_image import Endpoint
from tests.coordinator.net.connection_harness import frame
from tests.support.muster import until

SIZE = 1_000_000


class Requests:
    """Answers each request with its content, a part of a file, and an end."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.is_reading = False
        self.ended = 0

    def handle(self, data: bytes, start: int, end: int) -> Any:
        content = data[start:end]
        world = self.world
        number = len(world.answers)
        part = FilePart(world.view[number : number + SIZE], world.file, number)
        world.answers.append(content + world.data[number : number + SIZE] + b"end")
        return [content, part, b"end"]

    def closed(self) -> None:
        self.ended += 1


class World:
    """A connection of a real socket, whose client reads only when a test says so."""

    def __init__(self, directory: Path) -> None:
        self.data = bytes(range(256)) * 8000
        self.view = memoryview(self.data)
        self.file = FileStorage(directory).file("records")
        self.file.pwrite(self.data, 0)
        self.answers: list[bytes] = []
        self.requests = Requests(self)

    async def open(self) -> None:
        self.client, mine = socket.socketpair()
        self.client.setblocking(False)
        mine.setblocking(False)
        self.channel = Channel("PLAINTEXT", Endpoint("h", 1), "10.0.0.9:5", "/10.0.0.9")
        limits = Limits(NetSettings(), ManualClock(0))
        shared: Any = Shared(limits, 1_000_000, lambda _: self.channel, lambda *_: self.requests, lambda _: None)
        self.connection = Connection(shared)
        loop = asyncio.get_running_loop()
        self.transport, _ = await loop.connect_accepted_socket(lambda: self.connection, mine)

    async def send(self, *contents: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.client, b"".join(map(frame, contents)))

    async def read(self, size: int) -> bytes:
        """The next bytes that the client gets."""
        got = bytearray()
        while len(got) < size:
            data = await asyncio.get_running_loop().sock_recv(self.client, size - len(got))
            assert data, "the connection has ended"
            got += data
        return bytes(got)

    async def ended(self) -> None:
        await until(lambda: bool(self.requests.ended))


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path)
    await made.open()
    yield made
    made.client.close()
    made.connection.abort()
    made.file.close()
    await asyncio.sleep(0)


def test_bytes_from_any_place_on_are_copied(tmp_path: Path) -> None:
    file = FileStorage(tmp_path).file("records")
    file.pwrite(b"0123456789", 0)
    parts = [b"head", FilePart(memoryview(b"234567"), file, 2), memoryview(b"end")]
    whole = b"head234567end"
    assert [b"".join(file_parts.copied(parts, at)) for at in range(14)] == [whole[at:] for at in range(14)]
    file.close()


async def test_a_client_gets_each_answer(world: World) -> None:
    assert world.channel.takes_file_parts
    for content in (b"one", b"two"):
        await world.send(content)
        assert await world.read(3 + SIZE + 3) == content + world.data[len(world.answers) - 1 :][:SIZE] + b"end"


async def test_a_slow_client_gets_copies_of_the_rest(world: World, tmp_path: Path) -> None:
    await world.send(b"one")
    await until(lambda: bool(world.answers))
    assert 0 < world.transport.get_write_buffer_size() < SIZE, "the socket has some bytes, the transport has the rest"
    world.file.close()
    (tmp_path / "records").unlink()
    assert await world.read(3 + SIZE + 3) == world.answers[0]


async def test_requests_at_once_get_their_answers_in_order(world: World) -> None:
    await world.send(b"one", b"two", b"three")
    got = await world.read(3 * (3 + SIZE + 3) + 2)
    assert got == b"".join(world.answers)
    assert len(world.answers) == 3


async def test_a_request_waits_while_the_client_is_slow(world: World) -> None:
    await world.send(b"one")
    await until(lambda: bool(world.answers))
    await world.send(b"two")
    await until(lambda: not world.connection.core.reads_on or bool(world.connection.core.waits_for & INPUT))
    assert len(world.answers) == 1
    assert world.connection.unsent_bytes < SIZE
    assert await world.read(2 * (3 + SIZE + 3)) == b"".join(world.answers)


async def test_a_client_that_goes_away_ends_only_its_connection(world: World) -> None:
    await world.send(b"one")
    await until(lambda: bool(world.answers))
    world.client.close()
    await world.ended()
    assert world.connection.core.has_ended


async def test_a_connection_that_was_reset_is_not_logged(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def reset(*_: object) -> int:
        raise ConnectionResetError

    monkeypatch.setattr(file_parts, "writev", reset)
    with capture_logs() as logs:
        await world.send(b"one")
        await world.ended()
    assert not logs


@pytest.mark.parametrize("takes_some", [True, False])
async def test_a_file_that_cannot_be_read_ends_the_connection(
    world: World, monkeypatch: pytest.MonkeyPatch, takes_some: bool
) -> None:
    def failing(*_: object) -> int:
        if takes_some:
            return 10
        raise OSError(14, "Bad address")

    monkeypatch.setattr(file_parts, "writev", failing)
    world.file.truncate(10)
    with capture_logs() as logs:
        await world.send(b"one")
        await world.ended()
    assert [line["why"] for line in logs] == ["its answer could not be read"]


@pytest.mark.parametrize("fails", [False, True])
async def test_an_answer_behind_unsent_bytes_is_copied(world: World, fails: bool) -> None:
    first = b"x" * 200_000  # fewer bytes than those with which the connection waits for its client
    while not world.transport.get_write_buffer_size():
        world.transport.write(first)
    await world.send(b"one")
    if fails:
        world.file.truncate(10)
        with capture_logs() as logs:
            await until(lambda: bool(world.answers))
        assert [line["why"] for line in logs] == ["its answer could not be read"]
        return
    await until(lambda: bool(world.answers))
    got = b""
    while not got.endswith(b"end"):
        got += await asyncio.get_running_loop().sock_recv(world.client, 1 << 20)
    assert got.lstrip(b"x") == world.answers[0]
