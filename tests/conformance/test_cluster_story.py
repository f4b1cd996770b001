"""What three brokers of Kafka answer while leaders and coordinators move; Muster's in one process are held to it in
`make test`, those over a database here.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.e2e.brokers_story import KAFKA_SAID, PROPERTIES, Story
from tests.support.cluster_nodes import ClusterNodes
from tests.support.postgres import own_database
from tests.support.servers import KafkaCluster

DIRECTORY = "    partitions in the directory of "
"""Over a database only who leads a partition has a copy of it (docs/cluster.md)."""


@pytest.mark.timeout(600)
async def test_three_brokers_of_kafka_answer_as_recorded(tmp_path: Path) -> None:
    kafka = KafkaCluster(tmp_path, PROPERTIES)
    kafka.start()
    try:
        lines = await Story(kafka).play()
    finally:
        kafka.kill()
    assert lines == KAFKA_SAID.read_text().splitlines()


@pytest.mark.timeout(600)
def test_three_nodes_over_a_database_answer_as_kafka(tmp_path: Path, postgres: str) -> None:
    with own_database(postgres) as database:
        # a lease is not to end because the machine is busy
        nodes = ClusterNodes(tmp_path, {**PROPERTIES, "broker.session.timeout.ms": "6000"}, database)
        nodes.start()
        try:
            lines = asyncio.run(Story(nodes).play())
        finally:
            nodes.kill()
    said = KAFKA_SAID.read_text().splitlines()
    assert [one for one in lines if not one.startswith(DIRECTORY)] == [
        one for one in said if not one.startswith(DIRECTORY)
    ]
