"""Properties with their values and sources, as DescribeConfigs shows them (Kafka's ConfigHelper; KIP-226 synonyms)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from muster.coordinator.properties.definition import Property, Value, text_of
from muster.coordinator.properties.lookup import (
    BROKER,
    BROKER_SYNONYMS,
    GROUP,
    GROUP_SYNONYMS,
    MUSTER,
    TOPIC,
    TOPIC_SYNONYMS,
)
from muster.coordinator.properties.topic import broker_default

SOURCE_TOPIC = 1
SOURCE_DYNAMIC_BROKER = 2
SOURCE_DYNAMIC_DEFAULT = 3
SOURCE_STATIC = 4
SOURCE_DEFAULT = 5
SOURCE_GROUP = 8


class View(Protocol):
    """The broker's configuration (`coordinator.config.Config` is one)."""

    def text(self, name: str) -> str | None:
        """The value of a broker property as text, None when it has none."""

    def source(self, name: str) -> str:
        """`static` when file, environment or an option gave the value, else `default`."""


class Synonym(NamedTuple):
    """One of the places a value may come from, the one that counts first."""

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


def broker(view: View) -> list[Entry]:
    """Every broker property that is not internal (or was given), in the order of names."""
    entries = []
    for prop in (*BROKER.values(), *MUSTER.values()):
        if prop.internal and view.source(prop.name) != "static":
            continue
        synonyms = _broker_synonyms(prop.name, BROKER_SYNONYMS.get(prop.name, (prop.name,)), view)
        source = synonyms[0].source if synonyms else SOURCE_DEFAULT
        text = None if prop.sensitive else view.text(prop.name)
        value = None if text is None else text_of(prop.parse(text))
        entries.append(Entry(prop.name, value, prop.read_only, source, prop.sensitive, prop.wire_type, synonyms))
    return entries


def topic(overrides: Mapping[str, str], view: View) -> list[Entry]:
    """Every topic property that is not internal, or was given, in the order of names; `overrides`: the topic's own."""
    return [
        _overridable(prop, overrides, SOURCE_TOPIC, _topic_synonyms(prop.name, view), _topic_default(prop.name, view))
        for prop in TOPIC.values()
        if not prop.internal or prop.name in overrides
    ]


def group(overrides: Mapping[str, str], view: View) -> list[Entry]:
    """Every group property, in the order of names; `overrides` are the group's own."""
    entries = []
    for prop in GROUP.values():
        above = GROUP_SYNONYMS[prop.name]
        if above is not None:
            synonyms, default = _broker_synonyms(above, (above,), view), view.text(above)
        else:
            synonyms, default = (Synonym(prop.name, prop.default, SOURCE_DEFAULT),), prop.default
        entries.append(_overridable(prop, overrides, SOURCE_GROUP, synonyms, default))
    return entries


def _overridable(
    prop: Property, overrides: Mapping[str, str], own: int, synonyms: tuple[Synonym, ...], default: str | None
) -> Entry:
    given = prop.name in overrides
    value = text_of(prop.parse(overrides[prop.name])) if given else default
    if given:
        synonyms = (Synonym(prop.name, value, own), *synonyms)
    source = synonyms[0].source if synonyms else SOURCE_DEFAULT
    return Entry(prop.name, value, False, source, prop.sensitive, prop.wire_type, synonyms)


def _topic_synonyms(name: str, view: View) -> tuple[Synonym, ...]:
    if name not in TOPIC_SYNONYMS:
        return ()
    first = TOPIC_SYNONYMS[name][0][0]
    return _broker_synonyms(first, BROKER_SYNONYMS.get(first, (first,)), view)


def _topic_default(name: str, view: View) -> str | None:
    def value(synonym: str) -> Value:
        text = view.text(synonym)
        return None if text is None else BROKER[synonym].parse(text)

    return text_of(broker_default(name, value))


def _broker_synonyms(name: str, names: tuple[str, ...], view: View) -> tuple[Synonym, ...]:
    """ConfigHelper.configSynonyms: what was given before what is default; those before `name` itself are dropped."""
    sensitive = name in BROKER and BROKER[name].sensitive
    given = [one for one in names if view.source(one) == "static"]
    found = [Synonym(one, None if sensitive else view.text(one), SOURCE_STATIC) for one in given]
    for one in names:
        default = BROKER[one].default if one in BROKER else None
        if default is not None:
            found.append(Synonym(one, None if sensitive else default, SOURCE_DEFAULT))
    while found and found[0].name != name:
        del found[0]
    return tuple(found)
