"""The PostgreSQL of a cluster fails over to its synchronous standby while clients write and commit. No acknowledged
write is lost. The failover is done by hand, and by Patroni.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from muster.postgres import administration
from muster.postgres.store import Identity
from tests.e2e.test_cluster import LEASE_MS, ClusterNode, end, until_led_by
from tests.support import patroni
from tests.support.postgres_pair import running_pair
from tests.support.servers import QUICK, free_port_pair

PATIENCE_S = 120.0
EACH = 200
PARTITIONS = 4
Fault = Callable[[], object]


@pytest.mark.timeout(300)
def test_no_acknowledged_write_is_lost_in_a_failover(tmp_path: Path) -> None:
    with running_pair() as pair:
        play(tmp_path, pair.url, [pair.fail_over])


@pytest.mark.skipif(bool(patroni.missing()), reason=f"of Debian's packages there is no {patroni.missing()}")
@pytest.mark.timeout(900)
def test_no_acknowledged_write_is_lost_in_a_failover_by_patroni(tmp_path: Path) -> None:
    """The primary dies with its machine, returns as the standby, and the two change roles in order."""
    with patroni.running_patroni() as pair:

        def dies() -> None:
            pair.kill_primary()
            pair.until_taken_over()

        play(tmp_path, pair.url, [dies, pair.bring_back, pair.switch_over])


def play(folder: Path, url: str, faults: Sequence[Fault]) -> None:
    """Clients of two nodes write and commit during one fault of the database after another."""
    with ExitStack() as ends:
        asyncio.run(administration.init(url, "muster", Identity("of-the-test", "AAAAAAAAAAAAAAAAAAAAAQ")))
        nodes = []
        for number in range(2):
            properties = {**QUICK, "offsets.topic.num.partitions": "4", "broker.session.timeout.ms": str(LEASE_MS)}
            arguments = ["--cluster", url, "--topic", f"orders:{PARTITIONS}"]
            node = ClusterNode(folder / f"node-{number}", properties, arguments=arguments)
            node.bootstrap = f"127.0.0.1:{free_port_pair()}"
            ends.callback(end, node)
            node.begin()
            node.until_ready()
            nodes.append(node)
        until_led_by(nodes, {1, 2})
        clients = {"bootstrap.servers": ",".join(node.bootstrap for node in nodes), "log_level": 0}
        clients["reconnect.backoff.max.ms"] = 200
        acknowledged: list[int] = []
        producer = Producer({**clients, "enable.idempotence": True, "linger.ms": 1})
        consumer = Consumer({**clients, "group.id": "g", "enable.auto.commit": False})
        ends.callback(consumer.close)

        def on_delivery_report(error: object, message: object) -> None:
            if error is None:
                acknowledged.append(int(message.value()))

        with ThreadPoolExecutor(1) as thread:
            committed = number = 0
            for fault in faults:
                under_way = thread.submit(fault)
                last = number + EACH
                while number < last or not under_way.done():
                    producer.produce(
                        "orders", b"%d" % number, partition=number % PARTITIONS, on_delivery=on_delivery_report
                    )
                    producer.poll(0.005)
                    if number % 50 == 0:
                        committed = commit(consumer, number)
                    number += 1
                under_way.result()
                assert producer.flush(PATIENCE_S) == 0
        assert sorted(acknowledged) == [*range(number)]
        (kept,) = consumer.committed([TopicPartition("orders", 0)], PATIENCE_S)
        assert kept.offset == committed
        assert read(consumer, number) == {index: [*range(index, number, PARTITIONS)] for index in range(PARTITIONS)}


def commit(consumer: Consumer, offset: int) -> int:
    """Commit until the commit is acknowledged."""
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


def read(consumer: Consumer, count: int) -> dict[int, list[int]]:
    """All records of each partition. A repeated record is listed twice."""
    consumer.assign([TopicPartition("orders", number, 0) for number in range(PARTITIONS)])
    found: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
    deadline = time.monotonic() + PATIENCE_S
    while sum(map(len, found.values())) < count and time.monotonic() < deadline:
        for one in consumer.consume(500, 0.5):
            if one.error() is None:
                found[one.partition()].append(int(one.value()))
    return found
