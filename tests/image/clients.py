"""A real client at the mapped port of a container."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic


def works(bootstrap: str, security: Mapping[str, str] | None = None, topic: str = "orders") -> str:
    """Create a topic, and read a record of it with a group; returns the cluster's id."""
    common = {"bootstrap.servers": bootstrap, "log_level": 3, **(security or {})}
    admin = AdminClient(common)
    admin.create_topics([NewTopic(topic, 1)])[topic].result(30)
    producer = Producer(common)
    producer.produce(topic, b"shipped")
    assert producer.flush(30) == 0
    consumer = Consumer({**common, "group.id": "shop", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        messages = consumer.consume(1, 30)
        assert [message.value() for message in messages] == [b"shipped"]
    finally:
        consumer.close()
    reported: str = admin.list_topics(timeout=30).cluster_id
    return reported
