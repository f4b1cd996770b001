"""An observer gets each answered request, also cached requests. Only the requests of an observed connection are
wrapped: without an observer nothing is measured or counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, Final, NamedTuple, Protocol

from muster.coordinator.api.layers import Answer, Layer, Sink
from muster.coordinator.system.clock import Clock
from muster.protocol.api import ApiKey
from muster.protocol.message import Message

_key_and_version: Final = Struct(">hh").unpack_from


class AnsweredRequest(NamedTuple):
    """One request, with the figures of Kafka's RequestMetrics."""

    api_key: int
    api_version: int
    error_counts: Mapping[int, int]
    """How often each error code, also 0 (no error), is in the answer. Empty for a request without an answer."""
    request_bytes: int
    """The size of header and body in bytes, without the size field."""
    response_bytes: int
    """The size of the whole frame in bytes; 0 for a request without an answer."""
    began_us: int
    """When the request's handling began, after earlier requests of the connection. All three times are monotonic."""
    handled_us: int
    """When the handler returned. Later the request waited for other members, for the disk, or for a time."""
    answered_us: int
    """When the answer was handed to the connection."""
    throttle_ms: int = 0
    stands_for: int = 1
    """How many requests it stands for: itself, and repeated ones that `RequestObserver.repeats` has counted."""


UNTIMED: Final = 15
"""How many repeated requests of a connection are only counted before one is timed, if the observer allows it."""


class RequestObserver(Protocol):
    """Gets the answered requests. An observer must be quick and must not fail."""

    @property
    def repeats(self) -> list[int] | None:
        """The number of repeated requests without error that were only counted, by API key, to be added to.

        None: `observe` gets each request.
        """

    def observe(self, request: AnsweredRequest) -> None:
        """Take an answered request."""


_new: Final = tuple.__new__
"""Makes the tuple without the function of the class, which is written in Python."""


class ObservedRequests(Layer):
    """The requests of an observed connection, and the sink of their answers."""

    __slots__ = (
        "_api", "_began_us", "_count", "_error_counts", "_handled_us", "_left", "_mono_us", "_observe", "_repeats",
        "_request_bytes",
    )  # fmt: skip

    def __init__(
        self, open_requests: Callable[[Sink], Any], sink: Sink, observer: RequestObserver, clock: Clock
    ) -> None:
        """`open_requests(sink)` opens the observed `dispatch.ConnectionRequests`."""
        super().__init__(sink, open_requests)
        self._observe = observer.observe
        self._repeats = observer.repeats
        self._mono_us = clock.mono_us
        self._left = 0
        """How many repeated requests are only counted from now on."""
        self._count = 1
        """How many requests the next timed one stands for."""
        self._requests.note_response = self._note_response
        self._api = 0, 0
        self._request_bytes = self._began_us = self._handled_us = 0
        self._error_counts: Mapping[int, int] | None = None

    def handle(self, data: bytes, start: int, end: int) -> Answer | None:
        """Handle a request: see `dispatch.ConnectionRequests`."""
        self._began_us, self._handled_us = self._mono_us(), 0
        self._request_bytes, self._error_counts = end - start, None
        if end - start >= 4:
            self._api = _key_and_version(data, start)
        requests = self._requests
        answer: Answer | None = requests.handle(data, start, end)
        if answer is None:
            self._handled_us = self._mono_us()
            return None
        repeats = self._repeats
        if repeats is None or requests.cached is None or self._error_counts is not None:
            self._report(answer)
        elif self._left:
            self._left -= 1
            repeats[self._api[0]] += 1
        else:
            self._report(answer, self._count)
            self._left, self._count = UNTIMED, UNTIMED + 1
        return answer

    def answer(self, answer: Answer | None) -> None:
        """Observe the present request, and hand its answer to the connection."""
        self._report(answer)
        self.sink.answer(answer)

    def _note_response(self, response: Message | None) -> None:
        self._error_counts = {} if response is None else error_counts(self._api[0], response)

    def _report(self, answer: Answer | None, count: int = 1) -> None:
        answered_us = self._mono_us()
        counts, cached = self._error_counts, self._requests.cached
        if counts is None and cached is not None:
            counts = cached.error_counts  # no response was encoded
        size = 0 if answer is None else len(answer) if isinstance(answer, bytes) else sum(map(len, answer))
        handled_us = self._handled_us or answered_us
        key, version = self._api
        throttle_ms = getattr(self._requests, "throttle_ms", 0)
        self._observe(_new(AnsweredRequest, (
            key, version, counts or {}, self._request_bytes, size, self._began_us, handled_us, answered_us, throttle_ms,
            count,
        )))  # fmt: skip


def error_counts(api_key: int, response: Any) -> dict[int, int]:
    """How often each error code is in a response of the request's version: Kafka's AbstractResponse.errorCounts."""
    counts: dict[int, int] = {}
    _count(response, counts)
    if api_key == ApiKey.METADATA or (api_key == ApiKey.FIND_COORDINATOR and response.coordinators):
        # Kafka does not count the top-level code of these responses
        counts[response.error_code] -= 1
    return {code: count for code, count in counts.items() if count}


def _count(message: Message, counts: dict[int, int]) -> None:
    for name in message.__slots__:
        value = getattr(message, name)
        if name == "error_code":
            counts[value] = counts.get(value, 0) + 1
        elif type(value) in (list, tuple) and value and isinstance(value[0], Message):
            for row in value:
                _count(row, counts)
