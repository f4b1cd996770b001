"""`python -m bench.security` measures heartbeats over TLS, and a thousand clients that connect by SCRAM-SHA-512 over
TLS.

It measures Muster and, if Java is installed, a real Apache Kafka 4.4. `bench.run` measures the same figures. Only the
CPU time of the server counts, so the clients, written in Python, need not be fast. Each connection has one unanswered
request, and all connections send before the first answer is read.
"""

from __future__ import annotations

import argparse
import socket
import ssl
import statistics
import struct
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its stubs lack these names
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from bench import measure
from bench.load.frameload import FrameLoad
from bench.scenarios import LONG_SESSION_MS, MEMBERS_EACH, Figures, Target
from muster.client import security as security_module
from muster.protocol.api import ApiKey, api
from muster.protocol.frames import decode_response_header, request_frame
from muster.protocol.message import Message
from muster.protocol.messages.api_versions import ApiVersionsRequest
from muster.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from muster.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.certificates import Authority
from tests.support.servers import KafkaServer, MusterServer, ServerProcess, free_port_pair, kafka_available

BEAT: Final = "heartbeat over TLS, 100 connections, us"
READY: Final = "1,000 connections of TLS and SCRAM-SHA-512 ready, CPU ms"
CONNECTIONS, COMERS, AT_ONCE = 100, 1_000, 50
MECHANISM, USER, PASSWORD = "SCRAM-SHA-512", "alice", "alice's secret"
SETTINGS: Final[Mapping[str, str]] = {"group.initial.rebalance.delay.ms": "0"}
WARM_ROUNDS: Final = 3
"""How many rounds of new connections run before the measure. A JVM needs them to compile the code."""


class Secured(NamedTuple):
    """A server with a listener for each security protocol, and its ports."""

    server: ServerProcess
    tls: int
    sasl: int
    context: ssl.SSLContext


def secured(folder: Path, kind: type[MusterServer] | type[KafkaServer], settings: Mapping[str, str]) -> Secured:
    """Make a server, but do not start it. Its listener without TLS is for preparations."""
    folder.mkdir(parents=True, exist_ok=True)
    authority = Authority()
    ca = folder / "ca.pem"
    ca.write_text(authority.pem)
    plain, controller = (port := free_port_pair()), port + 1
    tls, sasl = free_port_pair(), free_port_pair()
    names = {"PLAINTEXT": plain, "SSL": tls, "SASL_SSL": sasl}
    addresses = ",".join(f"{name}://127.0.0.1:{port}" for name, port in names.items())
    is_kafka = kind is KafkaServer
    properties = {
        **settings,
        "listeners": f"{addresses},CONTROLLER://127.0.0.1:{controller}" if is_kafka else addresses,
        "advertised.listeners": addresses,
        "listener.security.protocol.map": ",".join(f"{name}:{name}" for name in names)
        + (",CONTROLLER:PLAINTEXT" if is_kafka else ""),
        "sasl.enabled.mechanisms": MECHANISM,
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": authority.signed("CN=server", host="localhost").pem(folder / "server.pem"),
    }
    server = kind(folder / "server", properties)
    if is_kafka:
        server.bootstrap = f"127.0.0.1:{plain}"
    context = ssl.create_default_context(cafile=str(ca))
    return Secured(server, tls, sasl, context)


class Client:
    """A blocking TLS connection."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self.socket = context.wrap_socket(
            socket.create_connection(("127.0.0.1", port), 60), server_hostname="127.0.0.1"
        )

    def send(self, frame: bytes) -> None:
        """Send a request."""
        self.socket.sendall(frame)

    def receive(self) -> bytes:
        """Receive the answer."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def ask(self, key: int, version: int, request: Message) -> bytes:
        """Send a request, and return the bytes of the answer."""
        self.send(request_frame(api(key), version, 1, request, "bench"))
        return self.receive()

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise EOFError("the server closed the connection")
            data += part
        return data

    def authenticate(self) -> None:
        """Authenticate as Kafka's clients do: ApiVersions, SaslHandshake, and two messages of SCRAM."""
        self.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("bench", "1"))
        self.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(MECHANISM))
        login = security_module.login(security_module.User(MECHANISM, USER, PASSWORD))
        token: bytes | None = next(login)
        while token is not None:
            data = self.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(token))
            kind = api(ApiKey.SASL_AUTHENTICATE)
            answer = kind.decode_response(2, data, decode_response_header(kind, 2, data, 0, len(data))[1], len(data))
            if answer.error_code:
                raise RuntimeError(answer.error_message)
            try:
                token = login.send(bytes(answer.auth_bytes))
            except StopIteration:
                token = None
        self.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("bench", "1"))


@contextmanager
def connected(port: int, context: ssl.SSLContext, count: int) -> Iterator[list[Client]]:
    """Connect `count` clients, and close them after the block."""
    clients = [Client(port, context) for _ in range(count)]
    try:
        yield clients
    finally:
        for client in clients:
            client.socket.close()


class Security:
    """Measures one server."""

    def __init__(self, secured: Secured, frameload: FrameLoad, seconds: float) -> None:
        self._secured = secured
        self.target = Target(secured.server, frameload, seconds)
        self._beats: Sequence[bytes] = ()

    def prepare(self, warm_up_s: float) -> None:
        """Create members of groups and a user, and warm up the server."""
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        upsertion = UserScramCredentialUpsertion(USER, info, PASSWORD.encode(), b"some salt of 1 kind")
        admin = AdminClient({"bootstrap.servers": self._secured.server.bootstrap, "log_level": 3}, logger=None)
        for done in admin.alter_user_scram_credentials([upsertion]).values():
            done.result(60)
        groups = [f"beat-{number}" for number in range(CONNECTIONS // MEMBERS_EACH)]
        self._beats = self.target.settle(groups, MEMBERS_EACH, LONG_SESSION_MS).heartbeats
        self.heartbeats(warm_up_s)
        for _ in range(WARM_ROUNDS):
            self.new_connections()

    def heartbeats(self, seconds: float) -> float:
        """The CPU time of the server for one heartbeat, in us."""
        pid = self._secured.server.pid
        with connected(self._secured.tls, self._secured.context, CONNECTIONS) as clients:
            pairs = list(zip(clients, self._beats, strict=True))

            def once() -> None:
                for client, beat in pairs:
                    client.send(beat)
                for client in clients:
                    answer = client.receive()
                    if answer[8:10] != b"\0\0":
                        raise RuntimeError(f"a heartbeat was answered {answer.hex()}")

            for _ in range(4):
                once()
            cpu_s, rounds, end = measure.cpu_s(pid), 0, time.perf_counter() + seconds
            while time.perf_counter() < end:
                once()
                rounds += 1
            return (measure.cpu_s(pid) - cpu_s) * 1e6 / (rounds * CONNECTIONS)

    def new_connections(self) -> float:
        """The CPU time of the server until all new connections are ready, in ms. Each connection has a TLS session of
        its own.
        """
        pid = self._secured.server.pid
        before = measure.cpu_s(pid)
        kept = []
        for _ in range(COMERS // AT_ONCE):
            some = [Client(self._secured.sasl, self._secured.context) for _ in range(AT_ONCE)]
            for client in some:
                client.authenticate()
            kept += some
        spent_ms = (measure.cpu_s(pid) - before) * 1_000
        for client in kept:
            client.socket.close()
        return spent_ms

    def figures(self) -> Figures:
        """Run one round, and return its figures."""
        return {BEAT: self.heartbeats(self.target.seconds), READY: self.new_connections()}


def figures(
    folder: Path, frameload: FrameLoad, args: argparse.Namespace, executable: Path | None = None
) -> dict[str, dict[str, list[float]]]:
    """Start the servers, and measure them in turn. Returns values by figure and server."""
    samples: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    kinds: list[type[MusterServer] | type[KafkaServer]] = [MusterServer]
    if kafka_available() and not args.without_kafka:
        kinds.append(KafkaServer)
    servers = [secured(folder / f"secured-{kind.name}", kind, SETTINGS) for kind in kinds]
    if executable is not None and isinstance(servers[0].server, MusterServer):
        servers[0].server.executable = executable
    try:
        measured = []
        for one in servers:
            one.server.start()
            measured.append(Security(one, frameload, args.seconds))
            measured[-1].prepare(args.warm_up)
        for number in range(args.rounds):
            print(f"round {number + 1} of {args.rounds} with TLS", file=sys.stderr)
            for security in measured:
                for name, value in security.figures().items():
                    samples[name][security.target.server.name].append(value)
    finally:
        for one in servers:
            if one.server.running:
                one.server.stop()
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.security", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often each server is measured (default: 5)")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long heartbeats are sent (default: 2)")
    parser.add_argument("--warm-up", type=float, default=8.0, help="seconds of them before it counts (default: 8)")
    parser.add_argument("--without-kafka", action="store_true", help="measure Muster alone")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        samples = figures(Path(folder), FrameLoad(Path(folder)), args)
    for name, by_server in samples.items():
        medians = {server: statistics.median(values) for server, values in by_server.items()}
        ratio = f", {medians['muster'] / medians['kafka']:.2f} x" if "kafka" in medians else ""
        print(f"{name}: " + ", ".join(f"{server} {value:.1f}" for server, value in medians.items()) + ratio)


if __name__ == "__main__":
    main()
