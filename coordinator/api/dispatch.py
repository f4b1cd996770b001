"""The way of a frame to its handler: header, route, decoder, interceptor, handler. `exchange` takes the answer back.

A `Route` has the facts about one (API, version, client id), and is shared by all connections. A connection has a
`ConnectionRoute` for each `Route` that it uses, and `RepeatedRequests` cache what it repeats. A thread decodes large
requests, and uses no data that other code changes. This module knows no socket: each connection gives it a `Sink`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import structlog

from muster.coordinator.api.cached_requests import NOT_CACHED, CachedRequest, CachedRequests
from muster.coordinator.api.cluster.api_versions import unsupported_version
from muster.coordinator.api.context import Channel, RequestContext
from muster.coordinator.api.decoded_requests import Decoded
from muster.coordinator.api.exchange import NO_INTERCEPT, Exchange, Intercept, InterceptPoint, NoteResponse
from muster.coordinator.api.layers import Answer, CloseConnection, Sink
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.api.observer import ObservedRequests, RequestObserver
from muster.coordinator.api.registry import SERVED, Repeats, Route
from muster.coordinator.api.repeated_requests import CACHES, RepeatedRequests
from muster.coordinator.api.unsent import Unsent
from muster.coordinator.runtime.routing import BoundedNames
from muster.coordinator.security.authorizer import AllowAll, Operation, ResourceType
from muster.coordinator.state_machine.interface import Client
from muster.coordinator.system.clock import Clock
from muster.protocol import frames
from muster.protocol.api import ApiKey, UnknownApi, api
from muster.protocol.message import MalformedMessage, Message
from muster.protocol.wire import MAX_ELEMENTS, REFUSALS, TooMany

log = structlog.get_logger("muster.api")

_MAX_CONNECTION_ROUTES: Final = 256
"""The most kinds of requests that one connection remembers."""
_MAX_ROUTES: Final = 10_000
"""The most routes that are remembered, because clients may change their id with each request or connection."""
_MAX_ROUTES_BYTES: Final = 4_000_000
"""The limit for the client ids of remembered routes, in bytes. Each client id is in memory three times."""
_LONG_CLIENT_ID: Final = 1_024
"""For a client with a longer id, a connection remembers only the last kind of request."""
FEW_ELEMENTS: Final = 5_000
"""The most elements of a request that is decoded without a thread, within some 5 ms."""


class ConnectionRoute:
    """A route on one connection. `repeated`: notes what the connection repeats; None if the API is never cached."""

    __slots__ = ("context", "repeated", "route")

    def __init__(self, route: Route, context: RequestContext, repeated: RepeatedRequests | None) -> None:
        self.route = route
        self.context = context
        self.repeated = repeated


class ConnectionRequests:
    """The requests of one connection, one at a time. `context`: the context of the present or the last request."""

    __slots__ = (
        "_cached", "_dispatcher", "_exact", "_intercept_point", "_node", "_observed", "_route", "_routes", "_sizes",
        "cached", "channel", "context", "current", "is_reading", "job_queue", "note_response", "parts", "sink",
    )  # fmt: skip

    context: RequestContext

    def __init__(self, dispatcher: Dispatcher, channel: Channel, sink: Sink) -> None:
        self.current: Any = None
        """The object that answers the present request: an `Exchange` or a cached request."""
        self.is_reading = False
        self.sink: Any = sink
        """The sink of the present request's answer; None when the connection has ended. See `answers_to`."""
        self.job_queue = dispatcher.node.job_queue
        self.note_response: NoteResponse | None = None
        """An observer's function, which gets each response before it is encoded, or None if there is no answer."""
        self.cached: CachedRequest | None = None
        """What handles the present or the last request; None if the request was decoded."""
        self._cached = tables = CachedRequests()
        self._sizes, self._exact = tables.sizes, tables.exact
        self.parts: tuple[Any, ...] = ()
        self._dispatcher = dispatcher
        self._node = dispatcher.node
        self._intercept_point = dispatcher.intercept_point
        self.channel = channel
        self._route: ConnectionRoute | None = None
        self._routes: dict[bytes, ConnectionRoute] = {}
        self._observed: ObservedRequests | None = None

    def observed_by(self, observer: RequestObserver, clock: Clock) -> None:
        """Give each answered request to an observer."""
        self._observed = ObservedRequests(self, observer, clock)

    def answers_to(self, sink: Sink) -> None:
        """Give all further answers to another sink."""
        observed = self._observed
        if observed is not None and self.sink is observed:
            observed.sink = sink
        else:
            self.sink = sink

    def handle(self, data: bytes, start: int, end: int) -> Answer | None:
        """Handle the request in data[start:end] (`layers.Requests`). One look finds its cached form."""
        if end - start in self._sizes:
            cached: CachedRequest | None = self._exact.get(data[start + 8 : end])
            if cached is None and (layout := self._cached.layouts.get(end - start)) is not None:
                self.parts = layout.unpack(data, start)
                cached = self._cached.numbered.get(b"".join(self.parts[:: layout.every]))
            if cached is not None:
                self.cached = cached
                try:
                    if self._intercept_point.is_watched:
                        answer = self._handle_watched(cached, data, start)
                    else:
                        answer = cached.handle(data, start, self)
                except Exception as error:  # noqa: BLE001  # a bug in one handler costs its connection, not the server
                    self._fault(cached.route, error)
                    return None
                if answer is not NOT_CACHED:
                    return answer
        self.cached = None
        observed = self._observed
        if observed is None:
            return self._handle_uncached(data, start, end)
        observed.begin(data, start, end)
        answer = self._handle_uncached(data, start, end)
        observed.handled(answer)
        return answer

    def _handle_watched(self, cached: CachedRequest, data: bytes, start: int) -> Answer | None:
        """Handle a repeated request, unless an interceptor wants it; maybe measure its durations."""
        point = self._intercept_point
        if point.intercept is not None and point.intercept.wants(cached.context):
            return NOT_CACHED
        if self._observed is None or not point.must_time(cached.route.api.key):
            return cached.handle(data, start, self)
        return self._observed.timed(cached, data, start)

    def _handle_uncached(self, data: bytes, start: int, end: int, exchange: Exchange | None = None) -> Answer | None:
        """Handle a request without its cached form. `exchange`: the exchange of a large request, which has waited.
        None: a new request.
        """
        known = self._route
        if (
            known is None
            or not data.startswith(known.route.head, start)
            or not data.startswith(known.route.client_bytes, start + 8)
        ):
            known = self._switch_route(data, start, end)
            if known is None:
                return None
        route = known.route
        body = route.body_at(data, start, end)
        if exchange is None:
            exchange = self.current = Exchange(self, route, data[start + 4 : start + 8])
            if end - body > route.small_bytes:
                if end - body > route.large_bytes:
                    self._decode_in_thread(exchange, data, body, end)
                else:
                    self._handle_in_a_slice(exchange, data, start, end)
                return None
        try:
            request = route.decode(data, body, end, FEW_ELEMENTS)
        except TooMany:
            self._decode_in_thread(exchange, data, body, end, MAX_ELEMENTS)
            return None
        except REFUSALS:
            raise route.malformed(data, body, end) from None
        intercept = self._intercept_point.intercept
        if intercept is not None and intercept.wants(self.context):
            self._run_intercepted(intercept, exchange, request)
            return None
        try:
            response = route.handler(self._node, self.context, request, exchange)
        except Exception as error:  # noqa: BLE001  # as in `handle`
            self._fault(route, error)
            return None
        if known.repeated is not None:
            known.repeated.handled(self._node, data, start, body, end)
        if response is None:
            return None
        self.current = None
        return exchange.frame(response)

    def _handle_in_a_slice(self, exchange: Exchange, data: bytes, start: int, end: int) -> None:
        """Handle a request of several kilobytes when an iteration of the event loop has time for it."""
        is_later = False

        def handle() -> None:
            if self.current is not exchange:
                return  # the connection has ended
            if is_later:
                self.is_reading = False
                self.sink.request_decoded()
            try:
                answer = self._handle_uncached(data, start, end, exchange)
            except CloseConnection as reason:
                self.current = None
                self.sink.fail(reason)
            else:
                if answer is not None:
                    self.sink.answer(answer)
                elif is_later:
                    self._has_handled(exchange)

        if not self.job_queue.run_soon(handle, self.channel):
            is_later = self.is_reading = True

    @property
    def unsent(self) -> Unsent:
        """The memory limit of answers."""
        return self._node.unsent

    def open(self, route: Route, correlation: bytes) -> Exchange:
        """Begin a request of this route. The returned exchange answers the request later."""
        exchange = self.current = Exchange(self, route, correlation)
        return exchange

    def not_awaited(self, route: Route) -> None:
        """Ignore an answer that no client waits for. A second answer on an open connection is a logged bug."""
        if self._route is not None:
            log.error("a request was answered twice", **route.facts())

    def not_repeated(self, route: Route) -> None:
        """Note that a cached request does not count as one: its answer waits, or has an error."""
        if self._observed is not None:
            self._observed.begin_late(route.api.key, route.version)

    def wrapped(self, wrap: Callable[[Any, Any], Any]) -> Any:
        """See `layers.Requests`."""
        observed = self._observed
        if observed is not None and self.sink is observed:
            return wrap(self, observed.sink)
        return self if self.sink is None else wrap(self, self.sink)

    def closed(self) -> None:
        """End all work, because the connection has ended. A parked exchange must not keep other objects in memory."""
        self.current = self.sink = self.note_response = self.cached = self._route = self._observed = None
        self._routes.clear()
        self._cached.clear()

    def _decode_in_thread(self, exchange: Exchange, data: bytes, body: int, end: int, max_elements: int = 0) -> None:
        """Decode a large request in the thread. The event loop runs the handler; the next request waits meanwhile.

        `max_elements` 0 means `FEW_ELEMENTS` for a request with records. Above the limit, a second attempt follows.
        """
        route = exchange.route
        max_elements = max_elements or (FEW_ELEMENTS if route.carries_records else MAX_ELEMENTS)
        decoded = self.channel.large_request = self._memory_for(route, end - body, max_elements)

        def read() -> Any:
            if self.current is not exchange:
                return None  # the connection has ended while other requests were decoded
            try:
                return route.decode(data, body, end, max_elements)
            except TooMany as refused:
                return refused if max_elements < MAX_ELEMENTS else route.malformed(data, body, end)
            except REFUSALS:
                return route.malformed(data, body, end)

        def handle(request: Any, error: Exception | None) -> None:
            if self.current is exchange and isinstance(request, TooMany):
                self._decode_in_thread(exchange, data, body, end, MAX_ELEMENTS)
                return
            self.is_reading = False
            if self.current is not exchange:
                return  # the connection has ended
            self.sink.request_decoded()
            if isinstance(request, Message):
                exchange.large_request = request if route.frees_request else None, decoded
            if error is not None:
                self._fault(route, error)
            elif isinstance(request, CloseConnection):
                self.current = None
                self.sink.fail(request)
            elif (intercept := self._intercept_point.intercept) is not None and intercept.wants(self.context):
                self._run_intercepted(intercept, exchange, request)
            else:
                self._run(route, request, exchange.of_many_rows)
                self._has_handled(exchange)
            if not route.frees_request:
                decoded.release()  # the group now has the content of the request

        self.is_reading = True
        if route.only_reads:
            self._one_at_a_time(lambda: self.job_queue.worker.run(read, handle))
        else:
            decoded.when_available(lambda: self.job_queue.worker.run(read, handle))

    def _has_handled(self, exchange: Exchange) -> None:
        """Note that the handler of a request that has waited for it has returned; the answer follows."""
        if self._observed is not None and self.current is exchange:
            self._observed.handled(None)

    def _memory_for(self, route: Route, size: int, max_elements: int) -> Decoded:
        if size > route.max_bytes:
            raise CloseConnection(f"a request of {size} bytes, this API takes {route.max_bytes}", **route.facts())
        requests, host = self._node.decoded_requests, self.channel.host
        is_counted = max_elements == MAX_ELEMENTS and not route.only_reads
        return requests.take(size, host) if is_counted else Decoded(requests, 0, host)

    def _one_at_a_time(self, begin: Callable[[], object]) -> None:
        """Call `begin` when other requests of `ONLY_READS` are answered, since decoded requests take much memory."""
        unsent = self._node.unsent
        taken = self.channel.answer_memory(unsent)
        if unsent.growing is not None or unsent.must_wait:
            taken.when_it_may(begin)
        else:
            unsent.growing = taken
            begin()

    def _run(self, route: Route, request: Any, respond: Respond) -> None:
        try:
            response = route.handler(self._node, self.context, request, respond)
            if response is not None:
                respond(response)
        except Exception as error:  # noqa: BLE001  # as in `handle`
            self._fault(route, error)

    def _run_intercepted(self, intercept: Intercept, exchange: Exchange, request: Any) -> None:
        self.channel.takes_file_parts = False  # an interceptor may look at the bytes of answers
        intercept.request(self.context, request, exchange, partial(self._run, exchange.route, request))

    def _fault(self, route: Route, error: Exception) -> None:
        """End the connection of a request whose handler has a bug; the server continues."""
        log.error("a handler failed", peer=self.channel.peer, exc_info=error, **route.facts())
        self.current = None
        if self.sink is not None:
            self.sink.fail(CloseConnection("its request met a bug in the server", **route.facts()))

    def _switch_route(self, data: bytes, start: int, end: int) -> ConnectionRoute | None:
        """Find the route of another kind of request, and set `context`. None means that the request is answered."""
        head = data[start : start + 4]
        known = self._routes.get(head)
        if known is None or not data.startswith(known.route.client_bytes, start + 8):
            route = self._find_route(data, start, end)
            if route is None:
                return None
            client = Client(route.client_id, self.channel.host)
            context = RequestContext(self.channel, client, route.api.key, route.version)
            if type(self._node.authorizer) is not AllowAll:
                client.seen = partial(
                    self._node.authorizer.allowed, context, Operation.DESCRIBE, ResourceType.TOPIC, log_denied=False
                )
            caches = self._dispatcher.caches and route.api.key in CACHES
            known = ConnectionRoute(route, context, RepeatedRequests(route, context, self._cached) if caches else None)
            if len(self._routes) >= _MAX_CONNECTION_ROUTES:
                self._routes.clear()
            if len(route.client_bytes) <= _LONG_CLIENT_ID:
                self._routes[head] = known
        self._route, self.context = known, known.context
        return known

    def _find_route(self, data: bytes, start: int, end: int) -> Route | None:
        """The route of a request that is new to this connection. None means that the request is answered."""
        try:
            header, _ = frames.decode_request_header(data, start, end)
        except frames.UnknownRequest as unknown:
            header = unknown.header
        except MalformedMessage as error:
            raise CloseConnection(f"malformed request: {error}") from error
        key, version, client_id = header.api_key, header.api_version, header.client_id or ""
        head = data[start : start + 4]
        served = SERVED.get(key)
        if served is None or not served.serves(version):
            if key == ApiKey.API_VERSIONS:
                as_oldest = Route(key, 0, head, b"", client_id)
                self.open(as_oldest, data[start + 4 : start + 8])(unsupported_version())
                return None
            raise CloseConnection(
                "this version of the API is not served" if served else "this API is not served",
                api=_name(key),
                version=version,
                client_id=header.client_id,
            )
        client_size = int.from_bytes(data[start + 8 : start + 10], "big", signed=True)
        client_end = start + 10 + max(client_size, 0)
        client_bytes = data[start + 8 : client_end]
        return self._dispatcher.route(head, client_bytes, key, version, client_id)


def _name(key: int) -> object:
    try:
        return api(key).name
    except UnknownApi:
        return key


class Dispatcher:
    """Opens the requests of each new connection, and has the routes that all connections share."""

    def __init__(
        self,
        node: Node,
        intercept: Intercept = NO_INTERCEPT,
        observer: RequestObserver | None = None,
        *,
        caches: bool = True,
        intercept_point: InterceptPoint | None = None,
    ) -> None:
        """`observer`: gets each answered request. `intercept_point`: where the interceptor may change while the server
        runs; otherwise `intercept` stays. `caches`: whether repeated requests are cached. Tests and `bench` compare
        both values.
        """
        self.node = node
        self.intercept_point = InterceptPoint(intercept) if intercept_point is None else intercept_point
        self.caches = caches
        self._observer = observer
        self._repeats: dict[int, Repeats] = {} if observer is None else observer.repeats
        if observer is not None and observer.times_each:
            self.intercept_point.time_each()
        self._routes: BoundedNames[bytes, Route] = BoundedNames(_MAX_ROUTES, _MAX_ROUTES_BYTES)

    def open(self, channel: Channel, sink: Sink) -> Any:
        """The requests of a new connection."""
        requests = ConnectionRequests(self, channel, sink)
        if self._observer is not None:
            requests.observed_by(self._observer, self.node.clock.machine)
        return requests if self.node.quotas is None else self.throttled(requests, sink)

    def throttled(self, requests: ConnectionRequests, sink: Any) -> Any:
        """The requests of a connection. While quotas exist, the requests are wrapped in `ThrottledRequests`."""
        # imported late, because most servers have no quotas
        from muster.coordinator.api.throttled import ThrottledRequests

        quotas = self.node.quotas
        assert quotas is not None
        return ThrottledRequests(requests, sink, requests.channel, quotas, self.node.clock.machine)

    def route(self, head: bytes, client_bytes: bytes, key: int, version: int, client_id: str) -> Route:
        """The shared `Route` of one kind of request."""
        route = self._routes.get(head + client_bytes)
        if route is None:
            repeats = self._repeats.setdefault(key, Repeats())
            route = Route(key, version, head, client_bytes, client_id, repeats)
            self._routes.keep(head + client_bytes, route, len(client_bytes))
        return route
