"""Transactions with each client: committed records are seen, aborted ones are not, and a zombie gets an error."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import confluent_kafka
import pytest
from aiokafka import TopicPartition
from aiokafka.errors import ProducerFenced

from tests.e2e.aio import consuming, producing, read
from tests.e2e.sync_clients import confluent_consumer, confluent_read, kafka, kafka_python_consumer, kafka_python_read
from tests.support.servers import ServerProcess

PATIENCE_S = 120.0
NewTopic = Callable[[int], str]
NewName = Callable[[str], str]
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
REACHED, ABANDONED = 7, 9
"""An offset that is committed in a transaction, and one in a transaction that is aborted."""


class Transactional(Protocol):
    """A producer of one transaction at a time, with one of the two clients without an event loop."""

    fenced: tuple[type[Exception], ...]
    """The errors that it raises when a newer producer has its transactional id."""

    def init(self) -> None: ...
    def begin(self) -> None: ...
    def send(self, topic: str, value: bytes) -> None: ...
    def flush(self) -> None: ...
    def offsets(self, topic: str, group: str, offset: int) -> None: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...


class Confluent:
    fenced = (confluent_kafka.KafkaException,)

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self.bootstrap = bootstrap
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 0, "log_level": 0}
        )

    def init(self) -> None:
        self._producer.init_transactions(PATIENCE_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: bytes) -> None:
        self._producer.produce(topic, value)

    def flush(self) -> None:
        assert self._producer.flush(PATIENCE_S) == 0

    def offsets(self, topic: str, group: str, offset: int) -> None:
        with confluent_consumer(self.bootstrap, group_id=group) as consumer:
            where = [confluent_kafka.TopicPartition(topic, 0, offset)]
            self._producer.send_offsets_to_transaction(where, consumer.consumer_group_metadata(), PATIENCE_S)

    def commit(self) -> None:
        self._producer.commit_transaction(PATIENCE_S)

    def abort(self) -> None:
        self._producer.abort_transaction(PATIENCE_S)

    def close(self) -> None:
        pass


class KafkaPython:
    # a plain error when its thread has got the error first: then there is "no transaction" any more
    fenced = (kafka.errors.KafkaError,)

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=transactional_id, retry_backoff_ms=20
        )
        self._sent: list[Any] = []

    def init(self) -> None:
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: bytes) -> None:
        self._sent.append(self._producer.send(topic, value))

    def flush(self) -> None:
        for one in self._sent:
            one.get(PATIENCE_S)

    def offsets(self, topic: str, group: str, offset: int) -> None:
        where = {kafka.TopicPartition(topic, 0): kafka.OffsetAndMetadata(offset, "", -1)}
        self._producer.send_offsets_to_transaction(where, group)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close()


CLIENTS = {"confluent-kafka": Confluent, "kafka-python": KafkaPython}


@contextmanager
def transactional(client: str, bootstrap: str, transactional_id: str) -> Iterator[Transactional]:
    """A producer that is ready for its first transaction."""
    producer = CLIENTS[client](bootstrap, transactional_id)
    try:
        producer.init()
        yield producer
    finally:
        producer.close()


async def seen(bootstrap: str, topic: str, isolation: str) -> list[bytes]:
    """All records of a partition that a consumer gets, up to where its isolation level lets it read."""
    place = TopicPartition(topic, 0)
    async with consuming(bootstrap, isolation_level=isolation) as consumer:
        consumer.assign([place])
        values: list[bytes] = []
        (end,) = (await consumer.end_offsets([place])).values()
        while await consumer.position(place) < end:
            for records in (await consumer.getmany(timeout_ms=100)).values():
                values += [one.value for one in records]
        return values


def seen_by(client: str, bootstrap: str, topic: str, group: str, count: int) -> list[bytes]:
    """The first committed values that another client's consumer gets."""
    if client == "confluent-kafka":
        with confluent_consumer(bootstrap, group_id=f"{group}-reads", isolation_level=COMMITTED) as consumer:
            consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
            return [one.value() for one in confluent_read(consumer, count)]
    with kafka_python_consumer(bootstrap, isolation_level=COMMITTED) as reader:
        reader.assign([kafka.TopicPartition(topic, 0)])
        reader.seek(kafka.TopicPartition(topic, 0), 0)
        return [one.value for one in kafka_python_read(reader, count)]


async def committed(bootstrap: str, topic: str, group: str) -> int | None:
    async with consuming(bootstrap, group_id=group) as consumer:
        offset: int | None = await consumer.committed(TopicPartition(topic, 0))
        return offset


def run_four(producer: Transactional, topic: str, group: str) -> None:
    """Perform four transactions: one committed, one aborted, one with an offset, one whose offset is aborted."""
    for number, is_kept in enumerate((True, False, True, False)):
        producer.begin()
        producer.send(topic, b"a%d" % number)
        producer.send(topic, b"b%d" % number)
        if number > 1:
            producer.offsets(topic, group, REACHED if is_kept else ABANDONED)
        if is_kept:
            producer.commit()
        else:
            producer.flush()
            producer.abort()


def go_on(zombie: Transactional, topic: str, group: str) -> None:
    """Continue as if nothing had happened."""
    zombie.send(topic, b"late")
    zombie.offsets(topic, group, ABANDONED)
    zombie.commit()


async def run_four_async(producer: Any, topic: str, group: str) -> None:
    """Do the same as `run_four` with aiokafka."""
    for number, is_kept in enumerate((True, False, True, False)):
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"a%d" % number)
        await producer.send_and_wait(topic, b"b%d" % number)
        if number > 1:
            await producer.send_offsets_to_transaction(
                {TopicPartition(topic, 0): REACHED if is_kept else ABANDONED}, group
            )
        await (producer.commit_transaction() if is_kept else producer.abort_transaction())


@pytest.mark.parametrize("client", ["aiokafka", *CLIENTS])
async def test_committed_transactions_are_read_and_aborted_ones_are_not(
    server: ServerProcess, new_topic: NewTopic, new_name: NewName, group: str, client: str
) -> None:
    topic, transactional_id, bootstrap = new_topic(1), new_name("transactional"), server.bootstrap
    if client == "aiokafka":
        async with producing(bootstrap, transactional_id=transactional_id) as producer:
            await run_four_async(producer, topic, group)
    else:

        def work() -> None:
            with transactional(client, bootstrap, transactional_id) as producer:
                run_four(producer, topic, group)

        await asyncio.to_thread(work)
    assert await seen(bootstrap, topic, UNCOMMITTED) == [b"%s%d" % (x, n) for n in range(4) for x in (b"a", b"b")]
    kept = [b"a0", b"b0", b"a2", b"b2"]
    assert await seen(bootstrap, topic, COMMITTED) == kept
    if client in CLIENTS:
        assert await asyncio.to_thread(seen_by, client, bootstrap, topic, group, 4) == kept
    assert await committed(bootstrap, topic, group) == REACHED


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_zombie_is_fenced_and_its_records_are_never_read(
    server: ServerProcess, new_topic: NewTopic, new_name: NewName, group: str, client: str
) -> None:
    topic, transactional_id, bootstrap = new_topic(1), new_name("transactional"), server.bootstrap

    def work() -> None:
        with transactional(client, bootstrap, transactional_id) as zombie:
            zombie.begin()
            zombie.send(topic, b"of the zombie")
            zombie.flush()
            with transactional(client, bootstrap, transactional_id) as heir:
                with pytest.raises(zombie.fenced) as error:
                    go_on(zombie, topic, group)
                assert client != "confluent-kafka" or error.value.args[0].fatal()
                heir.begin()
                heir.send(topic, b"of the heir")
                heir.offsets(topic, group, REACHED)
                heir.commit()

    await asyncio.to_thread(work)
    assert await seen(bootstrap, topic, COMMITTED) == [b"of the heir"]
    assert await committed(bootstrap, topic, group) == REACHED


async def test_an_aiokafka_zombie_is_fenced(
    server: ServerProcess, new_topic: NewTopic, new_name: NewName, group: str
) -> None:
    topic, transactional_id, bootstrap = new_topic(1), new_name("transactional"), server.bootstrap
    place = TopicPartition(topic, 0)
    async with producing(bootstrap, transactional_id=transactional_id) as zombie:
        await zombie.begin_transaction()
        await zombie.send_and_wait(topic, b"of the zombie")
        async with producing(bootstrap, transactional_id=transactional_id) as heir:
            with pytest.raises(ProducerFenced):
                await zombie.send_offsets_to_transaction({place: ABANDONED}, group)
            async with heir.transaction():
                await heir.send(topic, b"of the heir")
                await heir.send_offsets_to_transaction({place: REACHED}, group)
    del zombie, heir
    # Python reports a future that aiokafka abandons when it collects the future: that must not be in the middle of a
    # test
    gc.collect()
    assert await seen(bootstrap, topic, COMMITTED) == [b"of the heir"]
    assert await committed(bootstrap, topic, group) == REACHED


async def test_read_committed_waits_for_the_end_of_an_open_transaction(
    server: ServerProcess, new_topic: NewTopic, new_name: NewName
) -> None:
    topic, bootstrap = new_topic(1), server.bootstrap
    async with (
        producing(bootstrap, transactional_id=new_name("transactional")) as producer,
        producing(bootstrap) as plain,
        consuming(bootstrap, topic, isolation_level=COMMITTED) as consumer,
    ):
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"open")
        await plain.send_and_wait(topic, b"behind it")
        assert await seen(bootstrap, topic, COMMITTED) == []
        assert await seen(bootstrap, topic, UNCOMMITTED) == [b"open", b"behind it"]
        await producer.commit_transaction()
        assert [one.value for one in await read(consumer, 2)] == [b"open", b"behind it"]
