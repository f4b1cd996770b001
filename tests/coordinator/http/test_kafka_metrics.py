"""The metrics that dashboards of Kafka read: names and labels of kafka_exporter, klag-exporter and Kafka."""

from __future__ import annotations

import re

import pytest

from muster.coordinator.http.kafka_metrics import GroupRow, PartitionRow, TopicRow, kafka_metrics
from muster.coordinator.http.watch import of_kafka
from muster.coordinator.server.exposition import exposition
from muster.coordinator.system.jobs import at_once
from muster.testcontrol.topics import NewRecord
from tests.e2e.aio import consuming
from tests.testcontrol.server import bootstrap, controlled

DASHBOARD_7589 = {
    "kafka_topic_partition_current_offset": {"topic", "partition"},
    "kafka_topic_partitions": {"topic"},
    "kafka_consumergroup_current_offset": {"consumergroup", "topic", "partition"},
    "kafka_consumergroup_lag": {"consumergroup", "topic", "partition"},
}
"""What the queries of the dashboard use."""

TOPICS = [TopicRow("orders", 2, [PartitionRow(0, 5, 50, 1, 3, 2), PartitionRow(1, None, None, -1, 1, 1)])]
GROUPS = [
    GroupRow('g"1', "classic", "Stable", 2, [("orders", [(0, 40, None), (1, 7, None)])]),
    GroupRow("s", "share", "Empty", 0, [("orders", [(0, 45, 3)])]),
]


def lines_of(text: bytes) -> list[str]:
    return [line for line in text.decode().splitlines() if not line.startswith("#")]


def test_groups_and_topics_have_the_names_and_labels_of_kafka_exporter() -> None:
    lines = lines_of(b"".join(at_once(exposition(at_once(kafka_metrics("c", 1, TOPICS, GROUPS))))))
    group = r'consumergroup="g\"1"'
    for line in (
        "kafka_brokers 1",
        'kafka_topic_partitions{topic="orders"} 2',
        'kafka_topic_partition_current_offset{partition="0",topic="orders"} 50',
        'kafka_topic_partition_oldest_offset{partition="0",topic="orders"} 5',
        'kafka_topic_partition_leader{partition="1",topic="orders"} -1',
        'kafka_topic_partition_under_replicated_partition{partition="0",topic="orders"} 1',
        f'kafka_consumergroup_current_offset{{{group},partition="0",topic="orders"}} 40',
        f'kafka_consumergroup_lag{{{group},partition="0",topic="orders"}} 10',
        f'kafka_consumergroup_current_offset_sum{{{group},topic="orders"}} 47',
        f'kafka_consumergroup_lag_sum{{{group},topic="orders"}} 10',
        f"kafka_consumergroup_members{{{group}}} 2",
        r'kafka_consumergroup_group_state{cluster_name="c",group="g\"1"} 3',
        'kafka_consumergroup_lag{consumergroup="s",partition="0",topic="orders"} 3',
        'kafka_server_group_coordinator_metrics_group_count{protocol="share"} 1',
        'kafka_server_group_coordinator_metrics_classic_group_count{state="Stable"} 1',
    ):
        assert line in lines
    assert not [line for line in lines if line.startswith(("kafka_topic_partition_current", "kafka_consumergroup_lag{"))
                and 'partition="1"' in line]  # fmt: skip


async def test_a_server_has_what_the_dashboard_7589_reads() -> None:
    async with controlled() as found:
        for stamp_ms in (1_000, 2_000, 3_000):
            await found.topics.produce("orders", [NewRecord(b"x", partition=0, timestamp_ms=stamp_ms)])
        async with consuming(bootstrap(found), "orders", group_id="g") as consumer:
            await found.groups.wait_stable("g", members=1, partitions="orders")
            await consumer.commit({one: 1 - one.partition for one in consumer.assignment()})
            lines = lines_of(b"".join(at_once(exposition(at_once(of_kafka(found.server))))))
    for name, labels in DASHBOARD_7589.items():
        own = [line for line in lines if line.startswith(f"{name}{{")]
        assert own
        assert all(set(re.findall(r"(\w+)=", line)) == labels for line in own)
    assert 'kafka_consumergroup_lag{consumergroup="g",partition="0",topic="orders"} 2' in lines
    assert 'kafka_consumergroup_members{consumergroup="g"} 1' in lines
    (oldest,) = [line for line in lines if line.startswith('muster_group_oldest_unread_seconds{group="g"}')]
    assert float(oldest.split()[1]) == pytest.approx(found.server.clock.now().wall_ms / 1000 - 2, abs=60)
