"""Lines of configuration as answers show them: DescribeConfigs' and those of a topic just created."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from muster.coordinator.api.node import Node
from muster.coordinator.properties import describe
from muster.coordinator.properties.describe import Entry
from muster.protocol.messages.create_topics import CreatableTopicConfigs
from muster.protocol.messages.describe_configs import DescribeConfigsResourceResult, DescribeConfigsSynonym


def created_configs(node: Node, configs: Mapping[str, str | None]) -> list[CreatableTopicConfigs]:
    """The configs of a new topic as CreateTopics tells them (KIP-525): what was given in the words in which it was."""
    given = {name: text for name, text in configs.items() if text is not None}
    return [
        CreatableTopicConfigs(
            entry.name, given.get(entry.name, entry.value), entry.read_only, entry.source, entry.sensitive
        )
        for entry in describe.topic(given, node.config)
    ]


def described(
    entries: Iterable[Entry], keys: Collection[str] | None, with_synonyms: bool
) -> list[DescribeConfigsResourceResult]:
    """The entries asked for (None: all). Documentation is never told."""
    return [
        DescribeConfigsResourceResult(
            entry.name,
            entry.value,
            entry.read_only,
            entry.source,
            entry.sensitive,
            [DescribeConfigsSynonym(*synonym) for synonym in entry.synonyms] if with_synonyms else (),
            entry.wire_type,
            documentation=None,
        )
        for entry in entries
        if keys is None or entry.name in keys
    ]
