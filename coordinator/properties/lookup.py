"""The properties by name. Kafka's are in `table.json`, distilled from the jars of Apache Kafka 4.3 by tools/properties.

A row of the table is [name, type, default, valid, importance, update mode, internal].

* Types are those of Kafka's ConfigDef.
* The default is text as in a properties file, null when Kafka's is null.
* `valid` is null, a range "[min,...,max]", "one of a|b", or "any case of a|b".
* For a list, `valid` is "some of a|b", or "no twice" for any words.
* `valid` may also be the name of a special rule.
* The update mode is that of broker properties ("read-only", "per-broker", "cluster-wide") or "".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from muster.coordinator.properties.definition import Property
from muster.coordinator.properties.own import OWN

_TABLE: Final[dict[str, Any]] = json.loads(Path(__file__).with_name("table.json").read_bytes())


def _by_name(rows: Iterable[Sequence[Any]]) -> Mapping[str, Property]:
    return MappingProxyType({row[0]: Property(*row) for row in rows})


BROKER: Final = _by_name(_TABLE["BROKER"])
"""Kafka's broker properties (AbstractKafkaConfig.CONFIG_DEF), by name, in the order of names."""
DYNAMIC_ONLY: Final = _by_name(_TABLE["BROKER_DYNAMIC_ONLY"])
"""Broker properties that can only be set while the broker runs, and not in a file (DynamicConfig.Broker)."""
TOPIC: Final = _by_name(_TABLE["TOPIC"])
"""Kafka's topic properties (LogConfig)."""
GROUP: Final = _by_name(_TABLE["GROUP"])
"""Kafka's group properties (KIP-848's dynamic group configuration: GroupConfig)."""
CLIENT_METRICS: Final = _by_name(_TABLE["CLIENT_METRICS"])
"""Kafka's properties of client metrics subscriptions (KIP-714: ClientMetricsConfigs)."""
MUSTER: Final = _by_name(OWN)
"""Muster's own properties."""

TOPIC_SYNONYMS: Final[Mapping[str, Sequence[tuple[str, int]]]] = _TABLE["TOPIC_SYNONYMS"]
"""The broker properties of each topic property, with a factor; the first that is set counts
(ServerTopicConfigSynonyms).
"""
GROUP_SYNONYMS: Final[Mapping[str, str | None]] = _TABLE["GROUP_SYNONYMS"]
"""The broker property of each group property (GroupConfig.ALL_GROUP_CONFIG_SYNONYMS)."""
BROKER_SYNONYMS: Final[Mapping[str, Sequence[str]]] = _TABLE["BROKER_SYNONYMS"]
"""The synonyms of broker properties that have others than themselves (DynamicBrokerConfig.brokerConfigSynonyms)."""
DYNAMIC_SECURITY: Final[Sequence[str]] = _TABLE["DYNAMIC_SECURITY"]
"""DynamicBrokerConfig.DYNAMIC_SECURITY_CONFIGS."""
OUTSIDE: Final[Sequence[str]] = _TABLE["OUTSIDE"]
"""Names that Kafka reads without a definition: those of JmxReporter and StandardAuthorizer."""
