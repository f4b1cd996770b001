"""The properties by name: Muster's own, and those of Kafka 4.4 in `table.json`.

tools/properties has made the table from the jars of Apache Kafka.

A row of the table is [name, type, default, valid, importance, update mode, internal].

* Types are those of Kafka's ConfigDef.
* The default is text as in a properties file, null when Kafka's is null.
* `valid` is null, a range "[min,...,max]", "one of a|b", or "any case of a|b".
* For a list, `valid` is "some of a|b", or "no twice" for any words.
* `valid` may also be the name of a special rule.
* The update mode is that of broker properties ("read-only", "per-broker", "cluster-wide") or "".

`documentation` has Kafka's texts, for DescribeConfigs with IncludeDocumentation (KIP-569).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from muster.coordinator.properties.definition import Property

ABOUT = {
    "muster.cluster.id": "The id of the cluster that this node belongs to. Default: the id in the data directory, or "
    "else a new id.",
    "muster.cluster.cache.bytes": "With --cluster: how many bytes of older segments of topics a node keeps on disk. "
    "Segments of compacted topics and of the coordinators do not count. Other segments are in the database.",
    "muster.cluster.segment.bytes": "With --cluster: the largest segment of a topic, unless segment.bytes is less. A "
    "new leader of a partition reads the newest segment. Older segments are fetched whole.",
    "muster.client.lint.enable": "Check the requests of clients against the rules of the protocol, and report which "
    "client breaks which rule (docs/client-lint.md).",
    "muster.client.lint.report.file": "The file that gets the report about clients, as JSON if its name ends with "
    ".json. Default: the text is printed to stdout.",
    "muster.client.telemetry.enable": "Let clients push the metrics that client metrics resources name (KIP-714), and "
    "keep the newest metrics of each client in memory: muster clients list.",
    "muster.group.events.enable": "Write what happens in groups to the topic __group_events.",
    "muster.group.events.retention.bytes": "How much of each partition of __group_events is kept; read when the topic "
    "is created.",
    "muster.group.events.retention.ms": "How long __group_events keeps events; read when the topic is created.",
    "muster.transaction.events.enable": "Write what happens to transactional ids to the topic __transaction_events.",
    "muster.transaction.events.retention.bytes": "How much of each partition of __transaction_events is kept; read "
    "when the topic is created.",
    "muster.transaction.events.retention.ms": "How long __transaction_events keeps events; read when the topic is "
    "created.",
    "muster.http.listener": "The address of the HTTP door: HOST:PORT, http://HOST:PORT or https://HOST:PORT. Default: "
    "the server has no door.",
    "muster.http.token.file": "A file with the token that clients of the HTTP door must send. A door off loopback "
    "needs it.",
    "muster.alerts.enable": "Whether a server with an HTTP door, or with webhooks, reports groups that need help.",
    "muster.alerts.quiet.times": "When webhooks are not called, in UTC: 22:00-06:00, Sat, Sun 09:00-12:00.",
    "muster.alerts.repeat.ms": "Webhooks get an alert that goes on, or comes back, again after this time. -1: never.",
    "muster.alerts.token.file": "A file with the token that webhooks get: Authorization: Bearer TOKEN.",
    "muster.alerts.webhooks": "The URLs that get alerts as CloudEvents, divided by commas.",
    "muster.metrics.groups": "How many groups have figures of their own at /metrics: the busiest ones. The others are "
    "counted together.",
    "muster.queued.max.response.bytes": "How many bytes of answers that clients have not read yet may be in memory. "
    "A Fetch takes at most a quarter of the remaining bytes. -1: no limit.",
    "muster.nodes": "The number of brokers in the process. Each has its own ports and id; all share the logs.",
    "muster.nodes.racks": "The racks of these brokers, in order. Default: all brokers have broker.rack.",
    "muster.offsets.durability": 'With "commit", an acknowledged commit is on the disk; with "os", the commit is in '
    "the page cache, as on Kafka.",
    "muster.sasl.jaas.file": "A file in the syntax of Java's login configuration. The section KafkaServer, or "
    "name.KafkaServer for one listener, has the users of PLAIN and the options of other mechanisms. The property "
    "sasl.jaas.config precedes the file. A changed file is read again.",
}
"""The purpose of each property, for DescribeConfigs."""

OWN = (
    ("muster.sasl.jaas.file", "STRING", None, "non-empty string", "MEDIUM", "read-only", False),
    ("muster.client.lint.enable", "BOOLEAN", "false", None, "LOW", "read-only", False),
    ("muster.client.lint.report.file", "STRING", None, "non-empty string", "LOW", "read-only", False),
    ("muster.client.telemetry.enable", "BOOLEAN", "true", None, "LOW", "read-only", False),
    ("muster.group.events.enable", "BOOLEAN", "true", None, "LOW", "read-only", False),
    ("muster.group.events.retention.bytes", "LONG", "134217728", "[-1,...]", "LOW", "read-only", False),
    ("muster.group.events.retention.ms", "LONG", "604800000", "[-1,...]", "LOW", "read-only", False),
    ("muster.transaction.events.enable", "BOOLEAN", "true", None, "LOW", "read-only", False),
    ("muster.transaction.events.retention.bytes", "LONG", "33554432", "[-1,...]", "LOW", "read-only", False),
    ("muster.transaction.events.retention.ms", "LONG", "604800000", "[-1,...]", "LOW", "read-only", False),
    ("muster.http.listener", "STRING", None, "non-empty string", "LOW", "read-only", False),
    ("muster.http.token.file", "STRING", None, "non-empty string", "LOW", "read-only", False),
    ("muster.alerts.enable", "BOOLEAN", "true", None, "LOW", "read-only", False),
    ("muster.alerts.quiet.times", "LIST", "", None, "LOW", "read-only", False),
    ("muster.alerts.repeat.ms", "LONG", "14400000", "[-1,...]", "LOW", "read-only", False),
    ("muster.alerts.token.file", "STRING", None, "non-empty string", "LOW", "read-only", False),
    ("muster.alerts.webhooks", "PASSWORD", None, None, "LOW", "read-only", False),
    ("muster.metrics.groups", "INT", "100", "[0,...]", "LOW", "read-only", False),
    ("muster.queued.max.response.bytes", "LONG", "134217728", "[-1,...]", "MEDIUM", "read-only", False),
    ("muster.offsets.durability", "STRING", "commit", "one of commit|os", "MEDIUM", "read-only", False),
    ("muster.nodes", "INT", "1", "[1,...,100]", "MEDIUM", "read-only", False),
    ("muster.nodes.racks", "LIST", "", None, "LOW", "read-only", False),
    ("muster.cluster.cache.bytes", "LONG", "1073741824", "[0,...]", "MEDIUM", "read-only", False),
    ("muster.cluster.segment.bytes", "INT", "33554432", "[1024,...]", "MEDIUM", "read-only", False),
    ("muster.cluster.id", "STRING", None, "non-empty string", "LOW", "read-only", False),
)


_TABLE: Final[dict[str, Any]] = json.loads(Path(__file__).with_name("table.json").read_bytes())


def _by_name(rows: Iterable[Sequence[Any]]) -> Mapping[str, Property]:
    return MappingProxyType({row[0]: Property(*row) for row in rows})


BROKER: Final = _by_name(_TABLE["BROKER"])
"""Kafka's broker properties (AbstractKafkaConfig.CONFIG_DEF), by name, in the order of names."""
DYNAMIC_ONLY: Final = _by_name(_TABLE["BROKER_DYNAMIC_ONLY"])
"""Broker properties that are only set while the broker runs, without effect in a file (DynamicConfig.Broker)."""
TOPIC: Final = _by_name(_TABLE["TOPIC"])
"""Kafka's topic properties (LogConfig)."""
GROUP: Final = _by_name(_TABLE["GROUP"])
"""Kafka's group properties (KIP-848's dynamic group configuration: GroupConfig)."""
CLIENT_METRICS: Final = _by_name(_TABLE["CLIENT_METRICS"])
"""Kafka's properties of client metrics subscriptions (KIP-714: ClientMetricsConfigs)."""
MUSTER: Final = _by_name(OWN)
"""Muster's own properties."""

TOPIC_SYNONYMS: Final[Mapping[str, Sequence[tuple[str, int]]]] = _TABLE["TOPIC_SYNONYMS"]
"""Topic property -> its broker properties (the first that is set counts), each with the factor to the topic's unit."""
GROUP_SYNONYMS: Final[Mapping[str, str | None]] = _TABLE["GROUP_SYNONYMS"]
"""The broker property of each group property (GroupConfig.ALL_GROUP_CONFIG_SYNONYMS)."""
BROKER_SYNONYMS: Final[Mapping[str, Sequence[str]]] = _TABLE["BROKER_SYNONYMS"]
"""The synonyms of broker properties that have further synonyms (DynamicBrokerConfig.brokerConfigSynonyms)."""
DYNAMIC_SECURITY: Final[Sequence[str]] = _TABLE["DYNAMIC_SECURITY"]
"""The security properties that may change at run time (DynamicBrokerConfig.DYNAMIC_SECURITY_CONFIGS)."""
OUTSIDE: Final[Sequence[str]] = _TABLE["OUTSIDE"]
"""Names that Kafka reads without a definition: those of JmxReporter and StandardAuthorizer."""


def documentation(kind: str) -> Mapping[str, str]:
    """The documentation by property. `kind`: broker (with Muster's own properties), topic, group, client-metrics."""
    return read_documentation()[kind]


@cache
def read_documentation() -> Mapping[str, Mapping[str, str]]:
    """Read the texts of all properties."""
    found: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("documentation.json").read_bytes())
    found["broker"].update(ABOUT)
    return found
