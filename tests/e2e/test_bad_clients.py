"""Clients that send garbage, half a frame, or a length of 2 GB, or connect by the hundreds: no other client suffers."""

from __future__ import annotations

import asyncio
import contextlib
import random
import resource
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.aio import Member, members, send_numbered, shared_out
from tests.e2e.conftest import SERVER
from tests.e2e.ledger import Ledger, eventually
from tests.e2e.test_producers import batch
from tests.support import wire
from tests.support.servers import QUICK, MusterServer, ServerProcess

PARTITIONS = 8
NewTopic = Callable[[int], str]
UNSUPPORTED_VERSION = 35


def raw_frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def header(api_key: int, version: int, correlation_id: int = 1, client_id: bytes = b"bad") -> bytes:
    return struct.pack(">hhih", api_key, version, correlation_id, len(client_id)) + client_id


GARBAGE = {
    "a 2 GB length": struct.pack(">i", 2**31 - 1) + b"x" * 100,
    "a negative length": struct.pack(">i", -5) + b"x" * 100,
    "a length of nothing": struct.pack(">i", 0),
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a TLS hello": bytes.fromhex("1603010200010001fc0303") + bytes(500),
    "an unknown API": raw_frame(header(999, 0)),
    "an API that only brokers use": raw_frame(header(4, 7) + bytes(64)),
    "an unknown version": raw_frame(header(11, 99) + bytes(64)),
    "a negative version": raw_frame(header(12, -1) + bytes(64)),
    "a header that ends": raw_frame(b"\x00\x0c\x00"),
    "a client id beyond the frame": raw_frame(struct.pack(">hhih", 12, 3, 1, 3000) + b"short"),
    "a client id that is no UTF-8": raw_frame(header(12, 4, client_id=b"\xff\xfe") + bytes(8)),
    "a body that ends": raw_frame(header(11, 5) + wire.string("g") + b"\0\0"),
    "an array of two thousand million": raw_frame(header(3, 1) + struct.pack(">i", 2**31 - 1)),
    "a string of minus two": raw_frame(header(12, 3) + struct.pack(">h", -2) + bytes(20)),
    "a compact array of many millions": raw_frame(header(3, 12) + b"\0" + b"\xff\xff\xff\x7f" + bytes(20)),
    "an endless varint": raw_frame(header(3, 12) + b"\0" + b"\xff" * 40),
}


def closed_by(connection: socket.socket) -> bool:
    """Whether the server closes the connection, before or after it answers something."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return True


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_closes_its_own_connection_only(server: ServerProcess, kind: str) -> None:
    with (
        socket.create_connection(server.address, timeout=60) as good,
        socket.create_connection(server.address, timeout=60) as bad,
    ):
        wire.call(good, wire.api_versions())
        bad.sendall(GARBAGE[kind])
        if kind != "a length of nothing" or SERVER != "kafka":
            assert closed_by(bad)
        assert wire.call(good, wire.api_versions()).number("h") == 0


@pytest.mark.parametrize("sent", [b"\0", b"\0\0\0\x40", raw_frame(header(18, 0))[:-2]], ids=["1", "4", "all but 2"])
def test_half_a_frame_does_not_disturb_other_connections(server: ServerProcess, sent: bytes) -> None:
    with socket.create_connection(server.address, timeout=60) as half:
        half.sendall(sent)
        with socket.create_connection(server.address, timeout=60) as good:
            assert wire.call(good, wire.api_versions()).number("h") == 0


def test_frames_are_read_byte_by_byte_and_many_at_once(server: ServerProcess) -> None:
    frame = wire.frame(wire.api_versions())
    with socket.create_connection(server.address, timeout=60) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for position in range(len(frame)):
            connection.sendall(frame[position : position + 1])
        assert wire.receive(connection).number("h") == 0
        connection.sendall(frame * 50)
        assert [wire.receive(connection).number("h") for _ in range(50)] == [0] * 50


@pytest.mark.parametrize("version", [6, 99, 32767])
def test_api_versions_in_an_unknown_version_lists_the_known_versions(server: ServerProcess, version: int) -> None:
    with socket.create_connection(server.address, timeout=60) as connection:
        # a flexible header with a client's software name and version
        tags_and_body = b"\0" + b"\x02a" + b"\x021" + b"\0"
        answer = wire.call(connection, wire.Request(18, version, tags_and_body))
        assert answer.number("h") == UNSUPPORTED_VERSION
        rows = [(answer.number("h"), answer.number("h"), answer.number("h")) for _ in range(answer.number("i"))]
        assert answer.left == 0, "not the shape of version 0"
        assert 18 in [api_key for api_key, _, _ in rows]
        assert wire.call(connection, wire.api_versions(0)).number("h") == 0


def test_requests_in_one_write_are_answered_in_order(server: ServerProcess) -> None:
    requests = [wire.api_versions(), wire.find_coordinator("g"), wire.heartbeat("g", 1, "m"), wire.api_versions()]
    with socket.create_connection(server.address, timeout=60) as connection:
        connection.sendall(b"".join(wire.frame(request, number) for number, request in enumerate(requests)))
        order = []
        for _ in requests:
            (size,) = struct.unpack(">i", wire.receive_exactly(connection, 4))
            order.append(struct.unpack_from(">i", wire.receive_exactly(connection, size))[0])
    assert order == [0, 1, 2, 3]


class Vandal(threading.Thread):
    """Opens connections and sends garbage until it is stopped, and counts what it sent."""

    def __init__(self, server: ServerProcess, seed: int) -> None:
        super().__init__(name=f"vandal-{seed}")
        self.server, self.random, self.done, self.sent = server, random.Random(seed), threading.Event(), 0

    def run(self) -> None:
        kinds = list(GARBAGE.values())
        while not self.done.is_set():
            with contextlib.suppress(OSError), socket.create_connection(self.server.address, timeout=5) as connection:
                connection.settimeout(0.05)
                for _ in range(self.random.randrange(1, 4)):
                    connection.sendall(self.rubbish(kinds))
                    self.sent += 1
                    with contextlib.suppress(TimeoutError):
                        connection.recv(65536)
                if self.random.random() < 0.3:  # a reset instead of an orderly end
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.done.wait(0.02)

    def rubbish(self, kinds: list[bytes]) -> bytes:
        choice = self.random.random()
        if choice < 0.3:
            return self.random.randbytes(self.random.randrange(1, 2000))
        if choice < 0.6:
            key, version = self.random.choice([0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 19]), self.random.randrange(12)
            return raw_frame(header(key, version) + self.random.randbytes(self.random.randrange(200)))
        whole = self.random.choice(kinds)
        return whole[: self.random.randrange(1, len(whole) + 1)]


@contextmanager
def vandals(server: ServerProcess, count: int) -> Iterator[list[Vandal]]:
    crowd = [Vandal(server, seed) for seed in range(count)]
    for vandal in crowd:
        vandal.start()
    try:
        yield crowd
    finally:
        for vandal in crowd:
            vandal.done.set()
        for vandal in crowd:
            vandal.join(60)


async def test_a_group_keeps_working_beside_twenty_clients_that_send_garbage(
    server: ServerProcess, new_topic: NewTopic, group: str
) -> None:
    topic, ledger = new_topic(PARTITIONS), Ledger()
    trio = [Member(name, ledger, server.bootstrap, [topic], group) for name in ("a", "b", "c")]
    late = Member("late", ledger, server.bootstrap, [topic], group)
    with vandals(server, 20) as crowd:
        async with members(*trio):
            await shared_out(trio, PARTITIONS)
            await send_numbered(server.bootstrap, topic, PARTITIONS, 200)
            async with members(late):
                await shared_out([*trio, late], PARTITIONS)
                await send_numbered(server.bootstrap, topic, PARTITIONS, 200, first=200)
                await eventually(lambda: len(ledger) == 400, "400 records")
                await eventually(lambda: sum(vandal.sent for vandal in crowd) >= 200, "much garbage")
    assert not ledger.twice
    assert server.running


async def test_five_hundred_concurrent_connections_are_all_answered(server: ServerProcess) -> None:
    """Five hundred at once, each with a request under way; all are answered."""
    request = wire.frame(wire.api_versions())

    async def one() -> int:
        reader, writer = await asyncio.open_connection(*server.address)
        try:
            await barrier.wait()
            answers = 0
            for _ in range(3):
                writer.write(request)
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                answers += len(await reader.readexactly(size)) > 6
            return answers
        finally:
            writer.close()
            await writer.wait_closed()

    barrier = asyncio.Barrier(500)
    assert sum(await asyncio.gather(*[one() for _ in range(500)])) == 1500


@pytest.fixture
def many_files() -> Iterator[int]:
    """The number of connections that this process may open, up to ten thousand; afterwards the limit is as before."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield min(10_000, hard - 1000)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.skipif(SERVER == "kafka", reason="a small Kafka node stops serving its group meanwhile")
async def test_ten_thousand_idle_connections_do_not_disturb_a_group(
    server: ServerProcess, new_topic: NewTopic, group: str, many_files: int
) -> None:
    """Ten thousand connections are opened and stay silent. A group continues, and an idle connection still works."""
    topic, ledger = new_topic(PARTITIONS), Ledger()
    pair = [Member(name, ledger, server.bootstrap, [topic], group) for name in ("a", "b")]
    with contextlib.ExitStack() as crowd:
        async with members(*pair):
            await shared_out(pair, PARTITIONS)
            for _ in range(many_files):
                connection = crowd.enter_context(socket.create_connection(server.address, timeout=30))
            await send_numbered(server.bootstrap, topic, PARTITIONS, 80)
            await eventually(lambda: len(ledger) == 80, "80 records")
            answer = await asyncio.to_thread(wire.call, connection, wire.api_versions())
            assert answer.number("h") == 0
    assert not ledger.twice


def test_a_client_that_does_not_read_its_answers_delays_only_itself(server: ServerProcess) -> None:
    """The client sends requests without end. The server stops reading them, and serves other clients."""
    with (
        socket.create_connection(server.address, timeout=60) as greedy,
        socket.create_connection(server.address, timeout=60) as good,
    ):
        greedy.setblocking(False)
        requests = memoryview(wire.frame(wire.api_versions()) * 1000)
        held_up = False
        for _ in range(2000):
            try:
                greedy.send(requests)
            except BlockingIOError:
                held_up = True
                break
            assert wire.call(good, wire.api_versions()).number("h") == 0
        assert held_up
        assert wire.call(good, wire.api_versions()).number("h") == 0


@pytest.mark.skipif(SERVER == "kafka", reason="Kafka writes its log elsewhere")
def test_a_malformed_frame_is_logged_in_one_line(start_server: Callable[..., ServerProcess]) -> None:
    server = start_server(in_memory=True)
    with socket.create_connection(server.address, timeout=60) as bad:
        peer = "{}:{}".format(*bad.getsockname())
        bad.sendall(raw_frame(header(11, 5, client_id=b"the-vandal") + wire.string("g") + b"\0\0"))
        assert closed_by(bad)
    server.stop()
    lines = [line for line in server.log().splitlines() if peer in line]
    assert len(lines) == 1
    assert "the-vandal" in lines[0]
    assert "JoinGroup" in lines[0]


@pytest.mark.parametrize("limit", ["max.connections", "max.connections.per.ip"])
def test_connections_beyond_the_limit_are_refused(start_server: Callable[..., ServerProcess], limit: str) -> None:
    if SERVER == "kafka":
        pytest.skip("Kafka's own start-up needs more connections")
    server = start_server({limit: "5"}, in_memory=True)
    held = [socket.create_connection(server.address, timeout=60) for _ in range(5)]
    try:
        for connection in held:
            assert wire.call(connection, wire.api_versions()).number("h") == 0
        with socket.create_connection(server.address, timeout=60) as refused:
            if limit == "max.connections.per.ip":
                assert closed_by(refused)
        assert wire.call(held[0], wire.api_versions()).number("h") == 0
    finally:
        for connection in held:
            connection.close()
    with socket.create_connection(server.address, timeout=60) as again:
        assert wire.call(again, wire.api_versions()).number("h") == 0


def test_a_frame_above_socket_request_max_bytes_closes_the_connection(
    start_server: Callable[..., ServerProcess],
) -> None:
    server = start_server({"socket.request.max.bytes": "10000"}, in_memory=True)
    with socket.create_connection(server.address, timeout=60) as connection:
        assert wire.call(connection, wire.api_versions()).number("h") == 0
        connection.sendall(struct.pack(">i", 10001))
        assert closed_by(connection)


def test_an_idle_connection_is_closed(start_server: Callable[..., ServerProcess]) -> None:
    server = start_server({"connections.max.idle.ms": "300"}, in_memory=True)
    with socket.create_connection(server.address, timeout=30) as connection:
        assert wire.call(connection, wire.api_versions()).number("h") == 0
        assert closed_by(connection)


class FewFiles(MusterServer):
    """A server that may have 400 open files."""

    def command(self) -> Sequence[str | Path]:
        return ["sh", "-c", 'ulimit -n 400 && exec "$@"', "sh", *super().command()]


@pytest.mark.skipif(SERVER == "kafka", reason="Kafka keeps three files for each partition, and ends without them")
def test_many_partitions_and_connections_work_with_a_low_file_limit(tmp_path: Path) -> None:
    """600 partitions are written and read beside as many connections as the limit allows."""
    server = FewFiles(tmp_path, QUICK, arguments=["--topic", "many:600"])
    server.start()
    try:
        with contextlib.ExitStack() as crowd:
            first = crowd.enter_context(socket.create_connection(server.address, timeout=60))
            for _ in range(300):
                crowd.enter_context(socket.create_connection(server.address, timeout=60))
            for partition in range(600):
                records = batch(-1, -1, -1, [b"x%d" % partition])
                answer = wire.call(first, wire.produce("many", partition, records))
                assert answer.number("i") == 1
                answer.string()
                assert (answer.number("i"), answer.number("i"), answer.number("h")) == (1, partition, 0)
            for partition in range(600):
                assert b"x%d" % partition in wire.call(first, wire.fetch("many", partition, 0)).payload
    finally:
        server.stop()
    assert "Too many open files" not in server.log()
