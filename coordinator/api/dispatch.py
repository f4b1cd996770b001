"""From a frame to its handler, and from the handler's answer to a frame.

header -> served? -> decode -> context -> intercept -> handler -> respond -> intercept -> encode. A large request is
decoded in a thread, and so is a large answer encoded: neither touches anything that others change. What is known of one
(API, version, client id) is a `Route`, shared by all connections. A connection keeps the `ConnectionRoute` of its last
request, and what was made ready of one that comes again and again (`prepared`), so that a heartbeat makes no message at
all. Knows no socket: it is given a `Sink`.
"""

from __future__ import annotations

from typing import Any, Final

import structlog

from muster.coordinator.api.close_connection import CloseConnection
from muster.coordinator.api.cluster.api_versions import API_VERSIONS, unsupported_version
from muster.coordinator.api.context import Channel, RequestContext
from muster.coordinator.api.exchange import LARGE_BYTES, Exchange
from muster.coordinator.api.intercept import NO_INTERCEPT, Intercept
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.api.prepared.commit import NOT_PREPARED, Answer, PreparedRequest, prepare
from muster.coordinator.api.registry import SERVED, handler
from muster.coordinator.api.routes import ConnectionRoute, Route
from muster.coordinator.api.sink import NOBODY, Sink
from muster.coordinator.bounded_names import Kept
from muster.coordinator.core.interface import Client
from muster.protocol import frames, shapes
from muster.protocol.api import UnknownApi, api
from muster.protocol.message import MalformedMessage, Message
from muster.protocol.wire import MOST_ELEMENTS, REFUSALS, TooMany

log = structlog.get_logger("muster.api")

_MAX_CONNECTION_ROUTES: Final = 256
"""How many kinds of requests one connection remembers."""
_MAX_ROUTES: Final = 10_000
"""Clients that change their id with each request or connection are not remembered for ever."""
_MAX_ROUTES_BYTES: Final = 4_000_000
"""And so many bytes of client ids; each is kept three times."""
_LONG_CLIENT_ID: Final = 1_024
"""Of clients with longer ids a connection remembers the last request only."""

FEW_ELEMENTS: Final = 5_000
"""A request of as many elements is read at once: that takes some 5 ms at most. One of more is read in the thread."""


class _Often:
    """What a request that comes again touches, side by side in memory (see `net.connection`)."""

    __slots__ = ("current", "prepared", "sink")


class ConnectionRequests(_Often):
    """The requests of one connection, one at a time. `context` is that of the request at hand, or of the last one."""

    __slots__ = (
        "_before_handler",
        "_channel",
        "_is_plain",
        "_node",
        "_routes",
        "_way",
        "_ways",
        "before_encode",
        "context",
        "gone",
        "is_reading",
        "slices",
    )

    context: RequestContext

    def __init__(
        self, node: Node, routes: Kept[bytes, Route], channel: Channel, sink: Sink, intercept: Intercept = NO_INTERCEPT
    ) -> None:
        """`routes`: those of all connections, by API key, version and client id as in the header; it grows."""
        self.current: Exchange | None = None
        self.gone = False
        self.is_reading = False
        self.before_encode = intercept.response
        self.sink: Sink = sink
        self._before_handler = intercept.request
        self.slices = node.slices
        self._node = node
        self._channel = channel
        self._routes = routes
        self._is_plain = intercept.request is None and intercept.response is None
        self._way: ConnectionRoute | None = None
        self._ways: dict[bytes, ConnectionRoute] = {}
        self.prepared: PreparedRequest | None = None

    def handle(self, data: bytes, start: int, end: int) -> Answer | None:
        """Take on the request in data[start:end].

        Returns the answer of a handler that knew it at once; None: it goes to the sink, now or later.
        Raises `CloseConnection` when the request is none that can be answered.
        """
        prepared = self.prepared
        if prepared is not None and end - start == prepared.size:
            try:
                answer = prepared.take(data, start, self)
            except Exception as error:  # noqa: BLE001 - a bug in one handler costs its connection, not the server
                assert self._way is not None
                self._fault(self._way.route, error)
                return None
            if answer is not NOT_PREPARED:
                return answer
        way = self._way
        if (
            way is None
            or not data.startswith(way.route.head, start)
            or not data.startswith(way.route.client_bytes, start + 8)
        ):
            way = self._turn_to(data, start, end)
            if way is None:
                return None
            if way.prepared is not None:
                return self.handle(data, start, end)  # which finds the way as it was left
        route = way.route
        body = start + route.header_size
        if route.flexible:
            body = body + 1 if data[body : body + 1] == b"\0" else _skip_tags(route, data, body, end)
        if body > end:
            raise CloseConnection("malformed request: RequestHeader: truncated", **route.facts())
        if end - body > LARGE_BYTES and end - body > route.large_bytes:
            self._read_apart(route, data, start, body, end)
            return None
        exchange = self.current = Exchange(self, route, data[start + 4 : start + 8])
        try:
            request = route.decode(data, body, end, FEW_ELEMENTS)
        except TooMany:
            self._read_apart(route, data, start, body, end)
            return None
        except REFUSALS:
            raise _malformed(route, data, body, end) from None
        if route.raises:
            request = shapes.raise_request(route.api.key, route.version, request)
        if self._before_handler is not None:
            self._before_handler(self.context, request, lambda: self._run(route, request, exchange))
            return None
        try:
            response = route.handler(self._node, self.context, request, exchange)
        except Exception as error:  # noqa: BLE001 - a bug in one handler costs its connection, not the server
            self._fault(route, error)
            return None
        if route.repeats and way.note(end - start) and self._is_plain:
            self.prepared = way.prepared = prepare(self._node, route, self.context, data[start:end], body - start)
        if response is None:
            return None
        if self.before_encode is not None:
            exchange(response)
            return None
        self.current = None
        return exchange.frame(response)

    def open(self, route: Route, correlation: bytes) -> Exchange:
        """A request is at hand, of this kind, that is answered later: by what is returned."""
        exchange = self.current = Exchange(self, route, correlation)
        return exchange

    def not_awaited(self, route: Route) -> None:
        """An answer came that nobody waits for: the connection has ended, or it is the second one."""
        if not self.gone:
            log.error("a request was answered twice", **route.facts())

    def closed(self) -> None:
        """The connection has ended. What lies parked for it elsewhere keeps nothing of it alive."""
        self.gone = True
        self.current = None
        self.sink = NOBODY
        self.prepared = self._way = None
        self._ways.clear()

    def _read_apart(self, route: Route, data: bytes, start: int, body: int, end: int) -> None:
        """Read a large request in the thread; its handler runs here as ever. The next request waits, as for any."""
        exchange = self.open(route, data[start + 4 : start + 8])

        def read() -> Any:
            if self.current is not exchange:
                return None  # the connection has ended while others were read
            try:
                request = route.decode(data, body, end, MOST_ELEMENTS)
            except REFUSALS:
                return _malformed(route, data, body, end)
            if route.raises:
                request = shapes.raise_request(route.api.key, route.version, request)
            return request

        def handle(request: Any, error: Exception | None) -> None:
            self.is_reading = False
            self.sink.was_read()
            if self.current is not exchange:
                return  # the connection has ended
            if route.lets_go and isinstance(request, Message):
                exchange.large_request = request
            if error is not None:
                self._fault(route, error)
            elif isinstance(request, CloseConnection):
                self.current = None
                self.sink.fail(request)
            elif self._before_handler is not None:
                self._before_handler(self.context, request, lambda: self._run(route, request, exchange))
            else:
                self._run(route, request, exchange)

        if end - body > route.most_bytes:
            raise CloseConnection(
                f"a request of {end - body} bytes, this API takes {route.most_bytes}", **route.facts()
            )
        self.is_reading = True
        self.slices.worker.run(read, handle)

    def _run(self, route: Route, request: Any, respond: Respond) -> None:
        try:
            response = route.handler(self._node, self.context, request, respond)
            if response is not None:
                respond(response)
        except Exception as error:  # noqa: BLE001 - as in `handle`
            self._fault(route, error)

    def _fault(self, route: Route, error: Exception) -> None:
        """A bug in one handler costs the connection that met it, not the server."""
        log.error("a handler failed", peer=self._channel.peer, exc_info=error, **route.facts())
        self.current = None
        self.sink.fail(CloseConnection("its request met a fault in the server", **route.facts()))

    def _turn_to(self, data: bytes, start: int, end: int) -> ConnectionRoute | None:
        """The way of a request of another kind than the last one; sets `context`.

        None: it was answered here (ApiVersions of an unknown version).
        """
        head = data[start : start + 4]
        way = self._ways.get(head)
        if way is None or not data.startswith(way.route.client_bytes, start + 8):
            route = self._find_route(data, start, end)
            if route is None:
                return None
            client = Client(route.client_id, self._channel.host)
            way = ConnectionRoute(route, RequestContext(self._channel, client, route.api.key, route.version))
            if len(self._ways) >= _MAX_CONNECTION_ROUTES:
                self._ways.clear()
            if len(route.client_bytes) <= _LONG_CLIENT_ID:
                self._ways[head] = way
        self._way, self.context, self.prepared = way, way.context, way.prepared
        return way

    def _find_route(self, data: bytes, start: int, end: int) -> Route | None:
        """The route of a kind of request that is new to this connection; None: see `_turn_to`."""
        try:
            header, _ = frames.decode_request_header(data, start, end)
        except frames.UnknownRequest as error:
            header = error.header
        except MalformedMessage as error:
            raise CloseConnection(f"malformed request: {error}") from error
        key, version = header.api_key, header.api_version
        served = SERVED.get(key)
        if served is None or not served.serves(version):
            if key == API_VERSIONS:
                self._answer_unknown_version(data[start + 4 : start + 8])
                return None
            raise CloseConnection(
                "this version of the API is not served" if served else "this API is not served",
                api=_name(key),
                version=version,
                client_id=header.client_id,
            )
        client_size = int.from_bytes(data[start + 8 : start + 10], "big", signed=True)
        client_bytes = data[start + 8 : start + 10 + max(client_size, 0)]
        head = data[start : start + 4]
        route = self._routes.get(head + client_bytes)
        if route is None:
            route = Route(api(key), version, head, client_bytes, header.client_id or "", handler(key))
            self._routes.keep(head + client_bytes, route, len(client_bytes))
        return route

    def _answer_unknown_version(self, correlation: bytes) -> None:
        body = api(API_VERSIONS).encode_response(0, unsupported_version())
        self.sink.answer((len(body) + 4).to_bytes(4, "big") + correlation + body)


def _malformed(route: Route, data: bytes, body: int, end: int) -> CloseConnection:
    """Read a malformed request again, to say what is wrong where."""
    try:
        route.api.decode_request(route.version, data, body, end)
    except MalformedMessage as error:
        return CloseConnection(f"malformed request: {error}", **route.facts())
    raise AssertionError("bytes that were malformed no longer are")


def _name(key: int) -> object:
    try:
        return api(key).name
    except UnknownApi:
        return key


def _skip_tags(route: Route, data: bytes, body: int, end: int) -> int:
    """The seldom case of tagged fields in a request header."""
    try:
        return frames.skip_header_tags(data, body, end)
    except MalformedMessage as error:
        raise CloseConnection(f"malformed request: {error}", **route.facts()) from error


class Dispatcher:
    """Opens the requests of each new connection."""

    def __init__(self, node: Node, intercept: Intercept = NO_INTERCEPT) -> None:
        self._node = node
        self._intercept = intercept
        self._routes: Kept[bytes, Route] = Kept(_MAX_ROUTES, _MAX_ROUTES_BYTES)

    def open(self, channel: Channel, sink: Sink) -> ConnectionRequests:
        """The requests of a connection that was just made."""
        return ConnectionRequests(self._node, self._routes, channel, sink, self._intercept)
