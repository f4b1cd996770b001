"""A listener that demands authentication. The tests use a mechanism of their own, with one step or two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from muster.coordinator.api.context import Channel, RequestContext
from muster.coordinator.api.layers import CloseConnection
from muster.coordinator.net.authentication_gate import MAX_AUTHENTICATION_MS, MAX_REQUESTS, AuthenticationGate
from muster.coordinator.net.connection import MAX_AUTHENTICATION_BYTES, Connection, Shared
from muster.coordinator.net.limits import Limits
from muster.coordinator.net.settings import NetSettings
from muster.coordinator.security.authentication import CHALLENGED, COMPLETE, MECHANISM_CHOSEN, REJECTED, Authentication
from muster.coordinator.security.authorizer import ANONYMOUS, KafkaPrincipal
from muster.coordinator.state_machine.interface import Client
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.topics.cluster_image import Endpoint
from muster.protocol.api import ApiKey
from tests.coordinator.net.connection_harness import Transport, frame, turn

ALICE = KafkaPrincipal("User", "alice")


def request(api_key: int, content: bytes = b"") -> bytes:
    return frame(api_key.to_bytes(2, "big") + b"\0\0" + content)


class Dispatcher:
    """Stands behind the gate. It echoes each request, and does what the SASL handlers will do. A token that begins with
    "late" is checked later.
    """

    def __init__(self, channel: Channel, sink: Any) -> None:
        self.channel = channel
        self.sink = sink
        self.context = RequestContext(channel, Client("c", "/h"), 0, 0)
        self.is_reading = False
        self.seen: list[int] = []
        self.judge: Callable[[], None] | None = None
        self.ended = 0

    def answers_to(self, sink: Any) -> None:
        self.sink = sink

    def handle(self, data: bytes, start: int, end: int) -> bytes | None:
        key, content = int.from_bytes(data[start : start + 2], "big"), data[start + 4 : end]
        self.seen.append(key)
        answer = request(key, content)
        if key == ApiKey.SASL_HANDSHAKE:
            self.channel.authentication.happens(MECHANISM_CHOSEN)
        elif key == ApiKey.SASL_AUTHENTICATE:
            if content.startswith(b"late"):

                def judge() -> None:
                    self.decide(content)
                    self.sink.answer(answer)

                self.judge = judge
                return None
            self.decide(content)
        if content == b"sink":
            self.sink.answer(answer)
            return None
        if content == b"bad":
            self.sink.fail(CloseConnection("its answer could not be encoded"))
            return None
        if content == b"read":
            self.sink.request_decoded()
        return answer

    def decide(self, token: bytes) -> None:
        authentication = self.channel.authentication
        if token.endswith(b"first"):
            authentication.happens(CHALLENGED)
        elif token.endswith(b"secret"):
            authentication.proven(ALICE)
        else:
            authentication.happens(REJECTED)

    def closed(self) -> None:
        self.ended += 1


class GateHarness:
    def __init__(self) -> None:
        self.made: list[Dispatcher] = []
        self.channel = Channel("SASL", Endpoint("h", 1), "10.0.0.9:5", "/10.0.0.9", Authentication())
        self.clock = ManualClock(0)
        self.limits = Limits(NetSettings(), self.clock)
        shared = Shared(self.limits, 1_000_000, lambda _: self.channel, self.gate, lambda _: None)
        self.connection, self.transport = Connection(shared), Transport()
        self.connection.connection_made(self.transport)
        self.dispatcher = self.made[0]

    def gate(self, channel: Channel, connection: Connection) -> AuthenticationGate:
        return AuthenticationGate(channel, connection, self.open_requests, self.clock)

    def open_requests(self, channel: Channel, sink: Any) -> Dispatcher:
        self.made.append(Dispatcher(channel, sink))
        return self.made[-1]

    def receive(self, *requests: bytes) -> None:
        self.connection.data_received(b"".join(requests))

    @property
    def sent(self) -> bytes:
        return b"".join(self.transport.writes)


@pytest.fixture
async def harness() -> GateHarness:
    return GateHarness()


VERSIONS, CHOICE = request(ApiKey.API_VERSIONS), request(ApiKey.SASL_HANDSHAKE)
HEARTBEAT = request(ApiKey.HEARTBEAT)


def token(content: bytes) -> bytes:
    return request(ApiKey.SASL_AUTHENTICATE, content)


async def test_after_authentication_requests_pass_without_the_gate(harness: GateHarness) -> None:
    steps = [VERSIONS, CHOICE, token(b"first"), token(b"secret")]
    for step in steps:
        assert harness.dispatcher.context.principal == ANONYMOUS
        harness.receive(step)
    assert harness.sent == b"".join(steps)
    assert harness.dispatcher.context.principal == ALICE, "a context that was made before knows too"
    assert harness.connection._requests is harness.dispatcher
    assert harness.dispatcher.sink is harness.connection
    large = request(ApiKey.PRODUCE, b"x" * MAX_AUTHENTICATION_BYTES)
    harness.receive(HEARTBEAT)
    harness.receive(large)
    assert harness.sent == b"".join([*steps, HEARTBEAT, large])


async def test_requests_sent_with_the_last_token_are_handled_after_it(harness: GateHarness) -> None:
    steps = [VERSIONS, CHOICE, token(b"secret"), HEARTBEAT, HEARTBEAT]
    harness.receive(*steps)
    assert harness.sent == b"".join(steps)
    assert harness.connection.core.waits_for == 0


async def test_a_token_may_be_checked_asynchronously(harness: GateHarness) -> None:
    harness.receive(CHOICE, token(b"late secret"), HEARTBEAT)
    assert harness.dispatcher.seen == [ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE]
    assert harness.connection.core.is_answering
    assert harness.dispatcher.judge is not None
    harness.dispatcher.judge()
    await turn()
    assert harness.sent == CHOICE + token(b"late secret") + HEARTBEAT
    assert harness.connection._requests is harness.dispatcher


async def test_a_client_that_left_during_the_check_gets_no_answer(harness: GateHarness) -> None:
    harness.receive(CHOICE, token(b"late secret"))
    harness.connection.eof_received()
    assert harness.dispatcher.judge is not None
    harness.dispatcher.judge()
    assert harness.sent == CHOICE
    harness.connection.connection_lost(None)
    assert harness.dispatcher.ended == 1


async def test_a_rejected_client_gets_an_answer_and_its_connection_closes(harness: GateHarness) -> None:
    harness.receive(CHOICE, token(b"first"), token(b"wrong"), HEARTBEAT)
    assert harness.sent == CHOICE + token(b"first") + token(b"wrong")
    assert harness.transport.closed == "closed"
    assert ApiKey.HEARTBEAT not in harness.dispatcher.seen


@pytest.mark.parametrize(
    "requests",
    [
        (HEARTBEAT,),
        (VERSIONS, HEARTBEAT),
        (token(b"secret"),),
        (CHOICE, HEARTBEAT),
        (CHOICE, VERSIONS),
        (CHOICE, CHOICE),
        (frame(b""),),
        (frame(b"\x12"),),
    ],
)
async def test_other_requests_before_authentication_close_the_connection(
    harness: GateHarness, requests: tuple[bytes, ...]
) -> None:
    with capture_logs() as logs:
        harness.receive(*requests)
    assert [line["why"] for line in logs] == ["this request cannot come before the authentication"]
    assert harness.sent == b"".join(requests[:-1])
    assert len(harness.dispatcher.seen) == len(requests) - 1
    assert harness.transport.closed == "closed"
    assert harness.channel.authentication.state is not COMPLETE


async def test_large_requests_before_authentication_close_the_connection(harness: GateHarness) -> None:
    size = MAX_AUTHENTICATION_BYTES
    with capture_logs() as logs:
        harness.connection.data_received((size + 1).to_bytes(4, "big") + b"\0\x12")
    assert [line["why"] for line in logs] == [f"frame size {size + 1} is larger than {size}"]
    assert harness.dispatcher.seen == []


async def test_the_gate_sends_late_answers_and_closes_on_faults(harness: GateHarness) -> None:
    harness.receive(request(ApiKey.API_VERSIONS, b"sink"), request(ApiKey.API_VERSIONS, b"read"))
    assert harness.sent == request(ApiKey.API_VERSIONS, b"sink") + request(ApiKey.API_VERSIONS, b"read")
    with capture_logs() as logs:
        harness.receive(request(ApiKey.API_VERSIONS, b"bad"))
    assert [line["why"] for line in logs] == ["its answer could not be encoded"]
    assert harness.transport.closed == "closed"


async def test_an_authentication_is_limited_in_requests_and_time() -> None:
    harness = GateHarness()
    for _ in range(MAX_REQUESTS):
        harness.receive(VERSIONS)
    assert not harness.transport.closed
    with capture_logs() as logs:
        harness.receive(VERSIONS)
    assert harness.transport.closed
    assert [line["event"] for line in logs] == ["closed a connection"]
    slow, quick = GateHarness(), GateHarness()
    quick.receive(CHOICE, token(b"secret"))
    for harness in slow, quick:
        harness.clock.advance(MAX_AUTHENTICATION_MS)
    assert slow.transport.closed
    assert not quick.transport.closed


async def test_an_expired_session_must_be_renewed() -> None:
    harness = GateHarness()
    authentication = harness.channel.authentication
    authentication.lifetime_ms = 1_000
    harness.receive(CHOICE, token(b"secret"))
    harness.clock.advance(999)
    harness.receive(HEARTBEAT, CHOICE, token(b"secret"))
    harness.clock.advance(999)
    harness.receive(HEARTBEAT)
    assert harness.connection._requests is harness.dispatcher, "while there is time nothing stands between"
    harness.clock.advance(1)
    harness.receive(CHOICE, token(b"secret"), HEARTBEAT)
    assert not harness.transport.closed, "late, but before anything else"
    harness.clock.advance(1_000)
    with capture_logs() as logs:
        harness.receive(HEARTBEAT)
    assert harness.transport.closed
    assert "its session is over" in logs[0]["why"]
    harness.connection.connection_lost(None)
    harness.clock.advance(10_000)
    assert authentication.on_proven is None
