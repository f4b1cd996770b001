"""What stands before the requests of a connection that has to authenticate, until it has. As on Kafka, only the
requests of the authentication pass, and any other one closes the connection.

What they mean is the business of the requests behind the gate. Once the authentication is complete those take over, so
that the gate costs an authenticated connection nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Protocol

from muster.coordinator.api.close_connection import CloseConnection
from muster.coordinator.api.context import Channel
from muster.coordinator.api.sink import Answer, Sink
from muster.coordinator.net.connection import Connection, Requests
from muster.coordinator.security.authentication import AUTHENTICATE, FAILED, HANDSHAKE
from muster.protocol.api import ApiKey

PASSES: Final[Mapping[str, frozenset[int]]] = MappingProxyType(
    {
        HANDSHAKE: frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}),
        AUTHENTICATE: frozenset({ApiKey.SASL_AUTHENTICATE}),
    }
)
"""State of the authentication -> keys of the APIs that may be asked for."""


class RequestsWithSink(Requests, Protocol):
    """What is behind the gate (`api.dispatch`); `sink`: where its answers go."""

    sink: Sink


class AuthenticationGate:
    """See the module: the `Requests` of a connection, and the sink of those behind it."""

    def __init__(
        self, channel: Channel, connection: Connection, open_requests: Callable[[Channel, Sink], RequestsWithSink]
    ) -> None:
        self._authentication = channel.authentication
        self._connection = connection
        self._requests = open_requests(channel, self)

    # ---- the connection's calls

    @property
    def is_reading(self) -> bool:
        """See `Requests`."""
        return self._requests.is_reading

    def handle(self, data: bytes, start: int, end: int) -> Answer | None:
        """Let the request through, or raise `CloseConnection`."""
        state = self._authentication.state
        api_key = int.from_bytes(data[start : start + 2], "big", signed=True) if end - start >= 2 else -1
        if api_key not in PASSES.get(state, ()):
            raise CloseConnection("this request cannot come before the authentication", api_key=api_key, state=state)
        answer = self._requests.handle(data, start, end)
        if answer is not None:
            self.answer(answer)
        return None

    def closed(self) -> None:
        """See `Requests`."""
        self._requests.closed()

    # ---- the calls of the requests behind the gate

    def answer(self, answer: Answer | None) -> None:
        """Send the answer, then see what it has brought about."""
        connection, requests = self._connection, self._requests
        connection.answer(answer)
        if self._authentication.is_complete:
            requests.sink = connection
            connection.authenticated(requests)
        elif self._authentication.state is FAILED:
            connection.close()

    def fail(self, reason: CloseConnection) -> None:
        """The request cannot be answered."""
        self._connection.fail(reason)

    def was_read(self) -> None:
        """See `Connection.was_read`."""
        self._connection.was_read()
