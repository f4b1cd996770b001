"""Checks the configs of topics, groups and client metrics (Kafka: LogConfig, GroupConfig, ClientMetricsConfigs)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from muster.coordinator.properties.definition import InvalidProperty, InvalidRequest, Value
from muster.coordinator.properties.lookup import CLIENT_METRICS, GROUP, GROUP_SYNONYMS, TOPIC, TOPIC_SYNONYMS


def validate_topic(configs: Mapping[str, str | None], broker: Callable[[str], Value]) -> dict[str, Value]:
    """Parse a topic's own configuration. `broker` returns a broker property. Raises InvalidProperty with Kafka's text.

    The checks have Kafka's order: null values, unknown names, each value, and last the values that must fit together.
    """
    nulls = [name for name, text in configs.items() if text is None]
    if nulls:
        raise InvalidProperty(nulls[0], None, f"Null value not supported for topic configs: {','.join(nulls)}")
    for name in configs:
        if name not in TOPIC:
            raise InvalidProperty(name, None, f"Unknown topic config name: {name}")
    values = {name: prop.parse(text) for name, prop in TOPIC.items() if (text := configs.get(name)) is not None}
    _fit_together(values, broker)
    return values


def _fit_together(values: Mapping[str, Value], broker: Callable[[str], Value]) -> None:
    """LogConfig.validateValues, with its refusals of tiered storage, which Muster does not have."""
    least, greatest = (
        values[name] if name in values else broker_default(name, broker)
        for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    )
    if isinstance(least, int) and isinstance(greatest, int) and least > greatest:
        raise InvalidProperty(
            "min.compaction.lag.ms",
            str(least),
            f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({greatest})",
        )
    if values.get("remote.storage.enable") is True:
        raise InvalidProperty(
            "remote.storage.enable",
            "true",
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        )


def effective_topic(configs: Mapping[str, str], broker: Callable[[str], Value]) -> dict[str, Value]:
    """Every topic property with its effective value: the topic's own, else the broker's, else the default."""
    return {
        name: prop.parse(configs[name]) if name in configs else broker_default(name, broker)
        for name, prop in TOPIC.items()
    }


def broker_default(name: str, broker: Callable[[str], Value]) -> Value:
    """The value of a topic property when the topic does not set it (KafkaConfig.extractLogConfigMap)."""
    for synonym, factor in TOPIC_SYNONYMS.get(name, ()):
        value = broker(synonym)
        if value is None:
            continue
        if name == "retention.ms" and isinstance(value, int) and value < 0:
            return -1  # KafkaConfig.logRetentionTimeMillis: any negative number means for ever
        return value * factor if factor != 1 and isinstance(value, int) else value
    return TOPIC[name].default_value


def list_append(current: str | None, change: str) -> str:
    """A list's text after IncrementalAlterConfigs' APPEND (KIP-339). Words keep their blanks."""
    held = [word for word in (current or "").split(",") if word]
    return ",".join([*held, *(word for word in dict.fromkeys(_java_split(change)) if word not in held)])


def list_subtract(current: str | None, change: str) -> str:
    """A list's text after IncrementalAlterConfigs' SUBTRACT. Of a word that occurs twice, one occurrence stays."""
    held = [word for word in (current or "").split(",") if word]
    for word in _java_split(change):
        if word in held:
            held.remove(word)
    return ",".join(held)


def _java_split(text: str) -> list[str]:
    """Java's String.split: without empty words at the end, but "" is one word."""
    words = text.split(",")
    while len(words) > 1 and not words[-1]:
        words.pop()
    return words if text else [""]


def is_beyond(value: Value, word: str, limit: Value) -> bool:
    """Whether a number breaks its limit. `word`: "greater" for a lower limit, "less" for an upper limit."""
    if not (isinstance(value, int) and isinstance(limit, int)):
        return False
    return value < limit if word == "greater" else value > limit


def validate_group(configs: Mapping[str, str], broker: Callable[[str], Value]) -> None:
    """Check a group's configs. Raises InvalidProperty with Kafka's text. `broker` returns a broker property."""
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
    for name, least, greatest in _bounds(broker):
        if is_beyond(values[name], "greater", least) or is_beyond(values[name], "less", greatest):
            raise InvalidProperty(name, configs.get(name), f"{name} must be {_range_text(least, greatest)}")
    assignor, registered = configs.get(_TASK_ASSIGNOR), broker("group.streams.assignors")
    if assignor is not None and isinstance(registered, tuple) and values[_TASK_ASSIGNOR] not in registered:
        why = f"is not a registered task assignor. Registered assignors are: [{', '.join(registered)}]."
        raise InvalidProperty(_TASK_ASSIGNOR, assignor, f"{_TASK_ASSIGNOR} '{values[_TASK_ASSIGNOR]}' {why}")
    for kind in ("consumer", "share", "streams"):
        session, beat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        longer, shorter = values[session], values[beat]
        if isinstance(longer, int) and isinstance(shorter, int) and longer <= shorter:
            raise InvalidProperty(session, configs.get(session), f"{session} must be greater than {beat}")


def effective_group(configs: Mapping[str, str], broker: Callable[[str], Value]) -> tuple[dict[str, int], list[str]]:
    """A group's numbers, limited to the broker's present bounds, and the names of those outside of the bounds."""
    values: dict[str, int] = {}
    for name, text in configs.items():
        try:
            value = GROUP[name].parse(text) if name in _BOUNDED else None
        except InvalidProperty:  # another program may have written the log with this value
            continue
        if isinstance(value, int):
            values[name] = value
    outside: list[str] = []
    for name, least, greatest in _bounds(broker):
        for word, limit in (("greater", least), ("less", greatest)):
            if isinstance(limit, int) and is_beyond(values.get(name), word, limit):
                values[name] = limit
                outside.append(name)
    return values, outside


def group_value(configs: Mapping[str, str], name: str) -> Value | None:
    """The value of a config without bounds that is set for a group. None: the config is not set, or is invalid."""
    text = configs.get(name)
    try:
        return None if text is None else GROUP[name].parse(text)
    except InvalidProperty:  # another program may have written the log with this value
        return None


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
    "streams.num.warmup.replicas",
    "streams.task.offset.interval.ms",
)
"""The properties with bounds, in the order in which Kafka checks them."""
_ONE_BOUND: Final = MappingProxyType(
    {
        "streams.num.standby.replicas": "max",
        "streams.num.warmup.replicas": "max",
        "streams.task.offset.interval.ms": "min",
    }
)
"""The properties that have no lower bound ("max"), or no upper bound ("min"), at the broker."""
_TASK_ASSIGNOR: Final = "streams.assignor.name"


def read_for_groups() -> frozenset[str]:
    """The broker properties that decide which configs a group may have."""
    names = {"group.streams.assignors"}
    for _ in _bounds(names.add):
        pass
    return frozenset(names)


def _bounds(broker: Callable[[str], Value]) -> Iterator[tuple[str, Value, Value]]:
    """Return rows (group property, least value, greatest value). None: the broker has no such bound."""
    for name in _BOUNDED:
        kind, _, rest = name.partition(".")
        if kind == "streams" and "replicas" in rest:
            rest = rest.removeprefix("num.")
        ends = _ONE_BOUND.get(name, "min max").split()
        least, greatest = (broker(f"group.{kind}.{end}.{rest}") if end in ends else None for end in ("min", "max"))
        yield name, least, greatest


def _range_text(least: Value, greatest: Value) -> str:
    if least is None:
        return f"less than or equal to {greatest}"
    if greatest is None:
        return f"greater than or equal to {least}"
    return f"in the range {least} to {greatest} inclusive."


INTERVAL_MS: Final = "interval.ms"
MATCH: Final = "match"
LEAST_INTERVAL_MS: Final = 100
GREATEST_INTERVAL_MS: Final = 3_600_000

_MATCHED = frozenset(
    (
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    )
)
"""The properties of clients by which a subscription selects them (ClientMetricsConfigs.ClientMatchingParams)."""


def validate_client_metrics(name: str, configs: Mapping[str, str], is_pattern: Callable[[str], bool]) -> Iterator[None]:
    """Check configs. Raises InvalidRequest or InvalidProperty, as Kafka. Yields before each pattern (some ms)."""
    if not name:
        raise InvalidRequest("Subscription name can't be empty")
    for key in configs:
        if key not in CLIENT_METRICS:
            raise InvalidRequest(f"Unknown client metrics configuration: {key}")
    values = {key: CLIENT_METRICS[key].parse(text) for key, text in configs.items()}
    interval_ms = values.get(INTERVAL_MS)
    if isinstance(interval_ms, int) and not LEAST_INTERVAL_MS <= interval_ms <= GREATEST_INTERVAL_MS:
        raise InvalidRequest(
            f"Invalid value {interval_ms} for {INTERVAL_MS}, interval must be between {LEAST_INTERVAL_MS} and "
            f"{GREATEST_INTERVAL_MS} (1 hour)"
        )
    patterns = values.get(MATCH)
    for pattern in patterns if isinstance(patterns, tuple) else ():
        yield None
        _check_pattern(pattern, is_pattern)


def _check_pattern(pattern: str, is_pattern: Callable[[str], bool]) -> None:
    """Check `name=regular expression`. Every expression of RE2 is accepted; Java's differ in details."""
    parts = pattern.split("=")
    if len(parts) == 2 and parts[0].strip() in _MATCHED and parts[1].strip() and is_pattern(parts[1].strip()):
        return
    raise InvalidProperty(MATCH, pattern, f"Illegal client matching pattern: {pattern}")
