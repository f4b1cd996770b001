"""An observer gets each answered request. Repeated requests, which cached requests answer, are only counted
(`registry.Repeats`), and some of them are timed. Without an observer nothing is measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Any, Final, NamedTuple, Protocol

from muster.coordinator.api.cached_requests import NOT_CACHED, CachedRequest
from muster.coordinator.api.layers import Answer, CloseConnection
from muster.coordinator.api.registry import Repeats
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
    began_us: int
    """When the request's handling began, after earlier requests of the connection. All three times are monotonic."""
    handled_us: int
    """When the handler returned. Later the request waited for other members, for the disk, or for a time."""
    answered_us: int
    """When the answer was handed to the connection."""
    stands_for: int = 1
    """How many requests it stands for: itself, and earlier ones that were only counted."""
    queued_us: int = 0
    """How long it waited, after `began_us`, until a thread had decoded it or the event loop had time for it."""


class RequestObserver(Protocol):
    """Gets the answered requests. An observer must be quick and must not fail."""

    times_each: bool
    """Whether it gets each repeated request, too. Otherwise `InterceptPoint.time_some` says how often it gets one."""

    @property
    def repeats(self) -> dict[int, Repeats]:
        """The repeated requests, by API key. The dispatchers add rows, and cached requests count."""

    def observe(self, request: AnsweredRequest) -> None:
        """Take an answered request."""


class ObservedRequests:
    """The observation of one connection's requests. It is the sink of the present request while this is observed."""

    __slots__ = (
        "_api", "_began_us", "_cached", "_error_counts", "_handled_us", "_mono_us", "_observe", "_queued_us",
        "_requests", "sink",
    )  # fmt: skip

    def __init__(self, requests: Any, observer: RequestObserver, clock: Clock) -> None:
        """`requests`: the `dispatch.ConnectionRequests`."""
        self._requests = requests
        self._observe = observer.observe
        self._mono_us = clock.mono_us
        self.sink: Any = requests.sink
        """The sink behind this object."""
        requests.note_response = self._note_response
        self._api = 0, 0
        self._began_us = self._handled_us = self._queued_us = 0
        self._error_counts: Mapping[int, int] | None = None
        self._cached: CachedRequest | None = None
        """What handles the present request, if this is a repeated one."""

    def begin(self, data: bytes, start: int, end: int) -> None:
        """Begin to observe a request that is not repeated."""
        self._begin(_key_and_version(data, start) if end - start >= 4 else self._api)

    def begin_late(self, key: int, version: int) -> None:
        """Observe a request that was handled as a repeated one, and turned out not to be one."""
        if self._requests.sink is not self:
            self._begin((key, version))
            self._handled_us = self._began_us
        self._cached = None

    def _begin(self, api: tuple[int, int]) -> None:
        requests = self._requests
        if requests.sink is not self:
            self.sink, requests.sink = requests.sink, self
        self._api, self._error_counts, self._cached = api, None, None
        self._began_us, self._handled_us, self._queued_us = self._mono_us(), 0, 0

    def handled(self, answer: Answer | None) -> None:
        """The handler has returned, with its answer. None: the answer follows, or was given."""
        if answer is None:
            self._handled_us = self._mono_us()
        else:
            self._end(has_answer=True)

    def timed(self, cached: CachedRequest, data: bytes, start: int) -> Answer | None:
        """Handle a repeated request, and measure its durations."""
        requests, route = self._requests, cached.route
        self._begin((route.api.key, route.version))
        self._cached = cached
        answer = cached.handle(data, start, requests)
        if answer is NOT_CACHED:
            requests.sink = self.sink
        else:
            self.handled(answer)
        return answer

    def _end(self, *, has_answer: bool) -> None:
        answered_us, counts, cached, stands_for = self._mono_us(), self._error_counts, self._cached, 1
        self._requests.sink = self.sink
        if cached is not None:
            repeats = cached.route.repeats
            counts, stands_for = cached.error_counts, repeats.count - repeats.timed
            repeats.timed = repeats.count
        key, version = self._api
        handled_us = self._handled_us or answered_us
        counts = counts or {} if has_answer else {}
        self._observe(
            AnsweredRequest(key, version, counts, self._began_us, handled_us, answered_us, stands_for, self._queued_us)
        )

    def _note_response(self, response: Message | None) -> None:
        if response is not None:
            self._error_counts = error_counts(self._api[0], response)

    # ---- the calls of the requests

    def answer(self, answer: Answer | None) -> None:
        """Observe the present request, and hand its answer on."""
        self._end(has_answer=answer is not None)
        self.sink.answer(answer)

    def part(self, data: bytes) -> None:
        """See `layers.Sink`."""
        self.sink.part(data)

    def fail(self, reason: CloseConnection) -> None:
        """See `layers.Sink`."""
        self.sink.fail(reason)

    def mute(self, throttle_ms: int) -> None:
        """See `layers.Sink`."""
        self.sink.mute(throttle_ms)

    def request_decoded(self) -> None:
        """See `layers.Sink`. The handler begins now."""
        self._queued_us, self._handled_us = self._mono_us() - self._began_us, 0
        self.sink.request_decoded()


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
