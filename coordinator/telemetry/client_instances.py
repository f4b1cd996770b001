"""The client instances that have asked for subscriptions (KIP-714): what they may send now, and Kafka's error codes."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from muster.coordinator.telemetry.subscriptions import Requested, Subscription
from muster.protocol.errors import ErrorCode
from muster.protocol.message import ZERO_UUID
from muster.protocol.messages.push_telemetry import PushTelemetryRequest

MAX_INSTANCES: Final = 16_384
"""The most client instances that are kept (ClientMetricsManager.CACHE_MAX_SIZE)."""
LEAST_EXPIRY_MS: Final = 60_000
"""An instance without requests is forgotten after three push intervals, or after this time if that is longer."""
INTERVALS_KEPT: Final = 3
ACCEPTED_COMPRESSION: Final = (4, 3, 1, 2)
"""The compression types in the order of preference: zstd, lz4, gzip, snappy. A push may also be uncompressed."""
_RESERVED: Final = (ZERO_UUID, bytes(15) + b"\1")
"""Ids that no client may have (Kafka: Uuid.RESERVED)."""
_NEVER: Final = -(1 << 62)
_MAY_ASK_AGAIN: Final = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
"""After these errors, a client may ask for its subscriptions before the next push interval."""


def is_valid_id(instance_id: bytes) -> bool:
    """Whether a client may push with this client instance id."""
    return instance_id not in _RESERVED


class ClientInstance:
    """One client instance: what it was asked for, and the times of its requests (Kafka: ClientMetricsInstance).

    `version`: the version of the subscriptions from which `requested` was made.
    """

    __slots__ = ("_asked_ms", "_pushed_ms", "has_ended", "last_error", "requested", "seen_ms", "version")

    def __init__(self, requested: Requested, version: int) -> None:
        self.requested = requested
        self.version = version
        self.seen_ms = 0
        self.last_error: int = ErrorCode.NONE
        self.has_ended = False
        """Whether the newest push said that the client terminates."""
        self._asked_ms = self._pushed_ms = _NEVER

    def check_get(self, now_ms: int) -> int:
        """The error code for a GetTelemetrySubscriptions."""
        if now_ms - max(self._asked_ms, self._pushed_ms) >= self.requested.interval_ms:
            self._asked_ms = now_ms
        elif self.last_error not in _MAY_ASK_AGAIN:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        self.last_error = ErrorCode.NONE
        return ErrorCode.NONE

    def check_push(self, request: PushTelemetryRequest, now_ms: int, max_bytes: int) -> int:
        """The error code for a PushTelemetry, before its metrics are decoded."""
        self.last_error = self._push_error(request, now_ms, max_bytes)
        self.has_ended = request.terminating
        return self.last_error

    def _push_error(self, request: PushTelemetryRequest, now_ms: int, max_bytes: int) -> int:
        if self.has_ended:
            return ErrorCode.INVALID_REQUEST
        if self._asked_ms > self._pushed_ms or now_ms - self._pushed_ms >= self.requested.interval_ms:
            self._pushed_ms = now_ms
        elif not request.terminating:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if request.subscription_id != self.requested.subscription_id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if request.compression_type and request.compression_type not in ACCEPTED_COMPRESSION:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if len(request.metrics) > max_bytes:
            return ErrorCode.TELEMETRY_TOO_LARGE
        return ErrorCode.NONE


def lifetime_ms(interval_ms: int) -> int:
    """How long a client that sends nothing is remembered."""
    return max(LEAST_EXPIRY_MS, INTERVALS_KEPT * interval_ms)


class ClientInstances:
    """The client instances of one broker by id, the least recently used first."""

    __slots__ = ("_by_connection", "_by_id", "subscriptions", "version")

    def __init__(self) -> None:
        self._by_id: OrderedDict[bytes, ClientInstance] = OrderedDict()
        self._by_connection: dict[object, bytes] = {}
        self.version = -1
        """The version of the metadata from which `subscriptions` were read."""
        self.subscriptions: list[Subscription] = []

    def find(self, instance_id: bytes, now_ms: int) -> ClientInstance | None:
        """The instance of this id. None: the id is new, or its last request was too long ago."""
        found = self._by_id.get(instance_id)
        if found is None or now_ms - found.seen_ms > lifetime_ms(found.requested.interval_ms):
            return None
        found.seen_ms = now_ms
        self._by_id.move_to_end(instance_id)
        return found

    def add(self, instance_id: bytes, instance: ClientInstance, connection: object, now_ms: int) -> bool:
        """Keep a new or renewed instance. Returns whether `forget` must be called when this connection ends."""
        instance.seen_ms = now_ms
        self._by_id[instance_id] = instance
        self._by_id.move_to_end(instance_id)
        if len(self._by_id) > MAX_INSTANCES:
            self._by_id.popitem(last=False)
        is_new = connection not in self._by_connection
        self._by_connection[connection] = instance_id
        return is_new

    def forget(self, connection: object) -> None:
        """Forget the newest instance of a connection that has ended."""
        self._by_id.pop(self._by_connection.pop(connection), None)

    def __len__(self) -> int:
        return len(self._by_id)
