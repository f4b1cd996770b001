"""Share groups over `muster serve --cluster`: an accepted record is never delivered again, whichever node is killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from confluent_kafka import AcknowledgeType, KafkaException, Producer, ShareConsumer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.e2e.test_cluster import PARTITIONS, admin_of, database, leaders, nodes, pytestmark  # noqa: F401  # fixtures
from tests.support.cluster_nodes import ClusterNode

STATES: Final = "__share_group_state"
PART: Final = 120
"""How many records are accepted between two kills."""


class Place(NamedTuple):
    """One record."""

    partition: int
    offset: int


@contextmanager
def sharing(bootstrap: str) -> Iterator[ShareConsumer]:
    """A member of the share group `shares`, which accepts record by record."""
    consumer = ShareConsumer(
        {"bootstrap.servers": bootstrap, "group.id": "shares", "share.acknowledgement.mode": "explicit",
         "reconnect.backoff.max.ms": 100, "log_level": 0}
    )  # fmt: skip
    consumer.subscribe(["orders"])
    try:
        yield consumer
    finally:
        consumer.close()


class Work:
    """What a worker was given, and which of its acceptances were confirmed."""

    def __init__(self) -> None:
        self.confirmed: set[Place] = set()
        self.again: list[Place] = []
        """Records that were delivered although they were accepted."""

    def until(self, consumer: ShareConsumer, count: int) -> None:
        """Accept records until `count` acceptances are confirmed."""
        while len(self.confirmed) < count:
            try:
                messages = [one for one in consumer.poll(1.0) if one.error() is None]
            except KafkaException:
                continue
            accepted: dict[int, list[Place]] = {}
            for message in messages:
                place = Place(message.partition() or 0, message.offset() or 0)
                if place in self.confirmed:
                    self.again.append(place)
                consumer.acknowledge(message, AcknowledgeType.ACCEPT)
                accepted.setdefault(place.partition, []).append(place)
            if not accepted:
                continue
            for partition, error in consumer.commit_sync(30.0).items():
                if error is None:
                    self.confirmed.update(accepted.get(partition.partition, ()))


def produce(bootstrap: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 50_000, "log_level": 0})
    for number in range(count):
        producer.produce("orders", b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(60) == 0


def test_accepted_records_stay_accepted(nodes: list[ClusterNode]) -> None:  # noqa: F811  # the fixture
    bootstrap = ",".join(node.bootstrap for node in nodes)
    resource = ConfigResource(ResourceType.GROUP, "shares", incremental_configs=[
        ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)])  # fmt: skip
    admin = admin_of(nodes)
    for change in admin.incremental_alter_configs([resource]).values():
        change.result()
    produce(bootstrap, 4 * PART)
    work = Work()
    with sharing(bootstrap) as consumer:
        work.until(consumer, PART)
        assert set(leaders(admin_of(nodes), STATES)) == {1, 2, 3}
        nodes[2].kill()
        work.until(consumer, 2 * PART)
        nodes[2].start()
        nodes[1].kill()
        work.until(consumer, 3 * PART)
    with sharing(bootstrap) as consumer:
        work.until(consumer, 4 * PART)
        assert not [one for one in consumer.poll(2.0) if one.error() is None]
    assert work.again == []
