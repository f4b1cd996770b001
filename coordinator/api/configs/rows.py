"""Lines of configuration as answers show them: DescribeConfigs' and those of a topic just created."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from muster.coordinator.api.configs.resources import Kind
from muster.coordinator.api.node import Node
from muster.coordinator.properties import describe
from muster.coordinator.properties.describe import SOURCE_LOGGER, Entry
from muster.coordinator.properties.documentation import documentation as all_documentation
from muster.protocol.messages.create_topics import CreatableTopicConfigs
from muster.protocol.messages.describe_configs import DescribeConfigsResourceResult, DescribeConfigsSynonym

_KINDS: Final = {Kind.TOPIC: "topic", Kind.BROKER: "broker", Kind.CLIENT_METRICS: "client-metrics", Kind.GROUP: "group"}


def created_configs(node: Node, configs: Mapping[str, str | None]) -> list[CreatableTopicConfigs]:
    """The configs of a new topic as CreateTopics tells them (KIP-525)."""
    given = {name: text for name, text in configs.items() if text is not None}
    return [
        CreatableTopicConfigs(entry.name, entry.value, entry.read_only, entry.source, entry.sensitive)
        for entry in describe.created(given, node.config)
    ]


def documentation_of(kind: int) -> Mapping[str, str]:
    """What there is to be told of the properties of a kind of resource, by name (KIP-569)."""
    return all_documentation(_KINDS[kind]) if kind in _KINDS else {}


def described(
    entries: Iterable[Entry], keys: Collection[str] | None, with_synonyms: bool, documentation: Mapping[str, str]
) -> list[DescribeConfigsResourceResult]:
    """The entries asked for (None: all), with what there is to be told of them."""
    return [
        DescribeConfigsResourceResult(
            entry.name,
            entry.value,
            entry.read_only,
            entry.source,
            entry.sensitive,
            [DescribeConfigsSynonym(*synonym) for synonym in entry.synonyms] if with_synonyms else (),
            entry.wire_type,
            documentation="" if entry.source == SOURCE_LOGGER else documentation.get(entry.name),
        )
        for entry in entries
        if keys is None or entry.name in keys
    ]
