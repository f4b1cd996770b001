"""Properties with their values and sources, as DescribeConfigs shows them (Kafka's ConfigHelper; KIP-226 synonyms)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from muster.coordinator.properties import lookup
from muster.coordinator.properties.definition import Property, Value, text_of
from muster.coordinator.properties.live import Live, base_of, changeable, definition
from muster.coordinator.properties.resource_configs import broker_default

SOURCE_TOPIC = 1
SOURCE_DYNAMIC_BROKER = 2
SOURCE_DYNAMIC_DEFAULT = 3
SOURCE_STATIC = 4
SOURCE_DEFAULT = 5
SOURCE_LOGGER = 6
SOURCE_CLIENT_METRICS = 7
SOURCE_GROUP = 8

UNKNOWN_TYPE = 0
"""The ConfigType of a property without a definition."""


class Synonym(NamedTuple):
    """One of the places where a value may be set, in the order of precedence."""

    name: str
    value: str | None
    source: int


class Entry(NamedTuple):
    """One line of a DescribeConfigs answer; `wire_type` is its ConfigType. A sensitive value is None."""

    name: str
    value: str | None
    read_only: bool
    source: int
    sensitive: bool
    wire_type: int
    synonyms: tuple[Synonym, ...]


def broker(live: Live) -> list[Entry]:
    """List every broker property that is not internal or was set, and all other properties that were set, by name."""
    entries = []
    for prop in (*lookup.BROKER.values(), *lookup.MUSTER.values()):
        if prop.internal and live.source(prop.name) != "static":
            continue
        synonyms = _broker_synonyms(prop.name, lookup.BROKER_SYNONYMS.get(prop.name, (prop.name,)), live)
        source = synonyms[0].source if synonyms else SOURCE_DEFAULT
        text = None if prop.sensitive else live.text(prop.name)
        value = None if text is None else text_of(prop.parse(text))
        entries.append(Entry(prop.name, value, prop.read_only, source, prop.sensitive, prop.wire_type, synonyms))
    given = {**live.cluster_wide, **live.own, **dict.fromkeys(live.static.of_listeners)}
    more = sorted(name for name in given if name not in lookup.BROKER)
    return [*entries, *(_set_only(name, _broker_synonyms(name, _names(name), live)) for name in more)]


def _names(name: str) -> tuple[str, ...]:
    base = base_of(name)
    return (name,) if base == name else (name, base)


def cluster_wide(live: Live) -> list[Entry]:
    """List the properties set for all brokers, with the texts that were given."""
    entries = []
    for name, text in sorted(live.cluster_wide.items()):
        prop = definition(name)
        shown = None if _is_secret(name, prop) else text
        entries.append(_set_only(name, (Synonym(name, shown, SOURCE_DYNAMIC_DEFAULT),)))
    return entries


def _set_only(name: str, synonyms: tuple[Synonym, ...]) -> Entry:
    prop = lookup.DYNAMIC_ONLY.get(name) or definition(name)
    wire_type = UNKNOWN_TYPE if prop is None else prop.wire_type
    read_only = changeable(name) is None
    first = synonyms[0]
    return Entry(name, first.value, read_only, first.source, _is_secret(name, prop), wire_type, synonyms)


def _is_secret(name: str, prop: Property | None) -> bool:
    """Whether to hide the value: a property without a definition may be a secret."""
    return name not in lookup.DYNAMIC_ONLY and (prop is None or prop.sensitive)


def topic(overrides: Mapping[str, str], live: Live) -> list[Entry]:
    """List every topic property that is not internal, or was set, by name. `overrides`: the topic's own properties."""
    return [
        _overridable(prop, overrides, SOURCE_TOPIC, _topic_synonyms(prop.name, live), _topic_default(prop.name, live))
        for prop in lookup.TOPIC.values()
        if not prop.internal or prop.name in overrides
    ]


def created(overrides: Mapping[str, str], live: Live) -> list[Entry]:
    """List the properties of a new topic for CreateTopics, with the texts that were given."""
    entries = []
    for entry in topic(overrides, live):
        value, source = _as_given(entry.name, overrides, live) or (entry.value, SOURCE_DEFAULT)
        entries.append(entry._replace(value=value, source=source))
    return entries


def _as_given(name: str, overrides: Mapping[str, str], live: Live) -> tuple[str, int] | None:
    if name in overrides:
        return overrides[name], SOURCE_TOPIC
    synonyms = lookup.TOPIC_SYNONYMS.get(name, ())
    for source, given in _layers(live):
        for synonym, factor in synonyms:
            text = given(synonym)
            if text is not None:
                return text if factor == 1 else str(int(text) * factor), source
    return None


def group(overrides: Mapping[str, str], live: Live) -> list[Entry]:
    """List every group property that is not internal, or was set, by name. `overrides`: the group's own properties."""
    entries = []
    for prop in lookup.GROUP.values():
        if prop.internal and prop.name not in overrides:
            continue
        above = lookup.GROUP_SYNONYMS[prop.name]
        if above is not None:
            synonyms, default = _broker_synonyms(above, (above,), live), live.text(above)
        else:
            synonyms, default = (Synonym(prop.name, prop.default, SOURCE_DEFAULT),), prop.default
        entries.append(_overridable(prop, overrides, SOURCE_GROUP, synonyms, default))
    return entries


def client_metrics(overrides: Mapping[str, str]) -> list[Entry]:
    """List every property of client metrics, in the order of names. `overrides`: the subscription's own properties."""
    return [
        _overridable(prop, overrides, SOURCE_CLIENT_METRICS, (), prop.default)
        for prop in lookup.CLIENT_METRICS.values()
    ]


def loggers(levels: Mapping[str, str]) -> list[Entry]:
    """List the broker's loggers with their levels."""
    return [Entry(name, level, False, SOURCE_LOGGER, False, UNKNOWN_TYPE, ()) for name, level in levels.items()]


def _overridable(
    prop: Property, overrides: Mapping[str, str], own: int, synonyms: tuple[Synonym, ...], default: str | None
) -> Entry:
    given = prop.name in overrides
    value = text_of(prop.parse(overrides[prop.name])) if given else default
    if given:
        synonyms = (Synonym(prop.name, value, own), *synonyms)
    source = synonyms[0].source if synonyms else SOURCE_DEFAULT
    return Entry(prop.name, value, False, source, prop.sensitive, prop.wire_type, synonyms)


def _topic_synonyms(name: str, live: Live) -> tuple[Synonym, ...]:
    if name not in lookup.TOPIC_SYNONYMS:
        return ()
    first = lookup.TOPIC_SYNONYMS[name][0][0]
    return _broker_synonyms(first, lookup.BROKER_SYNONYMS.get(first, (first,)), live)


def _topic_default(name: str, live: Live) -> str | None:
    def value(synonym: str) -> Value:
        text = live.text(synonym)
        return None if text is None else lookup.BROKER[synonym].parse(text)

    return text_of(broker_default(name, value))


def _layers(live: Live) -> tuple[tuple[int, Callable[[str], str | None]], ...]:
    """Return the places where values may be set, in the order of precedence: (source, text by name)."""
    static = live.static

    def started_with(name: str) -> str | None:
        return static.text(name) if static.source(name) == "static" else None

    return (
        (SOURCE_DYNAMIC_BROKER, live.own.get),
        (SOURCE_DYNAMIC_DEFAULT, live.cluster_wide.get),
        (SOURCE_STATIC, started_with),
    )


def _broker_synonyms(name: str, names: Sequence[str], live: Live) -> tuple[Synonym, ...]:
    """ConfigHelper.configSynonyms: set values before defaults. Values that precede those of `name` are left out."""
    secret = _is_secret(name, definition(name))
    found = []
    for source, given in _layers(live):
        for one in names:
            text = given(one)
            if text is not None:
                found.append(Synonym(one, None if secret else text, source))
    for one in names:
        default = lookup.BROKER[one].default if one in lookup.BROKER else None
        if default is not None:
            found.append(Synonym(one, None if secret else default, SOURCE_DEFAULT))
    while found and found[0].name != name:
        del found[0]
    return tuple(found)
