"""The layers between a connection and the handlers of its requests: the methods that neighbours call.

This module also says how a request ends its connection. It knows no socket.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol


class CloseConnection(Exception):
    """The connection has to be closed, with one log line: `reason`, and `facts` as fields (api, version …)."""

    def __init__(self, reason: str, **facts: object) -> None:
        super().__init__(reason)
        self.reason = reason
        self.facts = facts


Answer = bytes | Sequence[bytes | memoryview]
"""A whole frame, in one piece or in several parts. Parts are sent without joining them."""


class Sink(Protocol):
    """The connection, as its requests see it."""

    def answer(self, answer: Answer | None) -> None:
        """Send the frame that answers the present request. None means that the request gets no answer."""

    def part(self, data: bytes) -> None:
        """Send some bytes of the answer before the rest of it, for faults; see `api.exchange`."""

    def fail(self, reason: CloseConnection) -> None:
        """End the connection: the present request cannot be answered."""

    def mute(self, throttle_ms: int) -> None:
        """After an answer: handle no request for `throttle_ms`."""

    def request_decoded(self) -> None:
        """The bytes of the present large request are no longer needed."""


Wrap = Callable[[Any, Any], Any]
"""Wraps the requests of a connection. The arguments are these requests and the sink of their answers."""


class Requests(Protocol):
    """The object that handles the frames of a connection."""

    @property
    def is_reading(self) -> bool:
        """Whether the bytes of the present request are still needed. `Sink.request_decoded` reports their release."""

    def handle(self, data: bytes, start: int, end: int) -> Answer | None:
        """Handle the request in data[start:end]. Returns its answer, or None: then `Sink.answer` is called once, now or
        later.

        Raises `CloseConnection` when the frame is not a request that can be answered.
        """

    def closed(self) -> None:
        """The connection has ended: no request needs an answer."""

    def wrapped(self, wrap: Wrap) -> Requests:
        """Put `wrap(requests, sink)` before the requests of the API. Returns the object that handles requests now."""


class Layer:
    """A layer between a connection and its requests: the `Requests` of one side, and the `Sink` of the other.

    The layers are the observer (`api.observer`), the counting for quotas (`api.throttled`), and the gate before
    authentication (`net.authentication_gate`). This base passes everything through.
    """

    __slots__ = ("_requests", "sink")

    def __init__(self, sink: Any, open_requests: Callable[[Any], Any]) -> None:
        """`open_requests(sink)` opens the requests behind this layer."""
        self.sink = sink
        self._requests = open_requests(self)

    # ---- the connection's calls

    @property
    def is_reading(self) -> bool:
        """See `Requests`."""
        return bool(self._requests.is_reading)

    def closed(self) -> None:
        """See `Requests`."""
        self._requests.closed()

    def wrapped(self, wrap: Wrap) -> Any:
        """See `Requests`."""
        self._requests = self._requests.wrapped(wrap)
        return self

    # ---- the calls of the requests behind this layer

    def part(self, data: bytes) -> None:
        """See `Sink`."""
        self.sink.part(data)

    def fail(self, reason: CloseConnection) -> None:
        """See `Sink`."""
        self.sink.fail(reason)

    def mute(self, throttle_ms: int) -> None:
        """See `Sink`."""
        self.sink.mute(throttle_ms)

    def request_decoded(self) -> None:
        """See `Sink`."""
        self.sink.request_decoded()
