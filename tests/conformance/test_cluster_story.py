"""What three brokers of Kafka answer while leaders and coordinators move; Muster is held to it in `make test`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.brokers_story import KAFKA_SAID, PROPERTIES, Story
from tests.support.servers import KafkaCluster


@pytest.mark.timeout(600)
async def test_kafka_answers_as_it_did(tmp_path: Path) -> None:
    kafka = KafkaCluster(tmp_path, PROPERTIES)
    kafka.start()
    try:
        lines = await Story(kafka).play()
    finally:
        kafka.kill()
    assert lines == KAFKA_SAID.read_text().splitlines()
