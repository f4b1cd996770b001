"""A running server with some groups in its log, for the tests that read a live cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import AcknowledgeType, Consumer, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

TOPIC: Final = "orders"
PARTITIONS: Final = 4
ANSWER_TIMEOUT_S: Final = 30.0
LATE_WORKER: Final = "Python worker failed to connect back"
"""Spark's error has this text if a stream's Python process needed more than 10 s to start.

That happens on a busy machine. Spark has no setting for these 10 s, and does not use its daemon for streams.
"""


class Live:
    """A server for tests. `client` has the options of librdkafka; `data_dir` is the place of its log."""

    def __init__(self, client: Mapping[str, str], data_dir: str = "") -> None:
        self.client = dict(client)
        self.data_dir = data_dir
        self.aborted = 0
        """The number of commits in aborted transactions."""
        self.markers = 0
        """The number of ends of transactions in the offsets topic."""
        self._topics = 0
        self._quiet = {**self.client, "log_level": "0"}
        self._admin = AdminClient(self._quiet)

    @property
    def bootstrap(self) -> str:
        """host:port"""
        return self.client["bootstrap.servers"]

    def fill(self, *, transactions: bool = False) -> None:
        """Commit for some groups, let a member join, and run transactions if the server has them."""
        self.create(TOPIC, PARTITIONS)
        for number in range(8):
            self.commit(f"group-{number}", 10)
        consumer = self._consumer("with-members", **{"auto.offset.reset": "earliest"})
        consumer.subscribe([TOPIC])
        while not consumer.assignment():
            consumer.poll(0.2)
        if transactions:
            self.commit_in_transactions(consumer)
        consumer.close()

    def allow(self, user: str, operation: AclOperation, *topics: str) -> None:
        """Let a user do something with topics."""
        entries = [
            AclBinding(
                ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{user}", "*", operation,
                AclPermissionType.ALLOW,
            )
            for topic in topics
        ]  # fmt: skip
        for made in self._admin.create_acls(entries).values():
            made.result(ANSWER_TIMEOUT_S)

    def topics(self) -> set[str]:
        """The names of all topics."""
        return set(self._admin.list_topics(timeout=ANSWER_TIMEOUT_S).topics)

    def create(self, topic: str, partitions: int = 1) -> None:
        """Create a topic."""
        asked = self._admin.create_topics([NewTopic(topic, partitions, 1)])
        asked[topic].result(ANSWER_TIMEOUT_S)

    def new_topic(self, records: int) -> str:
        """Create a topic of one partition with some records."""
        self._topics += 1
        topic = f"topic-{self._topics}"
        self.create(topic)
        self.produce(topic, records)
        return topic

    def produce(self, topic: str, records: int) -> None:
        """Produce more records to its partition 0."""
        producer = Producer({**self._quiet, "linger.ms": "5"})
        for number in range(records):
            producer.produce(topic, str(number).encode(), partition=0)
        assert producer.flush(ANSWER_TIMEOUT_S) == 0

    def share(self, group: str) -> None:
        """Let a share group read a new topic: a record is rejected, another one is given back once."""
        topic = f"queue-of-{group}"
        self.create(topic)
        settings = {**self._quiet, "group.id": group, "share.acknowledgement.mode": "explicit"}
        given_back: set[int] = set()
        with ShareConsumer(settings) as consumer:
            consumer.subscribe([topic])
            while not given_back or self._acknowledge(consumer, given_back):
                # the group begins at the end of the topic, some time after the member has joined
                self.produce(topic, 1)
                self._acknowledge(consumer, given_back)

    @staticmethod
    def _acknowledge(consumer: ShareConsumer, given_back: set[int]) -> bool:
        """Acknowledge what comes soon: the first record is given back, and rejected when it comes again."""
        is_open = True
        for record in consumer.poll(0.3):
            offset = record.offset()
            kind = AcknowledgeType.ACCEPT
            if not given_back:
                kind = AcknowledgeType.RELEASE
                given_back.add(offset)
            elif offset in given_back:
                kind, is_open = AcknowledgeType.REJECT, False
            consumer.acknowledge(record, kind)
        consumer.commit_sync()
        return is_open

    def delete_records(self, topic: str, before: int) -> None:
        """Delete all records before an offset of its partition 0."""
        place = TopicPartition(topic, 0, before)
        self._admin.delete_records([place])[place].result(ANSWER_TIMEOUT_S)

    def _consumer(self, group: str, **options: Any) -> Consumer:
        return Consumer({**self._quiet, "group.id": group, "enable.auto.commit": "false", **options})

    def commit(self, group: str, times: int, metadata: str = "") -> None:
        """Commit offsets of every partition of TOPIC."""
        for offset in range(times):
            self.commit_to(
                group, *(TopicPartition(TOPIC, partition, offset, metadata) for partition in range(PARTITIONS))
            )

    def commit_to(self, group: str, *places: TopicPartition) -> None:
        """Commit once for a group without members."""
        consumer = self._consumer(group)
        consumer.commit(offsets=list(places), asynchronous=False)
        consumer.close()

    def commit_in_transactions(self, consumer: Consumer) -> None:
        """Run one committed and one aborted transaction, each with a commit for every partition."""
        producer = Producer({**self._quiet, "transactional.id": "x"})
        producer.init_transactions(ANSWER_TIMEOUT_S)
        for offset, end in ((100, producer.commit_transaction), (200, producer.abort_transaction)):
            producer.begin_transaction()
            places = [TopicPartition(TOPIC, partition, offset) for partition in range(PARTITIONS)]
            producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), ANSWER_TIMEOUT_S)
            end(ANSWER_TIMEOUT_S)
            self.markers += 1
        self.aborted += PARTITIONS
