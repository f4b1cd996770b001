"""Three brokers whose leaders and coordinators move answer as three brokers of Kafka do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.brokers_story import KAFKA_SAID, PROPERTIES, Story
from tests.support.servers import NodesServer


@pytest.mark.timeout(300)
async def test_three_brokers_with_moving_leaders_answer_as_three_kafka_brokers(tmp_path: Path) -> None:
    server = NodesServer(tmp_path, PROPERTIES)
    server.start()
    try:
        lines = await Story(server).play()
    finally:
        server.stop()
    assert lines == KAFKA_SAID.read_text().splitlines()
