"""The layers between a connection and the handlers of its requests: the methods that neighbours call.

This module also has the exception that ends a connection. This module knows no socket.
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
"""A whole frame, as one piece or as several parts, which are sent without joining."""


class Sink(Protocol):
    """The connection, as its requests see it."""

    def answer(self, answer: Answer | None) -> None:
        """Send the frame that answers the present request. None means that the request gets no answer."""

    def part(self, data: bytes) -> None:
        """Send the first bytes of an answer, for faults; see `api.exchange`."""

    def fail(self, reason: CloseConnection) -> None:
        """End the connection, because the present request cannot be answered."""

    def mute(self, throttle_ms: int) -> None:
        """Handle no request for `throttle_ms` after an answer."""

    def request_decoded(self) -> None:
        """Release the bytes of the present large request, which is decoded."""


Wrap = Callable[[Any, Any], Any]
"""A function (requests, sink of their answers) that wraps the requests of a connection."""


class Requests(Protocol):
    """The object that handles the frames of a connection."""

    @property
    def is_reading(self) -> bool:
        """Whether the bytes of the present request are still needed. `Sink.request_decoded` reports the release."""

    def handle(self, data: bytes, start: int, end: int) -> Answer | None:
        """Handle the request in data[start:end]. Returns the answer, or None if `Sink.answer` gets it, now or later.

        Raises `CloseConnection` when the frame is not a request that can be answered.
        """

    def closed(self) -> None:
        """Forget all requests, because the connection has ended."""

    def wrapped(self, wrap: Wrap) -> Requests:
        """Put the layer `wrap(requests, sink)` before the requests. Returns the object that handles requests now."""


class Layer:
    """A layer between a connection and its requests: `Requests` for the connection, and `Sink` for the requests.

    The layers are the counting for quotas (`api.throttled`), and the gate before authentication
    (`net.authentication_gate`). This base class passes all calls on.
    """

    __slots__ = ("_requests", "sink")

    def __init__(self, sink: Any, open_requests: Callable[[Any], Any]) -> None:
        """`open_requests(sink)` opens the requests behind this layer."""
        self.sink = sink
        self._requests = open_requests(self)

    # ---- calls by the connection

    @property
    def is_reading(self) -> bool:
        """See `Requests`."""
        return bool(self._requests.is_reading)

    def closed(self) -> None:
        """See `Requests`."""
        self._requests.closed()

    def answers_to(self, sink: Any) -> None:
        """Give all further answers to another sink."""
        self.sink = sink

    def wrapped(self, wrap: Wrap) -> Any:
        """See `Requests`."""
        self._requests = self._requests.wrapped(wrap)
        return self

    # ---- calls by the requests behind this layer

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
