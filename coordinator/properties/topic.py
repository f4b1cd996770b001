"""The checks of a topic's configs (Kafka's LogConfig), and a topic's properties over the broker's."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from muster.coordinator.properties.definition import InvalidProperty, Value
from muster.coordinator.properties.lookup import TOPIC, TOPIC_SYNONYMS


def validate(configs: Mapping[str, str | None], broker: Callable[[str], Value]) -> dict[str, Value]:
    """Return a topic's own configuration, parsed. Raises InvalidProperty with Kafka's text for INVALID_CONFIG.

    `broker`: returns the value of a broker property. The checks have Kafka's order: null values, unknown names, each
    value by type and range. The values that must fit together are checked last.
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


def effective(configs: Mapping[str, str], broker: Callable[[str], Value]) -> dict[str, Value]:
    """Return every topic property with its effective value: the topic's own, else the broker's, else the default.

    `configs` has passed `validate`. `broker`: returns the value of a broker property, None when it has none.
    """
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
    """Return a list's text after IncrementalAlterConfigs' APPEND (KIP-339). Words are used unchanged, with their
    blanks.
    """
    held = [word for word in (current or "").split(",") if word]
    return ",".join([*held, *(word for word in dict.fromkeys(_java_split(change)) if word not in held)])


def list_subtract(current: str | None, change: str) -> str:
    """Return a list's text after IncrementalAlterConfigs' SUBTRACT. Of a word that occurs twice, one is removed."""
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
