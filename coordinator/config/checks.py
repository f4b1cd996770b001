"""Checks between several properties, as far as Muster needs them: those of Kafka's KafkaConfig and its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from muster.coordinator.config.error import ConfigError
from muster.coordinator.properties.definition import Value

SMALLEST_SEGMENT_BYTES: Final = 1 << 20
"""Kafka's minimum for the topic property `segment.bytes`. The broker properties that it is derived from may be
smaller.
"""

_TIMES = ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
_LIMITED = {
    "consumer": _TIMES,
    "share": (*_TIMES, "record.lock.duration.ms", "delivery.count.limit", "partition.max.record.locks"),
    "streams": _TIMES,
}


def _ordered() -> Iterator[tuple[str, str]]:
    """Pairs of properties. The first value may not be greater than the second."""
    yield "group.min.session.timeout.ms", "group.max.session.timeout.ms"
    for kind, names in _LIMITED.items():
        for name in names:
            yield f"group.{kind}.min.{name}", f"group.{kind}.max.{name}"
            yield f"group.{kind}.min.{name}", f"group.{kind}.{name}"
            yield f"group.{kind}.{name}", f"group.{kind}.max.{name}"


def check(value: Callable[[str], Value]) -> None:
    """Raises ConfigError with one sentence for the first invalid pair of values."""
    for lower, upper in _ordered():
        low, high = value(lower), value(upper)
        if isinstance(low, int) and isinstance(high, int) and low > high:
            raise ConfigError(f"{lower}={low} is greater than {upper}={high}; lower the first or raise the second")
    for kind in _LIMITED:
        beat, session = (value(f"group.{kind}.{name}") for name in ("heartbeat.interval.ms", "session.timeout.ms"))
        if isinstance(beat, int) and isinstance(session, int) and beat >= session:
            raise ConfigError(
                f"group.{kind}.heartbeat.interval.ms={beat} must be less than group.{kind}.session.timeout.ms={session}"
            )
    _protocols(value)
    _retention(value)
    _segments(value)
    _network(value)
    codec = value("offsets.topic.compression.codec")
    if isinstance(codec, int) and not 0 <= codec <= 4:
        raise ConfigError(
            f"offsets.topic.compression.codec={codec} names no codec; expected 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd"
        )


def _protocols(value: Callable[[str], Value]) -> None:
    name = "group.coordinator.rebalance.protocols"
    protocols = value(name)
    if isinstance(protocols, tuple) and "classic" not in protocols:
        raise ConfigError(f"{name}={','.join(protocols)} leaves out classic, which is always served; add it")


def _retention(value: Callable[[str], Value]) -> None:
    for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
        if value(name) == 0:
            raise ConfigError(f"{name}=0 would delete records at once; expected at least 1, or -1 for no limit")


def _segments(value: Callable[[str], Value]) -> None:
    for name in ("offsets.topic.segment.bytes", "transaction.state.log.segment.bytes"):
        size = value(name)
        if isinstance(size, int) and size < SMALLEST_SEGMENT_BYTES:
            raise ConfigError(f"{name}={size} is too small for a topic; expected at least {SMALLEST_SEGMENT_BYTES}")


def _network(value: Callable[[str], Value]) -> None:
    queued, largest = value("queued.max.request.bytes"), value("socket.request.max.bytes")
    if isinstance(queued, int) and isinstance(largest, int) and 0 < queued < largest:
        raise ConfigError(
            f"queued.max.request.bytes={queued} is less than socket.request.max.bytes={largest}; "
            "a request of the greatest size would never be read"
        )
    overrides = str(value("max.connections.per.ip.overrides") or "")
    for pair in filter(None, (word.strip() for word in overrides.split(","))):
        host, _, count = pair.rpartition(":")
        if not host or not count.strip().isdecimal():
            raise ConfigError(f"max.connections.per.ip.overrides: '{pair}' is not HOST:NUMBER, as in 127.0.0.1:200")
    if value("max.connections.per.ip") == 0 and not overrides:
        raise ConfigError("max.connections.per.ip=0 allows no connection; it needs max.connections.per.ip.overrides")
