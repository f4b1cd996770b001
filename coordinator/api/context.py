"""What a handler knows about the one who asks: the connection, the principal, the client, the API and its version.

May not reach the node, a shard or a socket: a context is what the connection says of itself.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from muster.coordinator.api.close_connection import CloseConnection
from muster.coordinator.cluster.image import Endpoint
from muster.coordinator.core.interface import Client
from muster.coordinator.security.authentication import WITHOUT_AUTHENTICATION, Authentication
from muster.coordinator.security.principal import KafkaPrincipal

log = structlog.get_logger("muster.api")


class Channel:
    """One connection, as the handlers may know it: where it came in, who is at the other end, and when it ends.

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
        "listener",
        "peer",
        "software_name",
        "software_version",
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
        self.software_name = ""
        self.software_version = ""
        self._on_close: list[Callable[[], object]] = []
        self._end: Callable[[CloseConnection], object] = _nothing_to_end

    def ended_by(self, end: Callable[[CloseConnection], object]) -> None:
        """What ends the connection: said once, by the connection itself."""
        self._end = end

    def end(self, refused: CloseConnection) -> None:
        """End the connection, for a handler whose request leaves no other way to say no (Produce with acks=0).

        Earlier answers are still sent; harmless when it has ended already. The handler calls `respond` all the same.
        """
        self._end(refused)

    def fault(self, error: Exception) -> None:
        """A request met a bug in its handler, which costs the connection, not the server."""
        log.error("a handler failed", peer=self.peer, exc_info=error)
        self._end(CloseConnection("its request met a fault in the server"))

    def on_close(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call back when the connection has ended (at once if it has); what is returned takes the wish back."""
        if self.closed:
            callback()
            return _nothing
        self._on_close.append(callback)

        def forget() -> None:
            if callback in self._on_close:
                self._on_close.remove(callback)

        return forget

    def close(self) -> None:
        """The connection has ended: called once, by the connection itself."""
        self.closed = True
        self._end = _nothing_to_end
        callbacks, self._on_close = self._on_close, []
        for callback in callbacks:
            callback()


def _nothing() -> None:
    pass


def _nothing_to_end(refused: CloseConnection) -> None:
    pass


class RequestContext:
    """One kind of request on one connection; shared by all requests of the same API, version and client id.

    Immutable by convention, and kept by the connection, so that a heartbeat makes none.
    """

    __slots__ = ("api_key", "api_version", "channel", "client", "endpoint", "host", "listener", "peer")

    def __init__(self, channel: Channel, client: Client, api_key: int, api_version: int) -> None:
        self.channel = channel
        self.endpoint = channel.endpoint
        self.host = channel.host
        self.listener = channel.listener
        self.peer = channel.peer
        self.client = client
        self.api_key = api_key
        self.api_version = api_version

    @property
    def principal(self) -> KafkaPrincipal:
        """Who asks, as the connection knows by now."""
        return self.channel.authentication.principal
