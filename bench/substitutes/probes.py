"""Tests what a usual client (confluent-kafka) can do with a server, and which APIs the server claims to serve."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from functools import partial

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

GROUP_APIS = {
    "classic": (10, 11, 12, 13, 14, 8, 9),
    "KIP-848": (68, 69),
    "share": (76, 77, 78, 79),
    "streams": (88, 89),
    "transactions": (22, 24, 25, 26, 28),
}
PATIENCE_S = 15.0


def api_keys(address: tuple[str, int]) -> set[int]:
    """The keys of all APIs that a server claims to serve (ApiVersions version 0)."""
    body = struct.pack(">hhih", 18, 0, 7, 5) + b"bench"
    with socket.create_connection(address, timeout=10) as connection, connection.makefile("rb") as answer:
        connection.sendall(struct.pack(">i", len(body)) + body)
        (size,) = struct.unpack(">i", answer.read(4))
        data = answer.read(size)
    count = struct.unpack(">i", data[6:10])[0]
    return {struct.unpack(">h", data[10 + 6 * n : 12 + 6 * n])[0] for n in range(count)}


def consume(bootstrap: str, group_id: str, topic: str, **settings: object) -> None:
    """Check that a record reaches a member of a group, and that the member's commit is kept."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    producer.produce(topic, b"first")
    if producer.flush(PATIENCE_S):
        raise TimeoutError("produce")
    base = {"bootstrap.servers": bootstrap, "log_level": 0, "auto.offset.reset": "earliest", "group.id": group_id}
    consumer = Consumer({**base, "enable.auto.commit": False, "fetch.wait.max.ms": 100, **settings})
    try:
        consumer.subscribe([topic])
        messages = consumer.consume(1, PATIENCE_S)
        if not messages or messages[0].error():
            raise TimeoutError("no record")
        consumer.commit(asynchronous=False)
        (committed,) = consumer.committed([TopicPartition(topic, messages[0].partition() or 0)], PATIENCE_S)
        if committed.offset < 1:
            raise ValueError(f"committed {committed.offset}")
    finally:
        consumer.close()


def transaction(bootstrap: str) -> None:
    """Check that the records of a committed transaction are read, and those of an aborted transaction are not."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "transactional.id": "t"})
    producer.init_transactions(PATIENCE_S)
    for value in (b"aborted", b"committed"):
        producer.begin_transaction()
        producer.produce("paid", value)
        producer.flush(PATIENCE_S)
        (producer.abort_transaction if value == b"aborted" else producer.commit_transaction)(PATIENCE_S)
    base = {"bootstrap.servers": bootstrap, "log_level": 0, "auto.offset.reset": "earliest", "group.id": "reader"}
    consumer = Consumer({**base, "isolation.level": "read_committed"})
    try:
        consumer.subscribe(["paid"])
        values = [message.value() for message in consumer.consume(1, PATIENCE_S)]
        if values != [b"committed"]:
            raise ValueError(str(values))
    finally:
        consumer.close()


def administration(bootstrap: str) -> None:
    """Describe groups, list offsets, add partitions to a topic, and delete it."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic("probe", 1)])["probe"].result(PATIENCE_S)
    admin.describe_consumer_groups(["classic"])["classic"].result(PATIENCE_S)
    where = TopicPartition("probe", 0)
    newest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # lacks annotations
    admin.list_offsets({where: newest})[where].result(PATIENCE_S)
    admin.delete_topics(["probe"])["probe"].result(PATIENCE_S)


PROBES: dict[str, Callable[[str], None]] = {
    "classic group": lambda bootstrap: consume(bootstrap, "classic", "orders"),
    "KIP-848 group": lambda bootstrap: consume(bootstrap, "next", "orders", **{"group.protocol": "consumer"}),
    "static member": lambda bootstrap: consume(bootstrap, "static", "orders", **{"group.instance.id": "one"}),
    "transactions": transaction,
    "administration": administration,
}


def tried(probe: Callable[[str], None], bootstrap: str) -> str:
    """Run a probe. Returns an empty text when it works, else the error."""
    try:
        partial(probe, bootstrap)()
    except (KafkaException, TimeoutError, ValueError, OSError) as error:
        return str(error)[:100] or type(error).__name__
    return ""
