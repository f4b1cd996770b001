"""A listener with TLS: real sockets, a certificate of the test, both event loops."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import subprocess
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvloop
from structlog.testing import capture_logs

from muster.coordinator.net.connection import Connection
from muster.coordinator.net.connection_core import HANDSHAKING, INPUT_HIGH_BYTES, READY
from muster.coordinator.net.limits import Limits
from muster.coordinator.net.listener import Listener, ListenerAddress, Security
from muster.coordinator.net.settings import NetSettings
from muster.coordinator.net.tls import handshake
from muster.coordinator.net.tls.context import ListenerTls
from muster.coordinator.net.tls.settings import TlsSettings
from muster.coordinator.system.clock import LoopClock
from tests.coordinator.net.connection_harness import Echo, frame


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and its self-signed certificate for localhost, in one file."""
    path = tmp_path_factory.mktemp("tls") / "localhost.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", path, "-out", f"{path}.cert"],
        check=True, capture_output=True,
    )  # fmt: skip
    path.write_bytes(path.read_bytes() + Path(f"{path}.cert").read_bytes())
    return path


def tls_of(certificate: Path, **changes: Any) -> ListenerTls:
    settings = {"ssl_keystore_type": "PEM", "ssl_keystore_location": str(certificate), **changes}
    return ListenerTls("SSL", TlsSettings(**settings))


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until the condition holds."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110  # no event reports it
            await asyncio.sleep(0.001)


class Served:
    """A TLS listener, the requests of its connections, and clients of it."""

    def __init__(self, certificate: Path, tls: dict[str, Any] | None = None, **settings: Any) -> None:
        changed = replace(NetSettings(), **settings)
        self.certificate = certificate
        self.echoes: list[Echo] = []
        self.limits = Limits(changed, LoopClock(asyncio.get_running_loop()))
        security = Security(tls_of(certificate, **(tls or {})))
        address = ListenerAddress("SSL", "127.0.0.1", 0)
        self.listener = Listener(address, changed, self.limits, self.open_requests, security)

    def open_requests(self, channel: Any, connection: Connection) -> Any:
        self.echoes.append(Echo(channel, connection))
        return self.echoes[-1]

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = ssl.create_default_context(cafile=str(self.certificate))
        return await asyncio.open_connection("127.0.0.1", self.listener.port, ssl=context, server_hostname="localhost")

    async def plain(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A client that begins no handshake."""
        return await asyncio.open_connection("127.0.0.1", self.listener.port)

    async def until(self, count: int) -> None:
        """Wait until there are `count` connections."""
        await until(lambda: len(self.limits) == count)

    @property
    def states(self) -> list[str]:
        return [connection.core.state for connection in self.limits.connections]


@contextlib.asynccontextmanager
async def serving(certificate: Path, **settings: Any) -> AsyncIterator[Served]:
    served = Served(certificate, **settings)
    await served.listener.start()
    try:
        yield served
    finally:
        served.listener.close()
        await asyncio.wait_for(served.listener.settled(), 10)
        for connection in served.limits.connections:
            connection.abort()
        await served.until(0)
        served.limits.stop()


LOOPS: list[Any] = [asyncio.SelectorEventLoop, uvloop.new_event_loop]


@pytest.fixture(params=LOOPS, ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Any], None]:
    def runs(main: Any) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(main)

    return runs


def test_requests_and_answers_pass_through_tls(certificate: Path, run: Callable[[Any], None]) -> None:
    async def main() -> None:
        async with serving(certificate) as served:
            reader, writer = await served.connect()
            for content in b"hello", b"now parts", b"x" * 1_000_000:
                writer.write(frame(content))
                assert await reader.readexactly(len(content) + 4) == frame(content)
            (connection,) = served.limits.connections
            assert connection.host == "127.0.0.1"
            assert served.echoes[0].connection.channel.listener == "SSL"
            assert served.states == [READY]
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
            await served.until(0)
            assert served.echoes[0].ended == 1

    run(main())


def test_bytes_in_the_socket_are_seen_before_they_are_read(certificate: Path, run: Callable[[Any], None]) -> None:
    """`clock.read_first`: while the connection reads, no bytes wait between the socket and the connection."""

    async def main() -> None:
        async with serving(certificate) as served:
            # a client in the same thread that does not wait for the loop
            client = socket.create_connection(("127.0.0.1", served.listener.port))
            context = ssl.create_default_context(cafile=str(certificate))
            stream = await asyncio.to_thread(context.wrap_socket, client, server_hostname="localhost")
            await until(lambda: served.states == [READY])
            await asyncio.sleep(0.05)
            assert not served.limits.input_waits(())
            stream.sendall(frame(b"a") + frame(b"park") + frame(b"b") + frame(b"c")[:2])
            assert served.limits.input_waits(())
            await until(lambda: len(served.echoes[0].seen) == 2)
            assert served.limits.input_waits(()), "a whole request waits for the one at hand"
            served.echoes[0].release()
            await asyncio.sleep(0.01)
            assert served.echoes[0].seen == [b"a", b"park", b"b"]
            assert not served.limits.input_waits(())
            stream.close()
            await served.until(0)

    run(main())


def test_a_client_that_disconnects_at_once_does_not_disturb_timers(
    certificate: Path, run: Callable[[Any], None]
) -> None:
    """The client's socket is closed one iteration of the loop before the connection gets the event: an error there
    would stop all timers.
    """

    async def main() -> None:
        async with serving(certificate) as served:
            loop, looks = asyncio.get_running_loop(), 0

            async def looking() -> None:
                nonlocal looks
                while served.limits.connections or not looks:
                    served.limits.input_waits(())
                    looks += 1
                    turned: asyncio.Future[None] = loop.create_future()
                    loop.call_soon(turned.set_result, None)
                    await turned

            for rest in b"", frame(b"a"), frame(b"a")[:3]:
                reader, writer = await served.connect()
                await until(lambda: served.states == [READY])
                sock = writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.write(rest)
                writer.transport.abort()
                await asyncio.wait_for(looking(), 10)
                with contextlib.suppress(OSError):
                    await reader.read()

    run(main())


def test_reading_over_tls_pauses_and_continues(certificate: Path, run: Callable[[Any], None]) -> None:
    async def main() -> None:
        async with serving(certificate) as served:
            reader, writer = await served.connect()
            writer.write(frame(b"park"))
            contents = [b"%02d" % number + b"y" * INPUT_HIGH_BYTES for number in range(40)]
            writer.write(b"".join(map(frame, contents)))
            (connection,) = served.limits.connections
            await until(lambda: connection.descriptor < 0)
            assert served.echoes[0].seen == [b"park"]
            served.echoes[0].release()
            sent = frame(b"park") + b"".join(map(frame, contents))
            assert await asyncio.wait_for(reader.readexactly(len(sent)), 10) == sent
            writer.close()

    run(main())


def test_a_handshake_counts_as_a_connection(certificate: Path, run: Callable[[Any], None]) -> None:
    async def main() -> None:
        async with serving(certificate, max_connections_per_ip=1) as served:
            _, silent = await served.plain()
            await served.until(1)
            assert served.states == [HANDSHAKING]
            with capture_logs() as logs:
                reader, writer = await served.plain()
                with contextlib.suppress(ConnectionError):
                    assert await asyncio.wait_for(reader.read(), 10) == b""
            assert [line["event"] for line in logs] == ["refused a connection"]
            silent.close()
            writer.close()
            await served.until(0)

    run(main())


def test_beyond_max_connections_the_handshake_waits(certificate: Path, run: Callable[[Any], None]) -> None:
    async def main() -> None:
        async with serving(certificate, max_connections=1) as served:
            _, first = await served.connect()
            waits = asyncio.ensure_future(served.connect())
            await until(lambda: len(served.limits.connections) == 2)
            assert not waits.done()
            first.close()
            reader, writer = await asyncio.wait_for(waits, 10)
            writer.write(frame(b"hello"))
            assert await reader.readexactly(9) == frame(b"hello")
            writer.close()

    run(main())


def test_a_client_without_tls_or_that_sends_nothing_is_closed(
    certificate: Path, run: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshake, "HANDSHAKE_S", 0.2)

    async def main() -> None:
        async with serving(certificate) as served:
            with capture_logs() as logs:
                for sent in (frame(b"hello"), b""):
                    reader, writer = await served.plain()
                    writer.write(sent)
                    with contextlib.suppress(ConnectionError):
                        await asyncio.wait_for(reader.read(), 10)
                    await served.until(0)
                    writer.close()
            assert [line["event"] for line in logs] == ["a TLS handshake failed"] * 2
            assert not served.echoes
            reader, writer = await served.connect()
            writer.write(frame(b"hello"))
            assert await reader.readexactly(9) == frame(b"hello")
            writer.close()

    run(main())


@pytest.mark.parametrize("end", ["close", "abort"])
def test_closing_the_listener_ends_handshakes(certificate: Path, run: Callable[[Any], None], end: str) -> None:
    async def main() -> None:
        async with serving(certificate, max_connections=1) as served:
            reader, first = await served.plain()
            await served.until(1)
            other, second = await served.plain()
            await until(lambda: len(served.limits.connections) == 2)
            for connection in served.limits.connections:
                getattr(connection, end)()
            served.listener.close()
            await asyncio.wait_for(served.listener.settled(), 10)
            await served.until(0)
            assert not served.limits.connections
            for one in reader, other:
                with contextlib.suppress(ConnectionError):
                    assert await asyncio.wait_for(one.read(), 10) == b""
            first.close()
            second.close()

    run(main())


def test_closing_the_listener_at_any_moment_leaves_nothing_half_open(
    certificate: Path, run: Callable[[Any], None]
) -> None:
    async def main() -> None:
        for turns in range(0, 60, 6):
            served = Served(certificate)
            await served.listener.start()
            client = asyncio.ensure_future(served.connect())
            for _ in range(turns):
                await asyncio.sleep(0)
            served.listener.close()
            await asyncio.wait_for(served.listener.settled(), 10)
            for connection in served.limits.connections:
                connection.close()
            for connection in served.limits.connections:
                connection.abort()
            await served.until(0)
            with contextlib.suppress(OSError):
                (await asyncio.wait_for(client, 10))[1].close()
            served.limits.stop()

    run(main())


def test_a_client_gets_the_reason_of_a_failed_handshake(certificate: Path, run: Callable[[Any], None]) -> None:
    """Without the reason it would try again and again."""

    async def main() -> None:
        async with serving(certificate, tls={"ssl_client_auth": "required"}) as served:

            async def connect(context: ssl.SSLContext) -> None:
                where = "127.0.0.1", served.listener.port
                reader, _ = await asyncio.open_connection(*where, ssl=context, server_hostname="localhost")
                await asyncio.wait_for(reader.read(), 10)

            for version in ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3:
                context = ssl.create_default_context(cafile=str(certificate))
                context.maximum_version = version
                with pytest.raises(ssl.SSLError, match=r"(?i)certificate_required|handshake_failure"):
                    await connect(context)
            await served.until(0)

    run(main())


def test_the_oldest_of_too_many_handshakes_is_ended(
    certificate: Path, run: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So clients that never finish a handshake keep no other client out."""
    monkeypatch.setattr(handshake, "MAX_HANDSHAKES", 3)

    async def main() -> None:
        async with serving(certificate) as served:
            silent = [await served.plain() for _ in range(3)]
            await served.until(3)
            with capture_logs() as logs:
                reader, writer = await served.connect()
                writer.write(frame(b"hello"))
                assert await reader.readexactly(9) == frame(b"hello")
                assert await asyncio.wait_for(silent[0][0].read(), 10) == b""
            assert [line["why"] for line in logs] == ["there are 3 handshakes in progress, and this is the oldest"]
            await served.until(3)
            writer.close()
            for _, one in silent:
                one.close()

    run(main())


def test_a_bounded_number_of_handshakes_begins_in_one_iteration(run: Callable[[Any], None]) -> None:
    async def main() -> None:
        loop, handshakes = asyncio.get_running_loop(), handshake.Handshakes()
        turn = 0
        begun: list[int] = []

        def next_turn() -> None:
            nonlocal turn
            turn += 1
            if len(begun) < 100:
                loop.call_soon(next_turn)

        async def one() -> None:
            await handshakes.wait_for_step()
            begun.append(turn)

        loop.call_soon(next_turn)
        await asyncio.gather(*(one() for _ in range(100)))
        assert max(begun.count(number) for number in begun) <= handshake.MAX_STEPS_AT_ONCE
        assert len(set(begun)) >= 100 // handshake.MAX_STEPS_AT_ONCE
        # and later ones need not wait
        await asyncio.sleep(0)
        await asyncio.wait_for(handshakes.wait_for_step(), 10)

    run(main())


async def held_back(served: Served) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes, Any]:
    """A client, and the last bytes of its handshake, which it has not sent yet."""
    reader, writer = await served.plain()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context(cafile=str(served.certificate))
    tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    for _ in range(10):
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.do_handshake()
            break
        if outgoing.pending:
            writer.write(outgoing.read())
        incoming.write(await reader.read(65536))
    tls.write(frame(b"at once"))
    return reader, writer, outgoing.read(), (incoming, tls)


def test_handshakes_that_end_together_are_spread_over_iterations(
    certificate: Path, run: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand clients that held back their last bytes, and sent them together, once blocked the loop for 0.4 s."""
    turn, ended = 0, []
    do_handshake = ssl.SSLObject.do_handshake

    def counted(self: ssl.SSLObject) -> None:
        do_handshake(self)
        if self.server_side:
            ended.append(turn)

    monkeypatch.setattr(ssl.SSLObject, "do_handshake", counted)

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def next_turn() -> None:
            nonlocal turn
            turn += 1
            if turn:
                loop.call_soon(next_turn)

        async with serving(certificate) as served:
            clients = [await held_back(served) for _ in range(35)]
            assert ended == []
            next_turn()
            for _, writer, last, _ in clients:
                writer.write(last)
            await until(lambda: len(ended) == 35)
            turn_of_the_end, turn_counts = turn, [ended.count(one) for one in set(ended)]
            assert max(turn_counts) <= handshake.MAX_STEPS_AT_ONCE
            assert turn_of_the_end
            for reader, writer, _, (incoming, tls) in clients:
                answer = b""
                while not answer:
                    incoming.write(await reader.read(65536))
                    with contextlib.suppress(ssl.SSLWantReadError):
                        answer = tls.read(1000)
                assert answer == frame(b"at once")
                writer.close()
            await served.until(0)

    run(main())


def test_a_client_that_leaves_in_a_waiting_handshake_disturbs_no_other(
    certificate: Path, run: Callable[[Any], None]
) -> None:
    async def main() -> None:
        async with serving(certificate) as served:
            clients = [await held_back(served) for _ in range(35)]
            for _, writer, last, _ in clients:
                writer.write(last)
            for _, writer, _, _ in clients:
                writer.transport.abort()
            await served.until(0)
            reader, writer = await served.connect()
            writer.write(frame(b"still here"))
            assert await reader.readexactly(14) == frame(b"still here")
            writer.close()

    run(main())
