"""From a frame to its handler, and from the handler's answer to a frame.

header -> served? -> decode -> context -> intercept -> handler -> respond -> intercept -> encode. The way for one (API,
version, client id) is looked up once per connection and kept as a `Route`, so that a heartbeat makes a message, an
`Exchange` and nothing else. Knows no socket: it is given a `Sink`.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, Final, NoReturn, Protocol

import structlog

from muster.coordinator.api.api_versions import API_VERSIONS, unsupported_version
from muster.coordinator.api.context import Channel, RequestContext
from muster.coordinator.api.intercept import NO_INTERCEPT, Intercept
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.api.refused import Refused
from muster.coordinator.api.registry import SERVED, Handler, handler
from muster.coordinator.groups.interface import Client
from muster.protocol import frames, shapes
from muster.protocol.api import Api, UnknownApi, api
from muster.protocol.message import MalformedMessage, Message
from muster.protocol.wire import REFUSALS

log = structlog.get_logger("muster.api")

_MAX_ROUTES: Final = 256
"""A connection that changes its client id with each request is not remembered for ever."""

_HEAD_4: Final = Struct(">i4s").pack
_HEAD_5: Final = Struct(">i5s").pack
"""Size and response header."""

Answer = bytes | list[bytes | memoryview]


class Sink(Protocol):
    """Where answers go: the connection."""

    def answer(self, answer: Answer | None) -> None:
        """The frame that answers the request at hand; None: no answer is owed."""

    def fail(self, refused: Refused) -> None:
        """The request at hand cannot be answered: end the connection."""


class Route:
    """All that is known of one kind of request on one connection before its body is read."""

    __slots__ = (
        "api",
        "client_bytes",
        "context",
        "decode",
        "encode",
        "flexible",
        "handler",
        "head_size",
        "header_size",
        "lowers",
        "put_head",
        "raises",
        "version",
    )

    def __init__(self, served: Api, version: int, client_bytes: bytes, context: RequestContext, run: Handler) -> None:
        """`client_bytes`: the client id as it stands in the header, its length included."""
        self.api = served
        self.version = version
        self.client_bytes = client_bytes
        self.context = context
        self.handler = run
        self.header_size = 8 + len(client_bytes)
        self.flexible = served.request_header_version(version) >= 2
        # a flexible response header ends in an empty set of tagged fields, the zero that struct pads with
        self.head_size, self.put_head = (5, _HEAD_5) if served.response_header_version(version) else (4, _HEAD_4)
        self.decode = served.request_decoder(version)
        self.encode = served.response_encoder(version)
        self.raises, self.lowers = shapes.converted(served.key, version)

    def facts(self) -> dict[str, object]:
        """For log lines."""
        return {"api": self.api.name, "version": self.version, "client_id": self.context.client.client_id}


class Exchange:
    """One request and its answer: the `Respond` that its handler is given."""

    __slots__ = ("_correlation", "_requests", "_route")

    def __init__(self, requests: ConnectionRequests, route: Route, correlation: bytes) -> None:
        self._requests = requests
        self._route = route
        self._correlation = correlation

    def __call__(self, response: Message | None) -> None:
        """Answer. Only the first call counts, and none after the connection has ended."""
        requests = self._requests
        if requests.current is not self:
            if not requests.gone:
                log.error("a request was answered twice", **self._route.facts())
        elif requests.before_encode is None:
            self.send(response)
        else:
            requests.before_encode(self._route.context, response, self.send)

    def send(self, response: Message | None) -> None:
        """Encode the answer and hand it to the connection."""
        requests = self._requests
        if requests.current is not self:
            return
        requests.current = None
        if response is None:
            requests.sink.answer(None)
            return
        route = self._route
        try:
            if route.lowers:
                response = shapes.lower_response(route.api.key, route.version, response)
            body = route.encode(response)
            if type(body) is bytes and len(body) < frames.JOIN_BELOW:
                frame: Answer = route.put_head(len(body) + route.head_size, self._correlation) + body
            else:
                frame = self._in_parts(body)
        except Exception as error:
            # a response that cannot be said is a bug, and must not hurt the others that are answered in the same turn
            log.error("an answer could not be encoded", exc_info=error, **route.facts())
            requests.sink.fail(Refused("its answer could not be encoded", **route.facts()))
            return
        requests.sink.answer(frame)

    def _in_parts(self, body: bytes | list[bytes | memoryview]) -> list[bytes | memoryview]:
        """A large answer, or one with records, which are not copied."""
        route = self._route
        parts: list[bytes | memoryview] = [body] if isinstance(body, bytes) else body
        size = sum(map(len, parts)) + route.head_size
        return frames.joined(route.put_head(size, self._correlation), parts)


class ConnectionRequests:
    """The requests of one connection, one at a time."""

    __slots__ = ("_before_handler", "_channel", "_node", "_routes", "before_encode", "current", "gone", "sink")

    def __init__(self, node: Node, channel: Channel, sink: Sink, intercept: Intercept = NO_INTERCEPT) -> None:
        self.current: Exchange | None = None
        self.gone = False
        self.before_encode = intercept.response
        self.sink = sink
        self._before_handler = intercept.request
        self._node = node
        self._channel = channel
        self._routes: dict[bytes, Route] = {}

    def handle(self, data: bytes, start: int, end: int) -> None:
        """Take on the request in data[start:end]. Raises `Refused` when it is none that can be answered."""
        route = self._routes.get(data[start : start + 4])
        if route is None or not data.startswith(route.client_bytes, start + 8):
            found = self._find_route(data, start, end)
            if found is None:
                return
            route = found
        body = start + route.header_size
        if route.flexible:
            body = body + 1 if data[body : body + 1] == b"\0" else _skip_tags(route, data, body, end)
        if body > end:
            raise Refused("malformed request: RequestHeader: truncated", **route.facts())
        exchange = self.current = Exchange(self, route, data[start + 4 : start + 8])
        try:
            request = route.decode(data, body, end)
        except REFUSALS:
            self._explain(route, data, body, end)
        if route.raises:
            request = shapes.raise_request(route.api.key, route.version, request)
        if self._before_handler is not None:
            self._before_handler(route.context, request, lambda: self._run(route, request, exchange))
            return
        try:
            route.handler(self._node, route.context, request, exchange)
        except Exception as error:  # noqa: BLE001 - a bug in one handler costs its connection, not the server
            self._fault(route, error)

    def closed(self) -> None:
        """The connection has ended."""
        self.gone = True
        self.current = None

    def _explain(self, route: Route, data: bytes, body: int, end: int) -> NoReturn:
        """Read a malformed request again, to say what is wrong where."""
        try:
            route.api.decode_request(route.version, data, body, end)
        except MalformedMessage as error:
            raise Refused(f"malformed request: {error}", **route.facts()) from error
        raise AssertionError("bytes that were malformed no longer are")

    def _run(self, route: Route, request: Any, respond: Respond) -> None:
        try:
            route.handler(self._node, route.context, request, respond)
        except Exception as error:  # noqa: BLE001 - as in `handle`
            self._fault(route, error)

    def _fault(self, route: Route, error: Exception) -> None:
        """A bug in one handler costs the connection that met it, not the server."""
        log.error("a handler failed", peer=self._channel.peer, exc_info=error, **route.facts())
        self.current = None
        self.sink.fail(Refused("its request met a fault in the server", **route.facts()))

    def _find_route(self, data: bytes, start: int, end: int) -> Route | None:
        """The way of a kind of request seen for the first time.

        None: it was answered here (ApiVersions of an unknown version).
        """
        try:
            header, _ = frames.decode_request_header(data, start, end)
        except frames.UnknownRequest as error:
            header = error.header
        except MalformedMessage as error:
            raise Refused(f"malformed request: {error}") from error
        key, version = header.api_key, header.api_version
        served = SERVED.get(key)
        if served is None or not served.serves(version):
            if key == API_VERSIONS:
                self._answer_unknown_version(data[start + 4 : start + 8])
                return None
            raise Refused(
                "this version of the API is not served" if served else "this API is not served",
                api=_name(key),
                version=version,
                client_id=header.client_id,
            )
        client_size = int.from_bytes(data[start + 8 : start + 10], "big", signed=True)
        client_bytes = data[start + 8 : start + 10 + max(client_size, 0)]
        context = RequestContext(self._channel, Client(header.client_id or "", self._channel.host), key, version)
        route = Route(api(key), version, client_bytes, context, handler(key))
        if len(self._routes) >= _MAX_ROUTES:
            self._routes.clear()
        self._routes[data[start : start + 4]] = route
        return route

    def _answer_unknown_version(self, correlation: bytes) -> None:
        body = api(API_VERSIONS).encode_response(0, unsupported_version())
        self.sink.answer((len(body) + 4).to_bytes(4, "big") + correlation + body)


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
        raise Refused(f"malformed request: {error}", **route.facts()) from error


class Dispatcher:
    """Opens the requests of each new connection."""

    def __init__(self, node: Node, intercept: Intercept = NO_INTERCEPT) -> None:
        self._node = node
        self._intercept = intercept

    def open(self, channel: Channel, sink: Sink) -> ConnectionRequests:
        """The requests of a connection that was just made."""
        return ConnectionRequests(self._node, channel, sink, self._intercept)


OpenRequests = Callable[[Channel, Any], ConnectionRequests]
