"""confluent-kafka and kafka-python clients as the tests use them: each is closed when its block ends."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import confluent_kafka
from confluent_kafka.admin import AdminClient

from tests.e2e.ledger import PATIENCE_S, Ledger

with warnings.catch_warnings():
    # kafka-python reads its schemas in a way that Python 3.11 deprecates, and later ones allow again
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    from kafka.admin import KafkaAdminClient
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.net.inet import KafkaNetSocket
    from kafka.structs import OffsetAndMetadata

_connect = KafkaNetSocket.sock_connect
_sockets: WeakKeyDictionary[Any, WeakSet[Any]] = WeakKeyDictionary()
"""By event loop of kafka-python: the sockets of its connections."""


async def _connect_or_close(self: Any, net: Any, sock: Any, *where: Any, **how: Any) -> Any:
    """kafka-python forgets the socket of a refused connection; Python would warn of it in a later test."""
    _sockets.setdefault(net, WeakSet()).add(sock)
    try:
        return await _connect(self, net, sock, *where, **how)
    except BaseException:
        sock.close()
        raise


KafkaNetSocket.sock_connect = _connect_or_close

COOPERATIVE = "cooperative-sticky"
KAFKA_PYTHON_RANGE = RangePartitionAssignor
KAFKA_PYTHON_COOPERATIVE = CooperativeStickyAssignor
CONFLUENT_CONSUMER = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "heartbeat.interval.ms": 50,
    "session.timeout.ms": 30000,
    "fetch.wait.max.ms": 100,
    "log_level": 3,
}
OF_THE_CLASSIC_PROTOCOL = ("heartbeat.interval.ms", "session.timeout.ms")
"""librdkafka refuses these with `group.protocol=consumer`: the server decides them."""
KAFKA_PYTHON_CONSUMER = {
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "heartbeat_interval_ms": 50,
    "session_timeout_ms": 30000,
    "retry_backoff_ms": 20,
    "fetch_max_wait_ms": 100,
}


@contextmanager
def confluent_consumer(bootstrap: str, **settings: Any) -> Iterator[confluent_kafka.Consumer]:
    """Keyword names have "_" where librdkafka's properties have "."."""
    usual = CONFLUENT_CONSUMER
    if is_next_generation(settings):
        usual = {name: value for name, value in usual.items() if name not in OF_THE_CLASSIC_PROTOCOL}
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, **usual, **dotted(settings)}, logger=None)
    try:
        yield consumer
    finally:
        consumer.close()


def close_kafka_python(client: Any) -> None:
    """Close a client of kafka-python, and its sockets: the client forgets that of a connection under way."""
    net = (client._sender if isinstance(client, kafka.KafkaProducer) else client)._client._net
    client.close()
    for one in list(_sockets.pop(net, ())):
        one.close()


@contextmanager
def kafka_python_consumer(bootstrap: str, *topics: str, **settings: Any) -> Iterator[kafka.KafkaConsumer]:
    consumer = kafka.KafkaConsumer(*topics, bootstrap_servers=bootstrap, **{**KAFKA_PYTHON_CONSUMER, **settings})
    try:
        yield consumer
    finally:
        close_kafka_python(consumer)


@contextmanager
def kafka_python_producer(bootstrap: str, **settings: Any) -> Iterator[kafka.KafkaProducer]:
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, **settings)
    try:
        yield producer
    finally:
        close_kafka_python(producer)


@contextmanager
def kafka_python_admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        yield admin
    finally:
        close_kafka_python(admin)


def kafka_offsets(offsets: Mapping[Any, int]) -> dict[Any, Any]:
    """Offsets by partition, as kafka-python's `commit` wants them."""
    return {place: OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items()}


def confluent_admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})


def commit_beginning(bootstrap: str, topic: str, group: str, partitions: int) -> None:
    """Commit offset 0 of each partition, before the group has members. Then librdkafka reads nothing twice.

    Without a commit librdkafka 2.16 asks for the first offset. A rebalance during this request makes librdkafka ask
    again, and its timer of the first request still runs. When that timer fires, librdkafka reads from the beginning
    again, also on Apache Kafka.
    """
    assert not refused_commits(bootstrap, topic, group, partitions)


def refused_commits(bootstrap: str, topic: str, group: str, partitions: int) -> list[confluent_kafka.KafkaError]:
    """Commit offset 0 of each partition. Returns the errors of partitions, as while the coordinator moves."""
    offsets = [confluent_kafka.TopicPartition(topic, partition, 0) for partition in range(partitions)]
    admin = confluent_admin(bootstrap)  # without a name librdkafka's client would end before it has asked
    wanted = confluent_kafka.ConsumerGroupTopicPartitions(group, offsets)
    committed = admin.alter_consumer_group_offsets([wanted])[group].result(30)
    return [one.error for one in committed.topic_partitions if one.error]


def confluent_produce(
    bootstrap: str,
    topic: str,
    records: list[tuple[bytes | None, bytes | None]],
    *,
    partition: int = -1,
    **settings: Any,
) -> list[confluent_kafka.Message]:
    """Produce keys and values; return the server's answer for each."""
    delivered: list[confluent_kafka.Message] = []

    def note(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        assert error is None, error
        delivered.append(message)

    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "log_level": 3, **dotted(settings)})
    for key, value in records:
        producer.produce(topic, value, key, partition, on_delivery=note)
    assert producer.flush(30) == 0
    return delivered


def confluent_read(consumer: confluent_kafka.Consumer, count: int) -> list[confluent_kafka.Message]:
    """The next `count` records."""
    messages: list[confluent_kafka.Message] = []
    while len(messages) < count:
        batch = consumer.consume(count - len(messages), timeout=60)
        assert batch, f"only {len(messages)} of {count} records came"
        for message in batch:
            assert message.error() is None, message.error()
            messages.append(message)
    return messages


def kafka_python_read(consumer: kafka.KafkaConsumer, count: int) -> list[Any]:
    """The next `count` records."""
    records: list[Any] = []
    while len(records) < count:
        batches = consumer.poll(timeout_ms=20000, max_records=count - len(records))
        assert batches, f"only {len(records)} of {count} records came"
        for batch in batches.values():
            records.extend(batch)
    return records


def is_next_generation(settings: Mapping[str, Any]) -> bool:
    """Whether the consumer protocol (KIP-848) is chosen."""
    return settings.get("group_protocol") == "consumer"


def dotted(settings: Mapping[str, Any]) -> dict[str, Any]:
    """librdkafka's property names (its callbacks' names keep their "_")."""
    return {name if callable(value) else name.replace("_", "."): value for name, value in settings.items()}


class ThreadMember:
    """A group member in a thread of its own, with one of the two clients. It commits what it processed before it gives
    partitions up.

    `assignment`: its present partitions as (topic, partition). `callbacks`: the calls of its listener in order, each as
    (kind, partitions). A kind is "assigned", "revoked" or "lost".
    """

    def __init__(self, name: str, ledger: Ledger, work: Callable[[ThreadMember], None], *, incremental: bool) -> None:
        """`incremental`: an assignment adds to what the member has (cooperative strategies)."""
        self.name, self.ledger = name, ledger
        self.assignment: set[tuple[str, int]] = set()
        self.callbacks: list[tuple[str, set[tuple[str, int]]]] = []
        self._incremental = incremental
        self.stopping = threading.Event()
        self.failure: BaseException | None = None
        self._work = work
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)  # a client may never end its close()

    def _run(self) -> None:
        try:
            self._work(self)
        except BaseException as failure:  # noqa: BLE001  # handed to the test's own thread by stop()
            self.failure = failure

    def hear(self, what: str, partitions: Iterable[Any]) -> None:
        """Note a call of the listener."""
        named = {(partition.topic, partition.partition) for partition in partitions}
        self.callbacks.append((what, named))
        if what == "assigned":
            self.assignment = named | (self.assignment if self._incremental else set())
        else:
            self.assignment = self.assignment - named

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Let it commit and leave."""
        self.stopping.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), f"{self.name} did not end"
        if self.failure is not None:
            raise self.failure


@contextmanager
def thread_members(*members: ThreadMember) -> Iterator[None]:
    for member in members:
        member.start()
    try:
        yield
    finally:
        _stop(members)


@asynccontextmanager
async def threads_beside_the_loop(*members: ThreadMember) -> AsyncIterator[None]:
    """Members of a group that also has members in the event loop: these go on while the threads stop."""
    for member in members:
        member.start()
    try:
        yield
    finally:
        await asyncio.to_thread(_stop, members)


def _stop(members: Iterable[ThreadMember]) -> None:
    for member in members:
        member.stopping.set()
    for member in members:
        member.stop()


def confluent_member(
    name: str, ledger: Ledger, bootstrap: str, topic: str, group: str, **settings: Any
) -> ThreadMember:
    """A member whose client is librdkafka."""

    def work(member: ThreadMember) -> None:
        processed: dict[tuple[str, int], int] = {}

        def commit(consumer: confluent_kafka.Consumer) -> None:
            if processed:
                offsets = [confluent_kafka.TopicPartition(t, p, offset) for (t, p), offset in processed.items()]
                for answer in consumer.commit(offsets=offsets, asynchronous=False):
                    assert answer.error is None, answer.error
                processed.clear()

        def assigned(_: confluent_kafka.Consumer, partitions: list[confluent_kafka.TopicPartition]) -> None:
            member.hear("assigned", partitions)

        def revoked(consumer: confluent_kafka.Consumer, partitions: list[confluent_kafka.TopicPartition]) -> None:
            member.hear("revoked", partitions)
            commit(consumer)

        def lost(_: confluent_kafka.Consumer, partitions: list[confluent_kafka.TopicPartition]) -> None:
            member.hear("lost", partitions)
            processed.clear()

        with confluent_consumer(bootstrap, client_id=name, group_id=group, **settings) as consumer:
            consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked, on_lost=lost)
            while not member.stopping.is_set():
                message = consumer.poll(0.05)
                if message is None:
                    continue
                error = message.error()
                if error is not None and error.code() == confluent_kafka.KafkaError.REBALANCE_IN_PROGRESS:
                    # a join was parked when its group became a consumer group: the client joins again by itself
                    continue
                assert error is None, error
                ledger.add(name, message.topic(), message.partition(), message.offset())
                processed[message.topic(), message.partition()] = message.offset() + 1
            commit(consumer)

    incremental = settings.get("partition_assignment_strategy") == COOPERATIVE or is_next_generation(settings)
    return ThreadMember(name, ledger, work, incremental=incremental)


def kafka_python_member(
    name: str, ledger: Ledger, bootstrap: str, topic: str, group: str, **settings: Any
) -> ThreadMember:
    """A member whose client is kafka-python.

    It commits after each poll. In a rebalance, poll may return with partitions given up before the client's own commit
    is done.
    """

    def work(member: ThreadMember) -> None:
        class Listener(kafka.ConsumerRebalanceListener):
            def on_partitions_revoked(self, revoked: Any) -> None:
                member.hear("revoked", revoked)

            def on_partitions_assigned(self, assigned: Any) -> None:
                member.hear("assigned", assigned)

            def on_partitions_lost(self, lost: Any) -> None:
                member.hear("lost", lost)

        with kafka_python_consumer(bootstrap, client_id=name, group_id=group, **settings) as consumer:
            # A leader that is faster than its own metadata assigns nothing, or joins again at once; kafka-python 3.0.12
            # then sometimes never heartbeats again. So the metadata come first.
            consumer.subscribe([topic], listener=Listener())
            assert topic in consumer.topics()
            while not member.stopping.is_set():
                came = consumer.poll(timeout_ms=50)
                for records in came.values():
                    for record in records:
                        ledger.add(name, record.topic, record.partition, record.offset)
                if came:
                    consumer.commit()

    incremental = settings.get("partition_assignment_strategy") == (KAFKA_PYTHON_COOPERATIVE,)
    return ThreadMember(name, ledger, work, incremental=incremental)


MEMBERS = {"confluent-kafka": confluent_member, "kafka-python": kafka_python_member}
"""How a member is made, by the name of the client."""
