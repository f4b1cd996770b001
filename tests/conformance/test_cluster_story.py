"""Three brokers answer as three brokers of Kafka do while leaders and coordinators move. `make test` checks three
brokers in one process; this module checks three over a database.
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
"""Over a database only the leader of a partition has a replica of it (docs/cluster.md)."""


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
        # a lease must not end because the machine is busy
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
