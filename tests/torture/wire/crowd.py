"""A server process among ten thousand hostile connections over sockets: with TLS, with SASL, and with neither.

Some members must not be disturbed: none may be made to join again, and the duration of their heartbeats is reported.
Afterwards the server must have as many files open as before, and no more memory than its limits allow.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import resource
import socket
import ssl
import struct
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.support.certificates import Authority
from tests.support.servers import QUICK, MusterServer
from tests.support.tcp_world import TcpWorld
from tests.torture.clients import Committer, connected
from tests.torture.ledger import Ledger
from tests.torture.node.history import BUGS
from tests.torture.wire import bearer
from tests.torture.wire.attacker import PASSWORD, USER, as_sent, handshake, login
from tests.torture.wire.drawing import QUIET, Drawing, Known, kinds
from tests.torture.wire.mutating import mutated
from tests.torture.wire.records import Batches

LISTENERS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MAX_MB: Final = 1_500
"""The most memory of the server with ten thousand connections."""
ATTACKERS: Final = 24
SPARE_FILES: Final = 500
_JAAS: Final = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
Attack = Callable[[Random], Coroutine[Any, Any, None]]


class Crowd:
    """One run on one server. `faults`: the violations."""

    def __init__(self, folder: Path, seed: int, inputs: int, connections: int) -> None:
        self.faults: list[str] = []
        self.sent = 0
        self.counts: Counter[str] = Counter()
        self.beats_ms: list[float] = []
        self._rng = Random(seed)
        self._inputs = inputs
        self._connections = connections
        authority = Authority()
        ca = folder / "ca.pem"
        ca.write_text(authority.pem)
        self._context = ssl.create_default_context(cafile=str(ca))
        self._context.check_hostname = False
        self._server = MusterServer(
            folder / "server",
            {
                **QUICK,
                "listeners": ",".join(f"{name}://127.0.0.1:0" for name in LISTENERS),
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
                **{f"listener.name.{name.lower()}.plain.sasl.jaas.config": _JAAS for name in LISTENERS[2:]},
                **bearer.properties("sasl_plaintext", bearer.keys_file()),
                **bearer.properties("sasl_ssl", bearer.keys_file()),
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": authority.signed("CN=server", host="localhost").pem(folder / "k.pem"),
            },
            in_memory=True,
            arguments=["--topic", "work:3", "--topic", f"{QUIET}:1", "--user", f"{USER}:{PASSWORD}"],
        )
        self._server.start_timeout_s = self._server.stop_timeout_s = 300.0
        self._drawing = Drawing(self._rng, Known(), kinds(), Batches())
        self._corpus: list[bytes] = []
        self._done = asyncio.Event()

    async def run(self) -> None:
        """Start the server, attack it, and check it."""
        self._server.start()
        try:
            addresses = {
                line["listener"]: line["address"].rpartition(":")
                for line in map(json.loads, filter(lambda one: one.startswith("{"), self._server.log().splitlines()))
                if "listener" in line and "address" in line
            }
            self._ports = {name: int(port) for name, (_, _, port) in addresses.items()}
            await self._among_innocents()
        finally:
            self._server.stop()
        self._read_log()

    async def _among_innocents(self) -> None:
        world, ledger = TcpWorld(("127.0.0.1", self._ports["PLAINTEXT"])), Ledger()
        members = [
            Committer(world, ledger, f"innocent-{n}", QUIET, is_member=True, pause_ms=lambda: 50) for n in range(5)
        ]
        for one in members:
            one.start()
        await world.until(lambda: all(one.assigned is not None for one in members))
        joins = [one.joins for one in members]
        beating = asyncio.create_task(self._beat())
        files_before = self._files()
        try:
            await self._send_inputs()
            await self._come_in_crowds()
        finally:
            self._done.set()
            await beating
        committed = ledger.acknowledgements
        await world.until(lambda: ledger.acknowledgements > committed + 20)
        if [one.joins for one in members] != joins:
            self.faults.append("a group that nobody touched has rebalanced")
        self.faults += ledger.faults
        self.counts["commits of innocents"] = ledger.acknowledgements
        await self._files_are(files_before)
        world.close()

    async def _beat(self) -> None:
        """Send a heartbeat of an unknown group fifty times a second, and measure its duration."""
        from muster.protocol.messages.heartbeat import HeartbeatRequest

        async with connected(("127.0.0.1", self._ports["PLAINTEXT"]), "beat") as client:
            while not self._done.is_set():
                began = time.perf_counter()
                await client.ask(HeartbeatRequest("nobody", 1, "nobody", None))
                self.beats_ms.append((time.perf_counter() - began) * 1_000)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._done.wait(), 0.02)

    # ---- bad bytes

    async def _send_inputs(self) -> None:
        seeds = [self._rng.randrange(1 << 32) for _ in range(ATTACKERS)]
        await asyncio.gather(*(self._attack(Random(seed)) for seed in seeds))

    async def _attack(self, rng: Random) -> None:
        while self.sent < self._inputs and self._server.running:
            listener = rng.choice(LISTENERS)
            with contextlib.suppress(OSError, EOFError, ssl.SSLError, asyncio.TimeoutError):
                if listener.endswith("SSL") and rng.random() < 0.3:
                    await self._bad_tls(rng, listener)
                else:
                    await self._bad_requests(rng, listener)
            self._watch_memory()

    async def _bad_tls(self, rng: Random, listener: str) -> None:
        """The client's side of a handshake, with changed bytes."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = self._context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        reader, writer = await asyncio.open_connection("127.0.0.1", self._ports[listener])
        bad_step = rng.randrange(4)
        try:
            for step in range(5):
                try:
                    tls.do_handshake()
                    tls.write(b"\0\0\0\x0e\0\x12\0\0\0\0\0\1\0\4none")
                except ssl.SSLWantReadError:
                    pass
                data = bytearray(outgoing.read())
                if step == bad_step and data:
                    for _ in range(rng.choice((1, 1, 3, 20))):
                        data[rng.randrange(len(data))] = rng.randrange(256)
                    if rng.random() < 0.3:
                        del data[rng.randrange(len(data)) :]
                writer.write(bytes(data))
                self.sent += 1
                answer = await asyncio.wait_for(reader.read(65536), 0.3)
                if not answer:
                    return
                incoming.write(answer)
        finally:
            writer.transport.abort()

    async def _bad_requests(self, rng: Random, listener: str) -> None:
        context = self._context if listener.endswith("SSL") else None
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self._ports[listener], ssl=context, server_hostname="localhost" if context else None
        )
        try:
            if listener.startswith("SASL"):
                await self._log_in(rng, reader, writer)
            for _ in range(rng.choice((1, 5, 30))):
                if rng.random() < 0.3 or not self._corpus:
                    data = self._drawing.request().frame(rng.randrange(1 << 31), "crowd")
                    self._corpus.append(data)
                    del self._corpus[:-500]
                else:
                    data = mutated(rng, rng.choice(self._corpus), rng.choice(self._corpus))
                writer.write(data)
                self.sent += 1
                await writer.drain()
                if rng.random() < 0.5:
                    with contextlib.suppress(TimeoutError):
                        if not await asyncio.wait_for(reader.read(65536), 0.02):
                            return
        finally:
            writer.transport.abort()

    async def _log_in(self, rng: Random, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mechanism, raw = rng.choice(("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")), rng.random() < 0.3
        data, changed, answer = handshake(mechanism, 0 if raw else 1), rng.choice((None, None, 0, 1, 2)), b""
        frames = login(mechanism, rng)
        with contextlib.suppress(StopIteration, ValueError, KeyError, IndexError, UnicodeDecodeError):
            for step in range(4):
                writer.write(mutated(rng, data, data) if step == changed else data)
                self.sent += 1
                size = struct.unpack(">i", await asyncio.wait_for(reader.readexactly(4), 1))[0]
                answer = await asyncio.wait_for(reader.readexactly(size), 1)
                token = answer if raw else _token_of(answer)
                data = as_sent(next(frames) if step == 0 else frames.send(token), raw)

    # ---- many connections

    async def _come_in_crowds(self) -> None:
        """Open idle connections, slow ones, ones that never finish a handshake, and bursts."""
        free = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - SPARE_FILES
        wanted = min(self._connections, free)
        if wanted < self._connections:
            print(f"only {wanted} connections: this process may have {free + SPARE_FILES} files (ulimit -n)")
        kept: list[socket.socket] = []
        fetch = self._drawing_of_metadata()
        try:
            for number in range(wanted):
                listener = LISTENERS[number % len(LISTENERS)]
                connection = await self._opened(self._ports[listener])
                if connection is None:
                    self.counts["connections refused"] += 1
                    continue
                kept.append(connection)
                kind = number % 5
                with contextlib.suppress(OSError):
                    if kind == 1:  # a slow writer
                        connection.send(b"\0\0\0\x40\0\x12")
                    elif kind == 2:  # half a handshake, or bytes that a listener without TLS refuses
                        connection.send(b"\x16\x03\x01\x02\0\1\0\1\xfc\x03\x03")
                    elif kind == 3 and listener == "PLAINTEXT":  # a slow reader
                        connection.send(fetch * 200)
                    elif kind == 4:  # a large part of a large request
                        connection.send(b"\0\x10\0\0" + bytes(30_000))
                if number % 200 == 199:
                    self._watch_memory()
                    await asyncio.sleep(0)
            self.counts["connections at a time"] = len(kept)
            for _ in range(40):  # slow writers continue, slow readers read a little
                for connection in kept[:: max(1, len(kept) // 500)]:
                    with contextlib.suppress(OSError):
                        connection.send(b"\0")
                        connection.recv(1)
                self._watch_memory()
                await asyncio.sleep(0.05)
        finally:
            for connection in kept:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.close()
        for _ in range(10):  # bursts: five hundred connect and disconnect at once
            burst = [await self._opened(self._ports[self._rng.choice(LISTENERS)]) for _ in range(min(500, wanted))]
            self.counts["connections in bursts"] += len(burst)
            for connection in filter(None, burst):
                connection.close()
            self._watch_memory()

    async def _opened(self, port: int) -> socket.socket | None:
        connection = socket.socket()
        connection.setblocking(False)
        try:
            # one client's address has ports for some 28,000 connections only
            connection.bind((f"127.0.0.{random.randrange(1, 255)}", 0))
            await asyncio.wait_for(asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port)), 30)
        except (OSError, TimeoutError):
            connection.close()
            return None
        return connection

    def _drawing_of_metadata(self) -> bytes:
        from muster.protocol.messages.metadata import MetadataRequest
        from tests.torture.wire.attacker import framed

        return framed(MetadataRequest(None), 9)

    # ---- the server as seen from outside

    def _files(self) -> int:
        return len(os.listdir(f"/proc/{self._server.pid}/fd"))

    async def _files_are(self, before: int) -> None:
        """Check that no connection is left open at the end."""
        for _ in range(600):
            if self._files() <= before + 5:
                return
            await asyncio.sleep(0.1)
        self.faults.append(f"{self._files()} files are open that were {before}")

    def _watch_memory(self) -> None:
        with open(f"/proc/{self._server.pid}/statm") as file:
            resident_mb = int(file.read().split()[1]) * 4096 / 1e6
        self.counts["MB at most"] = max(self.counts["MB at most"], int(resident_mb))
        if resident_mb > MAX_MB and not any("MB in memory" in one for one in self.faults):
            self.faults.append(f"the server has {resident_mb:.0f} MB in memory")

    def _read_log(self) -> None:
        for line in self._server.log().splitlines():
            event = json.loads(line) if line.startswith("{") else {"event": line, "level": "error"}
            if event["event"] in BUGS or event.get("level") in ("error", "critical") or "Traceback" in line:
                self.faults.append(f"the log says: {line[:2000]}")


def _token_of(answer: bytes) -> bytes:
    """The token of a SaslAuthenticate response, version 2; nothing for a handshake's response."""
    from muster.protocol.api import api
    from muster.protocol.message import ProtocolError

    with contextlib.suppress(ProtocolError):
        return bytes(api(36).decode_response(2, answer, 5, len(answer)).auth_bytes)
    return b""
