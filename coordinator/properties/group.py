"""The checks of a group's configs (Kafka's GroupConfig), against the bounds that the broker sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from muster.coordinator.properties.definition import InvalidProperty, Value
from muster.coordinator.properties.lookup import GROUP, GROUP_SYNONYMS


def validate(configs: Mapping[str, str], broker: Callable[[str], Value]) -> None:
    """Raises InvalidProperty with Kafka's text. `broker`: returns the value of a broker property."""
    for name in configs:
        if name not in GROUP:
            raise InvalidProperty(name, configs[name], f"Unknown group config name: {name}")
    values: dict[str, Value] = {}
    for name, prop in GROUP.items():
        above = GROUP_SYNONYMS[name]
        if name in configs:
            values[name] = prop.parse(configs[name])
        else:
            values[name] = prop.default_value if above is None else broker(above)
    for name, word, bound, limit in _bounds(broker):
        value = values[name]
        if (
            isinstance(value, int)
            and isinstance(limit, int)
            and (value < limit if word == "greater" else value > limit)
        ):
            raise InvalidProperty(name, configs.get(name), f"{name} must be {word} than or equal to {bound}")
    for kind in ("consumer", "share", "streams"):
        session, beat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        longer, shorter = values[session], values[beat]
        if isinstance(longer, int) and isinstance(shorter, int) and longer <= shorter:
            raise InvalidProperty(session, configs.get(session), f"{session} must be greater than {beat}")


def effective(configs: Mapping[str, str], broker: Callable[[str], Value]) -> tuple[dict[str, int], list[str]]:
    """Return a group's numbers, each limited to the broker's present bounds, and the names of those outside (Kafka:
    GroupConfig.evaluate).

    A number may be outside because the bounds were others when it was set.
    """
    values: dict[str, int] = {}
    for name, text in configs.items():
        try:
            value = GROUP[name].parse(text) if name in _BOUNDED else None
        except InvalidProperty:  # another program may have written the log with this value
            continue
        if isinstance(value, int):
            values[name] = value
    outside: list[str] = []
    for name, word, _, limit in _bounds(broker):
        value = values.get(name)
        if (
            isinstance(value, int)
            and isinstance(limit, int)
            and (value < limit if word == "greater" else value > limit)
        ):
            values[name] = limit
            outside.append(name)
    return values, outside


_BOUNDED = (
    "consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms",
    "consumer.assignment.interval.ms",
    "share.heartbeat.interval.ms",
    "share.session.timeout.ms",
    "share.record.lock.duration.ms",
    "share.delivery.count.limit",
    "share.partition.max.record.locks",
    "share.assignment.interval.ms",
    "streams.heartbeat.interval.ms",
    "streams.session.timeout.ms",
    "streams.num.standby.replicas",
    "streams.assignment.interval.ms",
)
"""In the order in which Kafka checks them."""
_STANDBYS = "streams.num.standby.replicas"


def _bounds(broker: Callable[[str], Value]) -> Iterator[tuple[str, str, str, Value]]:
    """(group property, "greater" or "less", broker property, its value)."""
    for name in _BOUNDED:
        kind, _, rest = name.partition(".")
        if name == _STANDBYS:
            yield name, "less", "group.streams.max.standby.replicas", broker("group.streams.max.standby.replicas")
            continue
        for word, end in (("greater", "min"), ("less", "max")):
            bound = f"group.{kind}.{end}.{rest}"
            yield name, word, bound, broker(bound)
