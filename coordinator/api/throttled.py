"""The requests of one connection while quotas exist. Each request is counted, and a client above its quota has to wait.

As on Kafka the answer leaves at once, with the time to wait (`throttle_time_ms`). During this time no request of the
connection is handled. Without quotas, connections do not have this layer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from muster.coordinator.api.context import Channel, refuses_changes
from muster.coordinator.api.layers import Answer, Layer
from muster.coordinator.quotas.managers import ClientQuotas, QuotaManager, Sensor
from muster.coordinator.system.clock import Clock
from muster.coordinator.topics.errors import ApiError
from muster.protocol import frames
from muster.protocol.api import ApiKey, api
from muster.protocol.errors import ErrorCode

_UNCOUNTED: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.WRITE_TXN_MARKERS})
"""APIs of authentication, and APIs of brokers. Kafka exempts these APIs from `request_percentage`."""
_PERCENT_OF_US: Final = 100 / 1_000_000
_LENGTH: Final = 4
_NO_LIMIT: Final = 2**31 - 1


class ThrottledRequests(Layer):
    """The layer that counts requests. `throttle_ms`: the time to wait in the last answer."""

    __slots__ = (
        "_api_key", "_begun_us", "_channel", "_clock", "_is_counted", "_is_inside", "_quotas", "_sensors",
        "_size", "_used_us", "_version", "_waits_ms", "fetch_ms", "throttle_ms",
    )  # fmt: skip

    def __init__(self, requests: Any, sink: Any, channel: Channel, quotas: ClientQuotas, clock: Clock) -> None:
        """`requests`: the `dispatch.ConnectionRequests`. This object becomes the sink of the requests."""
        super().__init__(sink, lambda _: requests)
        self.throttle_ms = 0
        self.fetch_ms = -1
        """The throttle time that the handler of a Fetch got. -1 means that the handler has not asked for it."""
        self._channel = channel
        self._quotas = quotas
        self._clock = clock
        self._api_key = self._version = 0
        self._size = 0
        self._begun_us = self._used_us = 0
        self._is_inside = False
        self._is_counted = False
        self._waits_ms = 0, 0
        """How many ms the client has to wait because of a change of topics, and since when."""
        self._sensors: dict[tuple[int, str], tuple[int, Sensor]] = {}
        requests.answers_to(self)
        channel.throttle = self

    def handle(self, data: bytes, start: int, end: int) -> Answer | None:
        """Handle a request: see `dispatch.ConnectionRequests`."""
        self._api_key = int.from_bytes(data[start : start + 2], "big")
        self._version = int.from_bytes(data[start + 2 : start + 4], "big")
        self._size = end - start
        self._used_us = 0
        self.fetch_ms = -1
        self._is_counted = self._channel.authentication.is_complete
        self._is_inside = True
        self._begun_us = self._clock.mono_us()
        answer: Answer | None = self._requests.handle(data, start, end)
        if answer is None:
            if self._is_inside:
                self._is_inside = False
                self._used_us = self._clock.mono_us() - self._begun_us
            return None
        self._end_inside()
        throttle_ms = self._count(answer)
        if not throttle_ms:
            return answer
        self.sink.answer(with_throttle_time(answer, self._api_key, self._version, throttle_ms))
        self.sink.mute(throttle_ms)
        return None

    def closed(self) -> None:
        """See `Requests`."""
        self._requests.closed()
        self._channel.throttle = None

    def wrapped(self, _: Callable[[Any, Any], Any]) -> Any:
        """Return this object, which already wraps the requests."""
        return self

    def answer(self, answer: Answer | None) -> None:
        """Count the present request, and send its answer with the throttle time."""
        if self._is_inside:
            self._end_inside()
        throttle_ms = self._count(answer)
        if answer is not None and throttle_ms:
            answer = with_throttle_time(answer, self._api_key, self._version, throttle_ms)
        self.sink.answer(answer)
        if throttle_ms:
            self.sink.mute(throttle_ms)

    def used(self, used_us: int) -> None:
        """Count the time of a job, as `JobQueue.meter` reports it. Time inside the handler is counted already."""
        if not self._is_inside:
            self._used_us += used_us

    def max_fetch_bytes(self) -> int:
        """See `context.Throttle`."""
        quotas = self._quotas.consumer
        if not quotas.is_enabled:
            return _NO_LIMIT
        bound = self._sensor(quotas).bound
        if bound is None:
            return _NO_LIMIT
        return int(min(bound * (quotas.windows.number - 1) * quotas.windows.size_ms / 1000, _NO_LIMIT))

    def fetched(self, size: int) -> int:
        """See `context.Throttle`. A client that has to wait gets an empty answer."""
        if not self._is_counted:
            return 0
        now_ms = self._clock.mono_ms()
        used_us = self._used_us + (self._clock.mono_us() - self._begun_us if self._is_inside else 0)
        throttle_ms = self._record_request(used_us, now_ms)
        self._begun_us, self._used_us = self._clock.mono_us(), 0
        quotas = self._quotas.consumer
        if quotas.is_enabled:
            sensor = self._sensor(quotas)
            throttle_ms = max(throttle_ms, _record(sensor, size, now_ms))
            if throttle_ms:
                sensor.meter.record(-size, now_ms)
        self.fetch_ms = throttle_ms
        return throttle_ms

    def change(self, partitions: int) -> None:
        """See `context.Throttle`. Clients of versions without THROTTLING_QUOTA_EXCEEDED wait after the answer."""
        self._change(partitions, is_strict=refuses_changes(self._api_key, self._version))

    def create(self, partitions: int) -> None:
        """See `context.Throttle`. The client does not have to wait, as on Kafka."""
        try:
            self._change(partitions, is_strict=True)
        finally:
            self._waits_ms = 0, 0

    def exempt(self) -> None:
        """See `context.Throttle`. As on Kafka, a broker's request is not counted."""
        self._is_counted = False

    def _change(self, partitions: int, *, is_strict: bool) -> None:
        quotas = self._quotas.mutation
        if not quotas.is_enabled or not self._is_counted:
            return
        now_ms = self._clock.mono_ms()
        sensor = self._sensor(quotas)
        bound = sensor.bound
        if bound is None:
            return
        if not is_strict:
            sensor.meter.record(partitions, bound, now_ms)
        throttle_ms = sensor.meter.excess_ms(bound, now_ms)
        if throttle_ms:
            self._waits_ms = throttle_ms, now_ms
            if is_strict:
                raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        elif is_strict:
            sensor.meter.record(partitions, bound, now_ms)

    def _end_inside(self) -> None:
        self._is_inside = False
        self._used_us += self._clock.mono_us() - self._begun_us

    def _count(self, answer: Answer | None) -> int:
        """Count the present request. Returns how many ms the client has to wait."""
        if not self._is_counted:
            return 0
        self._is_counted = False
        key = self._api_key
        if key == ApiKey.FETCH and self.fetch_ms >= 0:
            self.throttle_ms = self.fetch_ms
            return self.fetch_ms
        now_ms = self._clock.mono_ms()
        throttle_ms = 0
        if key == ApiKey.PRODUCE and self._quotas.producer.is_enabled:
            throttle_ms = _record(self._sensor(self._quotas.producer), self._size, now_ms)
        if key not in _UNCOUNTED and not (key == ApiKey.PRODUCE and answer is None):
            throttle_ms = max(throttle_ms, self._record_request(self._used_us, now_ms))
        if self._waits_ms[0]:
            wait_ms, since_ms = self._waits_ms
            self._waits_ms = 0, 0
            throttle_ms = max(throttle_ms, wait_ms - (now_ms - since_ms))
        self.throttle_ms = throttle_ms
        return throttle_ms

    def _record_request(self, used_us: int, now_ms: int) -> int:
        quotas = self._quotas.request
        if not quotas.is_enabled:
            return 0
        return min(_record(self._sensor(quotas), used_us * _PERCENT_OF_US, now_ms), quotas.windows.size_ms)

    def _sensor(self, quotas: QuotaManager) -> Sensor:
        requests = self._requests
        context = requests.context if requests.cached is None else requests.cached.context
        place = id(quotas), context.client.client_id
        known = self._sensors.get(place)
        if known is not None and known[0] == quotas.version:
            return known[1]
        sensor = quotas.sensor(context.principal.name, context.client.client_id, self._clock.mono_ms())
        if len(self._sensors) >= _MAX_KNOWN:
            self._sensors.clear()
        self._sensors[place] = quotas.version, sensor
        return sensor


def meter(owner: Any, used_us: int) -> None:
    """Count the time that a job of a request has used, for `JobQueue.meter`."""
    throttle = getattr(owner, "throttle", None)
    if throttle is not None:
        throttle.used(used_us)


_MAX_KNOWN: Final = 100
"""How many sensors are remembered."""


def _record(sensor: Sensor, value: float, now_ms: int) -> int:
    sensor.meter.record(value, now_ms)
    return 0 if sensor.bound is None else sensor.meter.excess_ms(sensor.bound, now_ms)


def with_throttle_time(answer: Answer, key: int, version: int, throttle_ms: int) -> Answer:
    """The answer with this `throttle_time_ms`. If this field is not the answer's first, the answer is encoded again."""
    served = api(key)
    where = _place(key, version)
    if where is None:
        return answer
    if where >= 0:
        parts = [answer] if isinstance(answer, bytes) else list(answer)
        while len(parts) > 1 and len(parts[0]) < where + 4:
            parts[:2] = [bytes(parts[0]) + bytes(parts[1])]
        first = bytes(parts[0])
        changed = first[:where] + throttle_ms.to_bytes(4, "big") + first[where + 4 :]
        return [changed, *parts[1:]] if len(parts) > 1 else changed
    frame = answer if isinstance(answer, bytes) else b"".join(answer)
    correlation_id, body = frames.decode_response_header(served, version, frame, _LENGTH, len(frame))
    response = served.decode_response(version, frame, body)
    response.throttle_time_ms = throttle_ms
    return frames.response_frame(served, version, correlation_id, response)


@lru_cache(maxsize=1_000)
def _place(key: int, version: int) -> int | None:
    """The place of `throttle_time_ms` in the frame. -1: other fields precede it. None: the answer has no such field."""
    served = api(key)
    made: list[bytes] = []
    for value in (0, -1):
        response: Any = served.new_response()
        if not hasattr(response, "throttle_time_ms"):
            return None
        response.throttle_time_ms = value
        frame = frames.response_frame(served, version, 0, response)
        made.append(b"".join(frame))
    low, high = made
    if low == high:
        return None
    at = next(index for index in range(len(low)) if low[index] != high[index])
    header = _LENGTH + (5 if served.response_header_version(version) else 4)
    return at if at == header else -1
