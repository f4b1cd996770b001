"""The gate before the requests of a connection until the client has authenticated. Any request that is not part of the
authentication closes the connection.

After the authentication the requests take the place of the gate, so the gate costs nothing. When a session expires
(KIP-368), only re-authentication is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final, Protocol

from muster.coordinator.api.context import Channel
from muster.coordinator.api.layers import Answer, CloseConnection, Layer, Requests, Sink, Wrap
from muster.coordinator.net.connection import Connection
from muster.coordinator.security.authentication import AUTHENTICATE, FAILED, HANDSHAKE, REAUTHENTICATE
from muster.coordinator.system.clock import Clock, Timer
from muster.protocol.api import ApiKey

PASSES: Final[Mapping[str, frozenset[int]]] = MappingProxyType(
    {
        HANDSHAKE: frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}),
        AUTHENTICATE: frozenset({ApiKey.SASL_AUTHENTICATE}),
    }
)
"""State of the authentication -> keys of the APIs that may pass."""

MAX_REQUESTS: Final = 10
"""The most requests until the authentication is complete. A Kafka client needs four."""
MAX_AUTHENTICATION_MS: Final = 30_000
"""The time limit of the authentication. The time begins with the connection, or after its TLS handshake."""


class RequestsWithSink(Requests, Protocol):
    """The requests behind the gate (`api.dispatch`)."""

    def answers_to(self, sink: Sink) -> None:
        """Give all further answers to another sink."""

    def wrapped(self, wrap: Wrap) -> RequestsWithSink:
        """See `Requests`."""


class AuthenticationGate(Layer):
    """See the module. The gate is the `Requests` of a connection, and the sink of the requests behind it."""

    def __init__(
        self,
        channel: Channel,
        connection: Connection,
        open_requests: Callable[[Channel, Sink], RequestsWithSink],
        clock: Clock,
    ) -> None:
        """`clock`: measures `MAX_AUTHENTICATION_MS`."""
        super().__init__(connection, partial(open_requests, channel))
        self._channel = channel
        self._authentication = channel.authentication
        self._connection = connection
        self._clock = clock
        self._count = 0
        self._timer: Timer | None = clock.call_at(clock.mono_ms() + MAX_AUTHENTICATION_MS, self._too_late)
        channel.on_close(self._stop_timer)

    # ---- the connection's calls

    def handle(self, data: bytes, start: int, end: int) -> Answer | None:
        """Let the request through, or raise `CloseConnection`."""
        state = self._authentication.state
        self._count += 1
        if self._count > MAX_REQUESTS:
            raise CloseConnection(f"the authentication takes more than {MAX_REQUESTS} requests")
        if state is AUTHENTICATE and self._authentication.takes_raw:
            self._handle_raw_token(data[start:end])
            return None
        api_key = int.from_bytes(data[start : start + 2], "big", signed=True) if end - start >= 2 else -1
        if api_key not in PASSES.get(state, ()):
            raise CloseConnection("this request cannot come before the authentication", api_key=api_key, state=state)
        answer = self._requests.handle(data, start, end)
        if answer is not None:
            self.answer(answer)
        return None

    # ---- the calls of the requests behind the gate

    def answer(self, answer: Answer | None) -> None:
        """Send the answer, then act on the new state of the authentication."""
        connection, requests = self._connection, self._requests
        connection.answer(answer)
        if self._authentication.is_complete:
            self._complete(requests)
        elif self._authentication.state is FAILED:
            connection.close()

    def _complete(self, requests: RequestsWithSink) -> None:
        self._stop_timer()
        requests.answers_to(self._connection)
        self._connection.authenticated(requests)
        authentication = self._authentication
        has_tokens = authentication.sasl is not None and authentication.sasl.has_tokens
        if authentication.lifetime_ms is not None or has_tokens:
            ReauthenticationTimer(self._channel, self._connection, requests, self._clock)

    def _handle_raw_token(self, token: bytes) -> None:
        """Handle a token without a request around it. A client sends such tokens after SaslHandshake 0."""
        from muster.coordinator.api.security.sasl import complete
        from muster.coordinator.security.sasl.exchange import AuthenticationFailed

        authentication = self._authentication
        exchange, sasl, clock = authentication.exchange, authentication.sasl, self._clock
        assert exchange is not None
        assert sasl is not None
        try:
            answer = exchange.evaluate(token)
        except AuthenticationFailed as failure:
            reason = CloseConnection("the authentication failed", listener=self._channel.listener,
                                     mechanism=authentication.mechanism, because=str(failure.answer))  # fmt: skip
            clock.call_at(clock.mono_ms() + sasl.failure_delay_ms, lambda: self.fail(reason))
            return
        if exchange.is_complete:
            complete(authentication, exchange, clock.now().wall_ms)
        self.answer(len(answer).to_bytes(4, "big") + answer)

    def _too_late(self) -> None:
        self._timer = None
        self.fail(CloseConnection(f"the client has not authenticated within {MAX_AUTHENTICATION_MS // 1000} s"))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


MAX_SESSION_MS: Final = 10 * 365 * 86_400_000
"""The longest time of a timer: the operating system has a limit."""


class ReauthenticationTimer(Layer):
    """See the module. The timer is the `Requests` of the connection after the session has expired."""

    def __init__(self, channel: Channel, connection: Connection, requests: Requests, clock: Clock) -> None:
        super().__init__(connection, lambda _: requests)
        self._authentication = channel.authentication
        self._connection = connection
        self._clock = clock
        self._timer: Timer | None = None
        self._is_over = False
        self._authentication.on_proven = self._renew
        channel.on_close(self._end)
        self._renew()

    def _renew(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._is_over:
            self._is_over = False
            self._connection.handled_by(self._requests)
        lifetime_ms = self._authentication.lifetime_ms
        if lifetime_ms is None:
            self._timer = None
        elif lifetime_ms:
            self._timer = self._clock.call_at(self._clock.mono_ms() + min(lifetime_ms, MAX_SESSION_MS), self._over)
        else:
            self._over()

    def _over(self) -> None:
        self._timer = None
        before = self._connection.handled_by(self)
        if before is not None:
            self._requests = before
            self._is_over = True

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._authentication.on_proven = None

    # ---- the connection's calls

    def handle(self, data: bytes, start: int, end: int) -> Answer | None:
        """Let the request pass if it is part of an authentication, or raise `CloseConnection`."""
        api_key = int.from_bytes(data[start : start + 2], "big", signed=True) if end - start >= 2 else -1
        again = self._authentication.state is REAUTHENTICATE
        if api_key == ApiKey.SASL_HANDSHAKE or (again and api_key == ApiKey.SASL_AUTHENTICATE):
            answer: Answer | None = self._requests.handle(data, start, end)
            return answer
        raise CloseConnection("its session is over: it has not authenticated again", api_key=api_key)
