"""What a real Kafka answers to clients of KIP-714, when it has a receiver of their metrics (Receiver.java)."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.coordinator.telemetry import story
from tests.coordinator.telemetry.wire import Wire
from tests.support.servers import KafkaServer, kafka_jars

HERE = Path(__file__).parent


def with_receiver(folder: Path) -> Path:
    """A folder with links to Kafka's jars, and a jar with the receiver."""
    jars, classes = folder / "jars", folder / "classes"
    jars.mkdir()
    for file in Path(kafka_jars()).iterdir():
        (jars / file.name).symlink_to(file)
    options = ["-Xlint:-removal", "-cp", f"{kafka_jars()}/*", "-d", classes]
    subprocess.run(["javac", *options, HERE / "Receiver.java"], check=True)
    subprocess.run(["jar", "cf", jars / "receiver.jar", "-C", classes, "."], check=True)
    return jars


def test_the_recorded_answers_are_kafkas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`MUSTER_FREEZE=1` writes them."""
    monkeypatch.setenv("KAFKA_JARS", str(with_receiver(tmp_path)))
    properties = {"metric.reporters": "Receiver", "receiver.file": str(tmp_path / "payloads")}
    server = KafkaServer(tmp_path / "kafka", properties)
    server.start()
    try:
        with Wire(*server.address) as wire:
            answers = story.play(wire)
    finally:
        server.stop()
    if os.environ.get("MUSTER_FREEZE"):
        rows = ",\n".join(map(json.dumps, answers))
        story.GOLDEN.write_text(f"[\n{rows}\n]\n", encoding="utf-8")
    assert answers == story.recorded()
