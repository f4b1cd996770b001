"""What a handler knows about where a request comes from: connection, principal, client, API and version.

May not reach the node, a shard or a socket.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import structlog

from muster.coordinator.api.close_connection import CloseConnection
from muster.coordinator.api.decoded_requests import Decoded
from muster.coordinator.api.unsent import Taken, Unsent
from muster.coordinator.security.authentication import WITHOUT_AUTHENTICATION, Authentication
from muster.coordinator.security.principal import KafkaPrincipal
from muster.coordinator.state_machine.interface import Client
from muster.coordinator.topics.cluster_image import Endpoint

log = structlog.get_logger("muster.api")


class Throttle(Protocol):
    """What counts the requests of one connection while there are quotas (`api.throttled`)."""

    def exempt(self) -> None:
        """The request at hand is not counted."""

    def most_fetched(self) -> int:
        """More bytes than this would always be too much at once."""

    def fetched(self, size: int) -> int:
        """A Fetch is to be answered with so many bytes: 0, or for how many ms it may not."""

    def change(self, partitions: int) -> None:
        """So many partitions are to come or to go. Raises `ApiError`."""

    def create(self, partitions: int) -> None:
        """So many are to come because somebody asked about their topic. Raises `ApiError`."""

    def used(self, used_us: int) -> None:
        """A job of the request at hand took so long."""


class Channel:
    """One connection, as the handlers may know it: its listener, its peer, and when it ends.

    `listener`: Kafka's listener name; `endpoint`: the address that answers on this connection name for this node;
    `peer`: the client's address and port as text, for log lines; `host`: Kafka's clientHost, "/" and the address;
    `authentication`: how far the client is with saying who it is, and its principal.
    """

    __slots__ = (
        "_end",
        "_on_close",
        "authentication",
        "closed",
        "endpoint",
        "host",
        "large_answer",
        "large_request",
        "listener",
        "peer",
        "software_name",
        "software_version",
        "throttle",
    )

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
        """What counts its requests while there are quotas."""
        self.large_answer: Taken | None = None
        """The memory of the answer that is made, if it is large."""
        self.large_request: Decoded | None = None
        """The memory of its newest large request."""
        self.software_name = ""
        self.software_version = ""
        self._on_close: list[Callable[[], object]] = []
        self._end: Callable[[CloseConnection], object] = _nothing

    def ended_by(self, end: Callable[[CloseConnection], object]) -> None:
        """Set what ends the connection: called once, by the connection itself."""
        self._end = end

    def end(self, reason: CloseConnection) -> None:
        """End the connection, for a request that can be refused in no other way (Produce with acks=0).

        Earlier answers are still sent; harmless when it has ended already. The handler calls `respond` all the same.
        """
        self._end(reason)

    def fault(self, error: Exception) -> None:
        """A request met a bug in its handler, which costs the connection, not the server."""
        log.error("a handler failed", peer=self.peer, exc_info=error)
        self._end(CloseConnection("its request met a fault in the server"))

    def on_close(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call back when the connection has ended (at once if it has), unless what is returned is called before."""
        if self.closed:
            callback()
            return _nothing
        self._on_close.append(callback)

        def cancel() -> None:
            if callback in self._on_close:
                self._on_close.remove(callback)

        return cancel

    def answer_memory(self, unsent: Unsent) -> Taken:
        """The memory of the answer that is made, until it was handed over or the connection ends. Not for one that has
        ended.
        """
        if self.large_answer is None:
            self.large_answer = Taken(unsent, self.host)
        return self.large_answer

    def release_answer(self) -> None:
        """The large answer was handed over, or is not made any more."""
        taken, self.large_answer = self.large_answer, None
        if taken is not None:
            taken.release()

    def close(self) -> None:
        """The connection has ended: called once, by the connection itself."""
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
    """One kind of request on one connection; shared by all requests of the same API, version and client id.

    Immutable by convention, and kept by the connection, so that a heartbeat makes none.
    """

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
        """Who the client is, as the connection knows by now."""
        return self.channel.authentication.principal


def charge_of(context: RequestContext) -> Callable[[int], object] | None:
    """What is told how many partitions a client makes or deletes, and may refuse that; None: nothing is counted."""
    throttle = context.channel.throttle
    return None if throttle is None else throttle.change
