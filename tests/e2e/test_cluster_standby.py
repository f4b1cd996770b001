"""A node over a PostgreSQL whose synchronous standby is cut off, and then becomes the primary. Acknowledged records
survive, also when the sessions that waited for the standby have ended.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from muster.postgres import administration
from muster.postgres.store import Identity, StoreAway
from tests.e2e.conftest import BOOTSTRAP, SERVER
from tests.e2e.test_cluster import BETWEEN_LOOKS_S, end
from tests.support.cluster_nodes import ClusterNode
from tests.support.postgres_pair import Pair, running_pair
from tests.support.servers import QUICK, free_port_pair

pytestmark = pytest.mark.skipif(SERVER != "muster" or bool(BOOTSTRAP), reason="nodes of Muster's own")
LEASE_MS = 20_000
"""Longer than a round takes: the node keeps its registration during a round."""


def read_all(bootstrap: str) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "r", "log_level": 0, "enable.partition.eof": True})
    consumer.assign([TopicPartition("orders", 0, 0)])
    found: list[bytes] = []
    while (message := consumer.poll(60)) is not None and message.error() is None:
        found.append(message.value())
    consumer.close()
    return found


@pytest.mark.timeout(300)
def test_acknowledged_records_survive_the_promotion_of_the_standby(tmp_path: Path) -> None:
    with running_pair() as pair:
        asyncio.run(administration.init(pair.url, "muster", Identity("of-the-test", "AAAAAAAAAAAAAAAAAAAAAQ")))
        properties = {**QUICK, "offsets.topic.num.partitions": "1", "broker.session.timeout.ms": str(LEASE_MS)}
        arguments = ["--cluster", pair.url, "--topic", "orders:1"]
        node = ClusterNode(tmp_path / "node", properties, arguments=arguments)
        node.bootstrap = f"127.0.0.1:{free_port_pair()}"
        try:
            node.begin()
            node.until_ready()
            play(pair, node)
        finally:
            end(node)


def init(pair: Pair) -> None:
    identity = Identity("another", "AAAAAAAAAAAAAAAAAAAAAQ")
    asyncio.run(administration.init(pair.url, "another", identity))


def test_an_initialized_cluster_survives_the_promotion_of_the_standby() -> None:
    with running_pair() as pair, ThreadPoolExecutor() as threads:
        init(pair)
        pair.cut_off()
        for ends in (pair.end_waiting, pair.cancel_waiting):
            made = threads.submit(init, pair)  # the standby is there, and is made again all the same
            pair.until_waiting()
            ends()
            with pytest.raises(StoreAway):
                made.result()
        pair.reconnect()
        init(pair)


def play(pair: Pair, node: ClusterNode) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 0, "log_level": 0,
                         "enable.idempotence": True, "reconnect.backoff.max.ms": 200})  # fmt: skip
    acknowledged: list[bytes] = []

    def send(value: bytes) -> None:
        producer.produce("orders", value, on_delivery=lambda error, _: acknowledged.append(value) if not error else 0)
        producer.poll(0)

    for number, how in enumerate((pair.end_waiting, pair.cancel_waiting)):
        if number:
            pair.begin_standby()
        send(b"before-%d" % number)
        assert producer.flush(60) == 0
        before = list(acknowledged)
        pair.cut_off()
        send(b"during-%d" % number)
        pair.until_waiting()
        tries = node.log().count("the database is away")
        how()
        # the node has seen that its write counts, and waits for the answer to a later one
        while node.log().count("the database is away") == tries:
            producer.poll(BETWEEN_LOOKS_S)
        pair.until_waiting()
        producer.poll(BETWEEN_LOOKS_S)
        assert acknowledged == before, how
        pair.fail_over()
        assert producer.flush(60) == 0
        assert acknowledged == [*before, b"during-%d" % number]
        assert read_all(node.bootstrap) == acknowledged
