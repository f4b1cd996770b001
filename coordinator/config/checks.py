"""Checks of properties: names, values, and values that depend on each other, as in Kafka's KafkaConfig.

Each refusal is a `ConfigError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from muster.coordinator.properties.definition import INTEGER_LIMITS, Property, Value
from muster.coordinator.properties.lookup import BROKER, DYNAMIC_ONLY, MUSTER, OUTSIDE, TOPIC, TOPIC_SYNONYMS


class ConfigError(Exception):
    """The configuration cannot be used. The error's text is one sentence: the value, what was expected, what to do."""


_LISTENER = "listener.name."
_PLUG_INS = ("remote.log.storage.manager.impl.prefix", "remote.log.metadata.manager.impl.prefix")


def find_property(name: str, given: Mapping[str, str]) -> Property | None:
    """The definition of a property, or None when Kafka 4.4 does not have it. `given`: all given properties.

    A listener's own property (`listener.name.<listener>[.<mechanism>].<property>`) is defined as the property that it
    overrides. Properties of plug-ins (config.providers.*, and those with a prefix of tiered storage) may be any text.
    """
    found = BROKER.get(name) or MUSTER.get(name)
    if found is not None:
        return found
    if name.startswith(_LISTENER):
        return _of_listener(name)
    if name in OUTSIDE or name.startswith("config.providers.") or _of_plug_in(name, given):
        return Property(name, "STRING", None, None, "LOW", "read-only", False)
    return DYNAMIC_ONLY.get(name)


def _of_listener(name: str) -> Property | None:
    _, dot, rest = name.removeprefix(_LISTENER).partition(".")
    base = BROKER.get(rest) or BROKER.get(rest.partition(".")[2])
    if not dot or base is None:
        return None
    return Property(name, base.type, None, base.valid, base.importance, base.update_mode, False)


def _of_plug_in(name: str, given: Mapping[str, str]) -> bool:
    prefixes = (given.get(prop) or BROKER[prop].default or "" for prop in _PLUG_INS)
    return any(prefix and name.startswith(prefix) for prefix in prefixes)


def name_hint(name: str) -> str:
    """A suggestion for an unknown name, as the end of a sentence; empty when no known name is near."""
    if name in TOPIC:
        synonyms = TOPIC_SYNONYMS.get(name)
        return (
            f"; that is a property of topics, the broker's is {synonyms[0][0]}"
            if synonyms
            else ("; that is a property of topics only")
        )
    import difflib  # imported here: only needed to explain a mistake

    near = difflib.get_close_matches(name.lower(), [*BROKER, *MUSTER], n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


_KINDS = {"BOOLEAN": "true or false", "DOUBLE": "a number", "LIST": "a list with commas between"}


def expected_values(prop: Property) -> str:
    """The valid values in words: `a whole number from 1 to 2147483647`, `one of gzip, lz4, …`."""
    valid = prop.valid or ""
    if prop.type in INTEGER_LIMITS:
        limit = INTEGER_LIMITS[prop.type]
        return "a whole number" + (_range(valid, limit) or f" from {-limit - 1} to {limit}")
    if valid.startswith("["):
        return _KINDS.get(prop.type, "text") + _range(valid)
    body, _, empty = valid.partition(", ")
    for start, words in (("one of ", "one of "), ("any case of ", "one of "), ("some of ", "a list of some of ")):
        if body.startswith(start):
            return words + body.removeprefix(start).replace("|", ", ")
    if empty:
        return "a list with commas between, not empty"
    return valid if prop.type == "STRING" and valid else _KINDS.get(prop.type, valid or "text")


def _range(valid: str, limit: int | None = None) -> str:
    """Describe a range in words. `limit`: the greatest value where `valid` names none."""
    if valid == "[1,...,9] or -1":
        return " from 1 to 9, or -1"
    if not valid.startswith("["):
        return ""
    least, _, greatest = valid.strip("[]").partition(",...")
    greatest = greatest.lstrip(",") or ("" if limit is None else str(limit))
    return f" from {least} to {greatest}" if greatest else f" of at least {least}"


SMALLEST_SEGMENT_BYTES: Final = 1 << 20
"""Kafka's minimum for `segment.bytes` of a topic. The defaults, which are broker properties, may be smaller."""

_TIMES = ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
_LONGEST_ID: Final = 255
"""How many characters of a cluster id `meta.properties` may have."""
_LIMITED = {
    "consumer": _TIMES,
    "share": (*_TIMES, "record.lock.duration.ms", "delivery.count.limit", "partition.max.record.locks"),
    "streams": _TIMES,
}


def _ordered() -> Iterator[tuple[str, str]]:
    """Pairs of properties: the first value may not be greater than the second."""
    yield "group.min.session.timeout.ms", "group.max.session.timeout.ms"
    for kind, names in _LIMITED.items():
        for name in names:
            yield f"group.{kind}.min.{name}", f"group.{kind}.max.{name}"
            yield f"group.{kind}.min.{name}", f"group.{kind}.{name}"
            yield f"group.{kind}.{name}", f"group.{kind}.max.{name}"


def check(value: Callable[[str], Value]) -> None:
    """Check pairs of values. Raises ConfigError with one sentence for the first invalid pair."""
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
    _cluster_id(value)
    _protocols(value)
    _retention(value)
    _segments(value)
    _network(value)
    codec = value("offsets.topic.compression.codec")
    if isinstance(codec, int) and not 0 <= codec <= 4:
        raise ConfigError(
            f"offsets.topic.compression.codec={codec} names no codec; expected 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd"
        )


def _cluster_id(value: Callable[[str], Value]) -> None:
    """`meta.properties` must be able to hold the id: otherwise the next start could not read the directory."""
    given = value("muster.cluster.id")
    if not isinstance(given, str):
        return
    if not given.isascii() or not given.isprintable() or " " in given:
        raise ConfigError(f"muster.cluster.id={given!r} is not valid; expected ASCII letters, digits and signs")
    if len(given) > _LONGEST_ID:
        raise ConfigError(f"muster.cluster.id has {len(given)} characters; at most {_LONGEST_ID} were expected")


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
