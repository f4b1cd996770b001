"""One request that is being answered, and how its answer becomes a frame: at once, or in the thread if it is large."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from muster.coordinator.api.close_connection import CloseConnection
from muster.coordinator.api.routes import Route
from muster.protocol import frames, shapes
from muster.protocol.message import Message, take_apart
from muster.protocol.messages.join_group import JoinGroupResponse

if TYPE_CHECKING:
    from muster.coordinator.api.dispatch import ConnectionRequests
    from muster.coordinator.api.prepared.commit import Answer

log = structlog.get_logger("muster.api")

LARGE_BYTES: Final = 256 * 1024
"""A request of more bytes is read in the thread, if its route does not take more; an answer with as much metadata of
members is put together there.
"""


class Exchange:
    """One request and its answer: the `Respond` that its handler is given."""

    __slots__ = ("_requests", "correlation", "large_request", "route")

    def __init__(self, requests: ConnectionRequests, route: Route, correlation: bytes) -> None:
        self._requests = requests
        self.route = route
        self.correlation = correlation
        self.large_request: Message | None = None
        """It was read in the thread, and is let go of there."""

    def __call__(self, response: Message | None) -> None:
        """Answer. Only the first call counts, and none after the connection has ended."""
        requests = self._requests
        if requests.current is not self:
            requests.not_awaited(self.route)
        elif requests.before_encode is None:
            self.send(response)
        else:
            requests.before_encode(requests.context, response, self.send)

    def send(self, response: Message | None) -> None:
        """Encode the answer and hand it to the connection."""
        requests = self._requests
        if requests.current is self:
            worker = requests.slices.worker
            if response is not None and requests.slices.is_large:
                worker.run(lambda: self._large(response), self._encoded)
                return
            if response is not None and _has_large_members(response):
                worker.run(lambda: self._bytes(response), self._encoded)
                return
            requests.current = None
            if self.large_request is not None:
                worker.run(self._let_go, _nothing)
            if response is None:
                requests.sink.answer(None)
                return
            frame = self.frame(response)
            if frame is not None:
                requests.sink.answer(frame)

    def _large(self, response: Message) -> Answer:
        """A large answer, in the thread; the messages are let go of there too."""
        self._let_go()
        frame = self._bytes(response)
        take_apart(response)
        return frame

    def _let_go(self) -> None:
        request, self.large_request = self.large_request, None
        if request is not None:
            take_apart(request)

    def _encoded(self, frame: Answer | None, error: Exception | None) -> None:
        """A large answer was encoded, or could not be."""
        requests = self._requests
        if requests.current is not self:
            return  # the connection has ended
        requests.current = None
        if frame is None:
            self._cannot_be_said(error)
        else:
            requests.sink.answer(frame)

    def frame(self, response: Message) -> Answer | None:
        """The bytes of an answer. None: it cannot be said, and the connection was told so."""
        try:
            return self._bytes(response)
        except Exception as error:  # noqa: BLE001 - logged there
            self._cannot_be_said(error)
            return None

    def _bytes(self, response: Message) -> Answer:
        """The bytes of an answer; reads nothing that others change."""
        route = self.route
        if route.lowers:
            response = shapes.lower_response(route.api.key, route.version, response)
        body = route.encode(response)
        if type(body) is bytes and len(body) < frames.JOIN_BELOW:
            return route.put_head(len(body) + route.head_size, self.correlation) + body
        return self._in_parts(body)

    def _cannot_be_said(self, error: Exception | None) -> None:
        # a response that cannot be said is a bug, and must not hurt the others that are answered in the same turn
        facts = self.route.facts()
        log.error("an answer could not be encoded", exc_info=error, **facts)
        self._requests.sink.fail(CloseConnection("its answer could not be encoded", **facts))

    def _in_parts(self, body: bytes | list[bytes | memoryview]) -> list[bytes | memoryview]:
        """A large answer, or one with records, which are not copied."""
        route = self.route
        parts: list[bytes | memoryview] = [body] if isinstance(body, bytes) else body
        size = sum(map(len, parts)) + route.head_size
        return frames.joined(route.put_head(size, self.correlation), parts)


def _nothing(_: object, __: object) -> None:
    pass


def _has_large_members(response: Message) -> bool:
    """Whether this is a JoinGroup's answer to the leader of members with much metadata: as large as all theirs."""
    if type(response) is not JoinGroupResponse or not response.members:
        return False
    return sum([len(one.metadata) for one in response.members]) > LARGE_BYTES
