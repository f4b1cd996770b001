"""What a handler knows about the origin of a request: connection, principal, client, API and version.

This module may not reach the node, a shard or a socket.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import structlog

from muster.coordinator.api.decoded_requests import Decoded
from muster.coordinator.api.layers import CloseConnection
from muster.coordinator.api.unsent import Taken, Unsent
from muster.coordinator.security.authentication import WITHOUT_AUTHENTICATION, Authentication
from muster.coordinator.security.authorizer import KafkaPrincipal
from muster.coordinator.state_machine.interface import Client
from muster.coordinator.topics.cluster_image import Endpoint

log = structlog.get_logger("muster.api")


class Throttle(Protocol):
    """Counts the requests of one connection while quotas exist (`api.throttled`)."""

    def exempt(self) -> None:
        """Do not count the present request."""

    def max_fetch_bytes(self) -> int:
        """The limit of one Fetch in bytes: a larger answer would always exceed the quota."""

    def fetched(self, size: int) -> int:
        """Count a Fetch answer of so many bytes. Returns how many ms the client must wait before it may have them."""

    def change(self, partitions: int) -> None:
        """Count so many partitions that the request creates or deletes. Raises `ApiError`."""

    def create(self, partitions: int) -> None:
        """Count so many partitions that are created because a client asked for their topic. Raises `ApiError`."""

    def used(self, used_us: int) -> None:
        """Count the time that a job of the present request used."""


class Channel:
    """One connection, as the handlers see it: its listener, its peer and its end.

    `listener`: Kafka's listener name. `endpoint`: this node's address in answers on this connection. `peer`: the
    client's address and port, for log lines. `host`: Kafka's clientHost, which is "/" and the address.
    """

    __slots__ = (
        "_end", "_on_close", "authentication", "closed", "endpoint", "host", "large_answer", "large_request",
        "listener", "peer", "software_name", "software_version", "throttle",
    )  # fmt: skip

    def __init__(
        self,
        listener: str,
        endpoint: Endpoint,
        peer: str = "",
        host: str = "",
        authentication: Authentication = WITHOUT_AUTHENTICATION,
    ) -> None:
        self.listener = listener
        self.endpoint = endpoint
        self.peer = peer
        self.host = host
        self.authentication = authentication
        self.closed = False
        self.throttle: Throttle | None = None
        """Counts the requests while quotas exist."""
        self.large_answer: Taken | None = None
        """The memory of the answer that is being made, if it is large."""
        self.large_request: Decoded | None = None
        """The memory of the newest large request."""
        self.software_name = ""
        self.software_version = ""
        self._on_close: list[Callable[[], object]] = []
        self._end: Callable[[CloseConnection], object] = _nothing

    def ended_by(self, end: Callable[[CloseConnection], object]) -> None:
        """Set the callback that ends the connection. The connection itself sets it once."""
        self._end = end

    def end(self, reason: CloseConnection) -> None:
        """End the connection when a request cannot be refused otherwise (Produce with acks=0). `respond` is still
        called.
        """
        self._end(reason)

    def fault(self, error: Exception) -> None:
        """Report a bug in a handler. It ends the connection, not the server."""
        log.error("a handler failed", peer=self.peer, exc_info=error)
        self._end(CloseConnection("its request met a fault in the server"))

    def on_close(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call back when the connection has ended, at once if it already has. The returned function cancels this."""
        if self.closed:
            callback()
            return _nothing
        self._on_close.append(callback)

        def cancel() -> None:
            if callback in self._on_close:
                self._on_close.remove(callback)

        return cancel

    def answer_memory(self, unsent: Unsent) -> Taken:
        """The memory of the answer that is being made, until it is handed over or the connection ends."""
        if self.large_answer is None:
            self.large_answer = Taken(unsent, self.host)
        return self.large_answer

    def release_answer(self) -> None:
        """Release the memory of the large answer, which was passed on or dropped."""
        taken, self.large_answer = self.large_answer, None
        if taken is not None:
            taken.release()

    def close(self) -> None:
        """The connection has ended. The connection itself calls this once."""
        self.closed = True
        self._end = _nothing
        self.release_answer()
        request, self.large_request = self.large_request, None
        if request is not None:
            request.leave()
        callbacks, self._on_close = self._on_close, []
        for callback in callbacks:
            callback()


def _nothing(*_: object) -> None:
    pass


class RequestContext:
    """One kind of request on one connection. All its requests with the same API, version and client id share it."""

    __slots__ = ("api_key", "api_version", "channel", "client", "endpoint", "host", "listener")

    def __init__(self, channel: Channel, client: Client, api_key: int, api_version: int) -> None:
        self.channel = channel
        self.endpoint = channel.endpoint
        self.host = channel.host
        self.listener = channel.listener
        self.client = client
        self.api_key = api_key
        self.api_version = api_version

    @property
    def principal(self) -> KafkaPrincipal:
        """The principal of the client, as the connection knows it now."""
        return self.channel.authentication.principal


def charge_of(context: RequestContext) -> Callable[[int], object] | None:
    """A function that counts partitions to create or delete, and may refuse them. None means that no quota exists."""
    throttle = context.channel.throttle
    return None if throttle is None else throttle.change
