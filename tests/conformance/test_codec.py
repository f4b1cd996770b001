"""Kafka's own classes read every message that we write, and write the same bytes: all versions, with records."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

from tests.protocol.random_messages import Layout, draw, layouts

HERE = Path(__file__).parent
TOOL = HERE.parent / "kafka" / "kafka-tool.sh"
PACKAGES = {
    "group_records": "org.apache.kafka.coordinator.group.generated",
    "share_records": "org.apache.kafka.coordinator.share.generated",
    "transaction_records": "org.apache.kafka.coordinator.transaction.generated",
    "metadata_records": "org.apache.kafka.common.metadata",
}
EACH = 30


def kafka_class(layout: Layout) -> str:
    """The Java class of a message."""
    package = PACKAGES.get(layout.module.__name__.split(".")[-2], "org.apache.kafka.common.message")
    data = "Data" if layout.name.endswith(("Request", "Response")) else ""
    return f"{package}.{layout.name}{data}"


def test_kafka_decodes_and_encodes_each_message_to_the_same_bytes() -> None:
    rng = random.Random(43)
    lines = [
        f"{kafka_class(layout)} {version} {layout.encode(version, draw(rng, layout, version)).hex()}"
        for layout in layouts().values()
        for version in layout.versions
        for _ in range(EACH)
    ]
    run = subprocess.run(
        ["bash", str(TOOL), str(HERE / "Codec.java")],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [f"messages: {len(lines)}"]
    assert len(lines) > 19_000
