"""What a client may do that has to re-authenticate (KIP-368). Until its session expires, everything is allowed; after
that, only re-authentication.

Until then the requests of the connection take their usual path, so that this costs them nothing.
"""

from __future__ import annotations

from typing import Final

from muster.coordinator.api.close_connection import CloseConnection
from muster.coordinator.api.context import Channel
from muster.coordinator.api.sink import Answer
from muster.coordinator.net.connection import Connection
from muster.coordinator.net.requests import Requests, Wrap
from muster.coordinator.security.authentication import REAUTHENTICATE
from muster.coordinator.system.clock import Clock, Timer
from muster.protocol.api import ApiKey

MOST_MS: Final = 10 * 365 * 86_400_000
"""The longest timer: the system cannot set a timer to the end of all times."""


class Session:
    """See the module. It is the `Requests` of the connection after the session has expired."""

    def __init__(self, channel: Channel, connection: Connection, requests: Requests, clock: Clock) -> None:
        self._authentication = channel.authentication
        self._connection = connection
        self._requests = requests
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
            self._timer = self._clock.call_at(self._clock.mono_ms() + min(lifetime_ms, MOST_MS), self._over)
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

    @property
    def is_reading(self) -> bool:
        """See `Requests`."""
        return self._requests.is_reading

    def handle(self, data: bytes, start: int, end: int) -> Answer | None:
        """Let the request pass if it is one of an authentication, or raise `CloseConnection`."""
        api_key = int.from_bytes(data[start : start + 2], "big", signed=True) if end - start >= 2 else -1
        again = self._authentication.state is REAUTHENTICATE
        if api_key == ApiKey.SASL_HANDSHAKE or (again and api_key == ApiKey.SASL_AUTHENTICATE):
            return self._requests.handle(data, start, end)
        raise CloseConnection("its session is over: it has not authenticated again", api_key=api_key)

    def closed(self) -> None:
        """See `Requests`."""
        self._requests.closed()

    def wrapped(self, wrap: Wrap) -> Requests:
        """See `Requests`."""
        self._requests = self._requests.wrapped(wrap)
        return self
