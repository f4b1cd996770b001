"""What DescribeConfigs says of properties: each has a documentation, which is loaded only when a client asks for it."""

import subprocess
import sys

import pytest

from muster.coordinator.properties.lookup import BROKER, CLIENT_METRICS, GROUP, MUSTER, TOPIC, documentation


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("broker", [*BROKER, *MUSTER]),
        ("topic", list(TOPIC)),
        ("group", list(GROUP)),
        ("client-metrics", list(CLIENT_METRICS)),
    ],
)
def test_every_property_has_its_text(kind: str, names: list[str]) -> None:
    texts = documentation(kind)
    undocumented = [name for name in names if not texts[name]]
    # Kafka documents no internal property
    assert [name for name in undocumented if not (BROKER.get(name) or TOPIC[name]).internal] == []
    assert set(texts) == set(names)


def test_property_documentation_has_kafkas_words() -> None:
    assert documentation("client-metrics")["interval.ms"] == "Metrics push interval in milliseconds"
    assert documentation("group")["consumer.heartbeat.interval.ms"] == (
        "The heartbeat interval given to the members of a consumer group."
    )


def test_a_start_does_not_load_the_documentation() -> None:
    module = "muster.coordinator.properties.lookup"
    asked = (
        f"import muster.coordinator.server, {module} as found; print(found.read_documentation.cache_info().currsize)"
    )
    answer = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True)
    assert answer.stdout.strip() == "0"
