"""One request that is being answered (`Exchange`), and the place of tests' faults, delays and refusals (`Intercept`).

An interceptor replaces the handler of a decoded request. Without an interceptor, a request costs only the read of one
field more. A large answer is encoded in a thread, all other answers at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import structlog

from muster.coordinator.api.context import Channel, RequestContext
from muster.coordinator.api.decoded_requests import Decoded
from muster.coordinator.api.layers import Answer, CloseConnection
from muster.coordinator.api.node import Respond
from muster.coordinator.api.registry import LARGE_BYTES, Route
from muster.coordinator.api.unsent import Unsent
from muster.coordinator.system.jobs import JobQueue
from muster.protocol.message import Message, take_apart
from muster.protocol.messages.join_group import JoinGroupResponse
from muster.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse

log = structlog.get_logger("muster.api")

Run = Callable[[Respond], object]
"""Runs the handler. The handler gives its response to the argument, now or later; None means no answer."""
InterceptRequest = Callable[[RequestContext, Message, Any, Run], object]
"""A function (context, request, exchange, run) that replaces the handler. The request has its newest shape and may be
changed. `run(exchange)`, now or later, calls the handler. The client gets what `exchange` gets (`Exchange`). The next
request of the connection waits for this answer.
"""


class Intercept:
    """An interceptor between the connections and the handlers.

    `wants(context)` is called for each request, and need not always return the same. A request that `wants` accepts is
    never handled as a cached request. Other requests are handled as without an interceptor.
    """

    __slots__ = ("request", "wants")

    def __init__(self, request: InterceptRequest, wants: Callable[[RequestContext], bool] = lambda _: True) -> None:
        self.request = request
        self.wants = wants


NO_INTERCEPT: Final = Intercept(lambda _, __, exchange, run: run(exchange), wants=lambda _: False)


TIMED_AMONG: Final = 20
"""Among this many repeated requests, one of each API is timed."""


class InterceptPoint:
    """The place where the requests of one node meet an interceptor, and where repeated requests are timed.

    `intercept`: the present interceptor, or None. `is_watched`: whether a repeated request is looked at: most are not.
    """

    __slots__ = ("_left", "_timed", "intercept", "is_watched", "times_each")

    def __init__(self, intercept: Intercept = NO_INTERCEPT) -> None:
        self.times_each = False
        """Whether each repeated request is timed, as tests want it."""
        self._left = 0
        self._timed: set[int] = set()
        self.use(intercept)

    def use(self, intercept: Intercept | None) -> None:
        """Use this interceptor from now on. None means that no request meets an interceptor."""
        self.intercept = None if intercept is NO_INTERCEPT else intercept
        self._settle()

    def time_each(self) -> None:
        """Let each repeated request be timed."""
        self.times_each = True
        self._settle()

    def time_some(self) -> None:
        """Let one repeated request of each API be timed, among the next `TIMED_AMONG`."""
        self._left = TIMED_AMONG
        self._timed.clear()
        self._settle()

    def must_time(self, api_key: int) -> bool:
        """Whether this repeated request is timed."""
        if self.times_each:
            return True
        if self._left:
            self._left -= 1
            self._settle()
            if api_key not in self._timed:
                self._timed.add(api_key)
                return True
        return False

    def _settle(self) -> None:
        self.is_watched = self.intercept is not None or self.times_each or self._left > 0


MANY_ROWS: Final = 1_000
"""The most rows of an answer to a large request that the event loop encodes."""

LETTERS_AS_A_ROW: Final = 100
"""A long text counts as one more row for each 100 letters."""

NoteResponse = Callable[[Message | None], None]
"""See `ConnectionRequests.note_response`."""


class RequestingConnection(Protocol):
    """The connection whose request is being answered (`dispatch.ConnectionRequests`)."""

    current: Any
    """The object that answers the present request: an `Exchange` or a cached request."""
    sink: Any
    """The `Sink` of the connection's answers."""
    job_queue: JobQueue
    channel: Channel
    note_response: NoteResponse | None
    parts: tuple[Any, ...]
    """The parts of the frame that a cached request handles, if its numbers vary (`cached_requests.FrameLayout`)."""

    @property
    def unsent(self) -> Unsent:
        """The memory limit of answers."""

    def open(self, route: Route, correlation: bytes) -> Exchange:
        """See `dispatch.ConnectionRequests`."""

    def not_awaited(self, route: Route) -> None:
        """See `dispatch.ConnectionRequests`."""

    def not_repeated(self, route: Route) -> None:
        """See `dispatch.ConnectionRequests`."""


class Exchange:
    """One request and its answer. An exchange is the `Respond` of the handler."""

    __slots__ = ("_requests", "correlation", "large_request", "route")

    def __init__(self, requests: RequestingConnection, route: Route, correlation: bytes) -> None:
        self._requests = requests
        self.route = route
        self.correlation = correlation
        self.large_request: tuple[Message | None, Decoded] | None = None
        """A request that a thread has decoded and will free (None: other code has its parts), and its memory."""

    def __call__(self, response: Message | None) -> None:
        """Encode the response and hand it to the connection. Only the first call has an effect, and only before the
        connection ends.
        """
        requests = self._requests
        if requests.current is not self:
            requests.not_awaited(self.route)
            if self.large_request is not None:
                requests.job_queue.worker.run(self._free_request, _nothing)
            return
        job_queue = requests.job_queue
        if response is not None and (
            job_queue.is_large
            or requests.channel.large_answer is not None
            or (self.route.may_be_large and _is_large(response))
        ):
            self._encode_in_thread(response)
            return
        requests.current = None
        if self.large_request is not None:
            job_queue.worker.run(self._free_request, _nothing)
        if response is None:
            if requests.note_response is not None:
                requests.note_response(None)
            requests.sink.answer(None)
            return
        frame = self.frame(response)
        if frame is not None:
            requests.sink.answer(frame)

    def of_many_rows(self, response: Message | None) -> None:
        """Answer a large request. An answer of many rows or long texts is encoded in the thread."""
        requests = self._requests
        if response is not None and requests.current is self and _has_many_rows(response):
            self._encode_in_thread(response)
        else:
            self(response)

    # ---- for faults: incomplete answers, and answers that are not the handler's

    @property
    def is_awaited(self) -> bool:
        """Whether the client still waits for the answer."""
        return self._requests.current is self

    def part(self, data: bytes) -> None:
        """Send some bytes of the answer, before a call of `send` or `cut`."""
        if self.is_awaited:
            self._requests.sink.part(data)

    def send(self, frame: Answer) -> None:
        """Send the bytes of an answer, or its remaining bytes."""
        requests = self._requests
        if requests.current is self:
            requests.current = None
            requests.sink.answer(frame)

    def cut(self, reason: CloseConnection) -> None:
        """End the connection instead of an answer, after the bytes that were sent."""
        requests = self._requests
        if requests.current is self:
            requests.current = None
            requests.sink.fail(reason)

    def in_version(self, version: int) -> Exchange:
        """An exchange that answers in this version of the API, which may differ from the request's version."""
        route = self.route
        other = Route(route.api.key, version, route.head, route.client_bytes, route.client_id)
        return self._requests.open(other, self.correlation)

    def _encode_in_thread(self, response: Message) -> None:
        """Encode a large answer in the thread. Answers whose memory is not counted yet wait behind other answers."""
        requests = self._requests
        unsent, channel, worker = requests.unsent, requests.channel, requests.job_queue.worker

        def encode() -> bool:
            if requests.current is not self:
                return False
            worker.run(lambda: self._large(response), self._encoded)
            return True

        if channel.large_answer is None and unsent.must_wait:
            unsent.wait(channel.host, encode)
        else:
            encode()

    def _large(self, response: Message) -> Answer | None:
        """Encode a large answer in the thread, which also frees request and response, but no parts that others keep."""
        self._free_request()
        requests: Any = self._requests
        if requests.current is not self:
            return None  # the connection has ended
        frame: Answer = self._frame(response)
        if type(response) is not JoinGroupResponse:
            take_apart(response)
        return frame

    def _free_request(self) -> None:
        large, self.large_request = self.large_request, None
        if large is not None:
            request, decoded = large
            if request is not None:
                take_apart(request)
            decoded.release()

    def _encoded(self, frame: Answer | None, error: Exception | None) -> None:
        requests = self._requests
        if requests.current is not self:
            return  # the connection has ended
        requests.current = None
        taken, requests.channel.large_answer = requests.channel.large_answer, None
        if frame is None:
            self._encoding_failed(error)
        else:
            requests.sink.answer(frame)
        if taken is not None:
            taken.release()  # now the connection counts the bytes that the peer has not read

    def frame(self, response: Message) -> Answer | None:
        """The bytes of an answer. None means that the response cannot be encoded; then the connection was ended."""
        try:
            return self._frame(response)
        except Exception as error:  # noqa: BLE001  # `_frame` has logged the reason
            self._encoding_failed(error)
            return None

    def _frame(self, response: Message) -> Answer:
        """The bytes of an answer. This function reads no data that other code changes."""
        route = self.route
        if route.lowers:
            response = route.lower(response)
        note_response = self._requests.note_response
        if note_response is not None:
            note_response(response)
        return route.frame(response, self.correlation)

    def _encoding_failed(self, error: Exception | None) -> None:
        # a response that cannot be encoded is a bug, which must not prevent other answers of this iteration
        facts = self.route.facts()
        log.error("an answer could not be encoded", exc_info=error, **facts)
        self._requests.sink.fail(CloseConnection("its answer could not be encoded", **facts))


def _nothing(_: object, __: object) -> None:
    pass


def _has_many_rows(response: Message) -> bool:
    """Whether the arrays of a message, nested ones included, have more rows or text than the event loop encodes."""
    count = 0
    rows: list[Any] = [response]
    while rows and count <= MANY_ROWS:
        inner: list[Any] = []
        for row in rows:
            for name in getattr(row, "__slots__", ()):
                value = getattr(row, name)
                if type(value) is list:
                    count += len(value)
                    inner += value[:MANY_ROWS]
                elif type(value) is str:
                    count += len(value) // LETTERS_AS_A_ROW
            if count > MANY_ROWS:
                break
        rows = inner
    return count > MANY_ROWS


def _is_large(response: Any) -> bool:
    """Whether the answer to a small request is large: metadata or long ids of many members, or thousands of topics."""
    if type(response) is JoinGroupResponse:
        members = response.members
        if sum([len(one.metadata) for one in members]) > LARGE_BYTES:
            return True
        # the id of a member begins with its instance id, so that both may be long
        return sum([len(one.member_id) for one in members]) > LARGE_BYTES // 2
    if type(response) is StreamsGroupHeartbeatResponse:
        rows = response.partitions_by_user_endpoint
        return rows is not None and len(rows) > MANY_ROWS // 10  # each row has partitions of several topics
    assignment = response.assignment
    return assignment is not None and len(assignment.topic_partitions) > MANY_ROWS
