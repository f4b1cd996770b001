"""A cluster whose PostgreSQL fails over to its synchronous standby while clients write and commit: nothing that was
acknowledged is lost.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from muster.coordinator.database import administration
from muster.coordinator.database.store import Identity
from tests.e2e.test_cluster import LEASE_MS, ClusterNode, end, free_port, until_led_by
from tests.support.postgres_pair import running_pair
from tests.support.servers import QUICK

PATIENCE_S = 90.0
EACH = 200


@pytest.mark.timeout(300)
def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    with ExitStack() as ends:
        pair = ends.enter_context(running_pair())
        asyncio.run(administration.init(pair.url, "muster", Identity("of-the-test", "AAAAAAAAAAAAAAAAAAAAAQ")))
        nodes = []
        for number in range(2):
            properties = {**QUICK, "offsets.topic.num.partitions": "4", "broker.session.timeout.ms": str(LEASE_MS)}
            arguments = ["--cluster", pair.url, "--topic", "orders:4"]
            node = ClusterNode(tmp_path / f"node-{number}", properties, arguments=arguments)
            node.bootstrap = f"127.0.0.1:{free_port()}"
            ends.callback(end, node)
            node.begin()
            node.until_ready()
            nodes.append(node)
        until_led_by(nodes, {1, 2})
        clients = {"bootstrap.servers": ",".join(node.bootstrap for node in nodes), "log_level": 0}
        clients["reconnect.backoff.max.ms"] = 200
        acknowledged: set[int] = set()
        producer = Producer({**clients, "enable.idempotence": True, "linger.ms": 1})
        consumer = Consumer({**clients, "group.id": "g", "enable.auto.commit": False})

        def told(error: object, message: object) -> None:
            if error is None:
                acknowledged.add(int(message.value()))  # type: ignore[attr-defined]

        committed = 0
        for number in range(3 * EACH):
            if number == EACH:
                pair.fail_over()
            producer.produce("orders", b"%d" % number, partition=number % 4, on_delivery=told)
            producer.poll(0.002)
            if number % 50 == 0:
                committed = commit(consumer, number)
        assert producer.flush(PATIENCE_S) == 0
        assert acknowledged == set(range(3 * EACH))
        (kept,) = consumer.committed([TopicPartition("orders", 0)], PATIENCE_S)
        assert kept.offset == committed
        assert sorted(read(consumer)) == sorted(acknowledged)
        consumer.close()


def commit(consumer: Consumer, offset: int) -> int:
    """Until it is acknowledged."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            (row,) = consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
        except KafkaException:
            assert time.monotonic() < deadline
            time.sleep(0.05)
            continue
        if row.error is None:
            return offset
        assert time.monotonic() < deadline, row.error


def read(consumer: Consumer) -> list[int]:
    """Everything there is; twice is told twice."""
    consumer.assign([TopicPartition("orders", number, 0) for number in range(4)])
    found: list[int] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(set(found)) < 3 * EACH and time.monotonic() < deadline:
        found += [int(one.value()) for one in consumer.consume(500, 0.5) if one.error() is None]
    return found
