"""Share groups with confluent-kafka's consumer: what was acknowledged stays so, also after a kill of the server."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from confluent_kafka import AcknowledgeType, Consumer, KafkaException, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.e2e.conftest import create_topic
from tests.support.servers import ServerProcess

GROUP = "workers"
COUNT = 300
Start = Callable[..., ServerProcess]


def configure(bootstrap: str, **configs: str) -> None:
    """Set configs of the group."""
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in configs.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, GROUP, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(30)


class Worker(threading.Thread):
    """A member that accepts each record, and counts what the server has confirmed."""

    def __init__(self, bootstrap: str, topic: str, is_enough: Callable[[], bool]) -> None:
        super().__init__(daemon=True)
        self.confirmed: list[tuple[int, int]] = []
        self.delivered_again: list[tuple[int, int]] = []
        self._is_enough = is_enough
        self._consumer = ShareConsumer(
            {"bootstrap.servers": bootstrap, "group.id": GROUP, "share.acknowledgement.mode": "explicit"}
        )
        self._consumer.subscribe([topic])

    def run(self) -> None:
        """Poll until there is nothing to do."""
        while not self._is_enough():
            records = [one for one in self._consumer.poll(0.2) if one.error() is None]
            for one in records:
                self._consumer.acknowledge(one, AcknowledgeType.ACCEPT)
            places = [(one.partition(), one.offset()) for one in records]
            self.delivered_again += [place for place in places if place in self.confirmed]
            try:
                failed = {at.partition for at, error in self._consumer.commit_sync(20.0).items() if error is not None}
            except KafkaException:
                continue  # nobody knows what became of these acknowledgements
            self.confirmed += [place for place in places if place[0] not in failed]
        self._consumer.close()


def produce(bootstrap: str, topic: str, first: int) -> None:
    """Produce records to the two partitions."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(first, first + COUNT):
        producer.produce(topic, str(number), partition=number % 2)
    assert producer.flush(60) == 0


def test_what_was_acknowledged_stays_so_after_a_kill(start_server: Start) -> None:
    server, topic = start_server({"group.share.record.lock.duration.ms": "15000"}), "queue"
    create_topic(server, topic, 2)
    configure(server.bootstrap, share_auto_offset_reset="earliest")
    produce(server.bootstrap, topic, 0)
    workers: list[Worker] = []
    half, whole = threading.Event(), threading.Event()

    def is_enough() -> bool:
        confirmed = sum(len(one.confirmed) for one in workers)
        if confirmed >= COUNT:
            half.set()
        if confirmed >= 2 * COUNT:
            whole.set()
        return whole.is_set()

    workers += [Worker(server.bootstrap, topic, is_enough) for _ in range(2)]
    for one in workers:
        one.start()
    assert half.wait(60)
    server.kill()
    server.start()
    produce(server.bootstrap, topic, COUNT)
    assert whole.wait(90)
    for one in workers:
        one.join(60)
    confirmed = [place for one in workers for place in one.confirmed]
    assert sorted(confirmed) == [(partition, offset) for partition in range(2) for offset in range(COUNT)]
    assert not any(one.delivered_again for one in workers)


def test_a_rejected_record_is_in_the_dead_letter_queue(start_server: Start) -> None:
    server = start_server({"errors.deadletterqueue.auto.create.topics.enable": "true"})
    create_topic(server, "queue", 2)
    configure(server.bootstrap, share_auto_offset_reset="earliest", errors_deadletterqueue_topic_name="dlq.queue")
    configure(server.bootstrap, errors_deadletterqueue_copy_record_enable="true")
    produce(server.bootstrap, "queue", 0)
    common = {"bootstrap.servers": server.bootstrap}
    worker = ShareConsumer({**common, "group.id": GROUP, "share.acknowledgement.mode": "explicit"})
    worker.subscribe(["queue"])
    seen: dict[bytes, AcknowledgeType] = {}
    while len(seen) < COUNT:
        for one in worker.poll(1.0):
            value = one.value()
            seen[value] = AcknowledgeType.REJECT if value == b"7" else AcknowledgeType.ACCEPT
            worker.acknowledge(one, seen[value])
        worker.commit_sync(20.0)
    worker.close()
    reader = Consumer({**common, "group.id": "reader", "auto.offset.reset": "earliest"})
    reader.subscribe(["dlq.queue"])
    letter: Any = None
    while letter is None or letter.error() is not None:
        letter = reader.poll(1.0)
    reader.close()
    assert letter.value() == b"7"
    assert dict(letter.headers())["__dlq.errors.message"] == b"Offset rejected by client."
