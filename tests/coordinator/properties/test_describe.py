"""Properties, sources and synonyms as a real Kafka 4.4 describes them (tools/properties/DumpDescribe.java got its
answers).
"""

import json
from pathlib import Path
from typing import Any

import pytest

from muster.coordinator.config import load
from muster.coordinator.properties import describe
from muster.coordinator.properties.definition import WIRE_TYPES
from muster.coordinator.properties.describe import Entry
from muster.coordinator.properties.live import Live
from muster.coordinator.properties.lookup import ABOUT

FOUND: dict[str, Any] = json.loads((Path(__file__).parent / "kafka_describe.json").read_text())
GIVEN: dict[str, str] = FOUND["properties"]

NOT_KAFKAS = ABOUT.keys()
# names without a definition: Kafka shows them because the configuration sets them
NOT_DEFINED = {"super.users"}


@pytest.fixture(scope="module")
def live() -> Live:
    live = Live(load(overrides=[f"{name}={text}" for name, text in GIVEN.items()]))
    # a cluster formatted with eligible leader replicas (KIP-966) gets this as a dynamic default
    live.set({"min.insync.replicas": "1"}, {})
    return live


def rows(entries: list[Entry]) -> dict[str, list[Any]]:
    types = {number: name for name, number in WIRE_TYPES.items()}
    return {
        entry.name: [*entry[:5], types[entry.wire_type], [list(synonym) for synonym in entry.synonyms]]
        for entry in entries
        if entry.name not in NOT_KAFKAS
    }


def kafkas(resource: str) -> dict[str, list[Any]]:
    return {row[0]: row for row in FOUND["described"][resource] if row[0] not in NOT_DEFINED}


def test_broker_configs_are_described_as_by_kafka(live: Live) -> None:
    ours, theirs = rows(describe.broker(live)), kafkas("BROKER:1")
    assert ours.keys() == theirs.keys()
    assert {name: row for name, row in ours.items() if row != theirs[name]} == {}


def test_listener_configs_are_described_as_by_kafka() -> None:
    """Kafka 4.4's answers: (value, read-only, source, sensitive, synonyms)."""
    jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required user_a=b;"
    prefix = "listener.name.sp."
    given = {
        "listeners": "SP://:1", "listener.security.protocol.map": "SP:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256", f"{prefix}plain.sasl.jaas.config": jaas,
        f"{prefix}connections.max.reauth.ms": "5000", f"{prefix}max.connections": "77",
        f"{prefix}sasl.enabled.mechanisms": "PLAIN",
    }  # fmt: skip
    live = Live(load(overrides=[f"{name}={text}" for name, text in given.items()]))
    live.set({}, {f"{prefix}max.connections": "78", f"{prefix}plain.connections.max.reauth.ms": "60"})
    found = {one.name.removeprefix(prefix): one[1:5] + one[6:] for one in describe.broker(live) if prefix in one.name}
    assert found == {
        "plain.sasl.jaas.config": (None, True, 4, True, ((f"{prefix}plain.sasl.jaas.config", None, 4),)),
        "connections.max.reauth.ms": ("5000", True, 4, False, (
            (f"{prefix}connections.max.reauth.ms", "5000", 4), ("connections.max.reauth.ms", "0", 5))),
        "max.connections": ("78", True, 2, False, (
            (f"{prefix}max.connections", "78", 2), (f"{prefix}max.connections", "77", 4),
            ("max.connections", "2147483647", 5))),
        "sasl.enabled.mechanisms": ("PLAIN", True, 4, False, (
            (f"{prefix}sasl.enabled.mechanisms", "PLAIN", 4), ("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256", 4),
            ("sasl.enabled.mechanisms", "GSSAPI", 5))),
        "plain.connections.max.reauth.ms": ("60", True, 2, False, (
            (f"{prefix}plain.connections.max.reauth.ms", "60", 2), ("connections.max.reauth.ms", "0", 5))),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("resource", "own"),
    [
        ("TOPIC:plain", {}),
        ("TOPIC:own", {"retention.ms": "-1", "cleanup.policy": "compact,delete", "segment.bytes": "2097152"}),
    ],
)
def test_topic_configs_are_described_as_by_kafka(live: Live, resource: str, own: dict[str, str]) -> None:
    ours, theirs = rows(describe.topic(own, live)), kafkas(resource)
    assert ours.keys() == theirs.keys()
    assert {name: row for name, row in ours.items() if row != theirs[name]} == {}


@pytest.mark.parametrize(
    ("resource", "own"), [("GROUP:other", {}), ("GROUP:g", {"consumer.session.timeout.ms": "50000"})]
)
def test_group_configs_are_described_as_by_kafka(live: Live, resource: str, own: dict[str, str]) -> None:
    assert rows(describe.group(own, live)) == kafkas(resource)
