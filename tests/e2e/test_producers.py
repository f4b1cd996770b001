"""Idempotent producers and readers of committed records."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Iterator

import pytest
from aiokafka import TopicPartition
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from tests.e2e.aio import consuming, producing, read, send_numbered
from tests.e2e.sync_clients import (
    confluent_consumer,
    confluent_produce,
    confluent_read,
)
from tests.support import wire
from tests.support.servers import ServerProcess

NewTopic = Callable[[int], str]
OUT_OF_ORDER_SEQUENCE_NUMBER = 45
CORRUPT_MESSAGE = 2
INVALID_PRODUCER_EPOCH = 47


@pytest.fixture
def connection(server: ServerProcess) -> Iterator[socket.socket]:
    with socket.create_connection(server.address, timeout=30) as opened:
        yield opened


def batch(producer_id: int, epoch: int, sequence: int, values: list[bytes]) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        batch_size=1 << 20,
    )
    for offset, value in enumerate(values):
        builder.append(offset, timestamp=1000, key=None, value=value, headers=[])
    return bytes(builder.build())


def produce(connection: socket.socket, topic: str, records: bytes) -> tuple[int, int]:
    """The error code and the base offset."""
    answer = wire.call(connection, wire.produce(topic, 0, records))
    assert answer.number("i") == 1
    assert answer.string() == topic
    assert answer.number("i") == 1
    assert answer.number("i") == 0
    return answer.number("h"), answer.number("q")


def new_producer_id(connection: socket.socket) -> tuple[int, int]:
    answer = wire.call(connection, wire.init_producer_id())
    assert wire.read_error(answer) == 0
    return answer.number("q"), answer.number("h")


async def test_idempotent_producers_of_two_clients_store_each_record_once(
    server: ServerProcess, new_topic: NewTopic
) -> None:
    topic = new_topic(3)
    await send_numbered(server.bootstrap, topic, 3, 300, enable_idempotence=True, compression_type="gzip")
    records = [(b"%d" % number, b"%d" % number) for number in range(300, 600)]
    await asyncio.to_thread(confluent_produce, server.bootstrap, topic, records, enable_idempotence=True)
    async with consuming(server.bootstrap, topic) as consumer:
        assert sorted(int(record.value) for record in await read(consumer, 600)) == list(range(600))


def test_a_repeated_batch_is_stored_once(connection: socket.socket, new_topic: NewTopic) -> None:
    topic = new_topic(1)
    producer_id, epoch = new_producer_id(connection)
    batches = [batch(producer_id, epoch, sequence, [b"a", b"b"]) for sequence in range(0, 12, 2)]
    assert [produce(connection, topic, records) for records in batches] == [(0, offset) for offset in range(0, 12, 2)]
    # the last five batches are remembered
    assert produce(connection, topic, batches[5]) == (0, 10)
    assert produce(connection, topic, batches[1]) == (0, 2)
    assert produce(connection, topic, batch(producer_id, epoch, 12, [b"c"])) == (0, 12)


def test_a_gap_in_the_sequence_is_refused(connection: socket.socket, new_topic: NewTopic) -> None:
    topic = new_topic(1)
    producer_id, epoch = new_producer_id(connection)
    assert produce(connection, topic, batch(producer_id, epoch, 0, [b"a"])) == (0, 0)
    assert produce(connection, topic, batch(producer_id, epoch, 2, [b"c"]))[0] == OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(connection, topic, batch(producer_id, epoch, 1, [b"b"])) == (0, 1)


def test_an_older_epoch_is_refused_and_a_newer_one_starts_at_zero(
    connection: socket.socket, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    producer_id, epoch = new_producer_id(connection)
    assert produce(connection, topic, batch(producer_id, epoch + 1, 0, [b"a"])) == (0, 0)
    assert produce(connection, topic, batch(producer_id, epoch, 0, [b"b"]))[0] == INVALID_PRODUCER_EPOCH
    assert produce(connection, topic, batch(producer_id, epoch + 2, 1, [b"b"]))[0] == OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(connection, topic, batch(producer_id, epoch + 2, 0, [b"b"])) == (0, 1)


def test_producer_ids_are_unique(connection: socket.socket) -> None:
    ids = [new_producer_id(connection) for _ in range(20)]
    assert len(set(ids)) == 20


def test_a_damaged_batch_is_refused(connection: socket.socket, new_topic: NewTopic) -> None:
    topic = new_topic(1)
    whole = batch(-1, -1, -1, [b"hello"])
    damaged = whole[:-1] + bytes([whole[-1] ^ 1])
    assert produce(connection, topic, damaged)[0] == CORRUPT_MESSAGE
    assert produce(connection, topic, whole) == (0, 0)


@pytest.mark.parametrize(
    "records", [b"\xff" * 100, bytes(100), bytes(16) + b"\x02" + bytes(10)], ids=["ones", "zeros", "short"]
)
def test_malformed_records_are_refused(connection: socket.socket, new_topic: NewTopic, records: bytes) -> None:
    topic = new_topic(1)
    assert produce(connection, topic, records)[0] == CORRUPT_MESSAGE
    assert produce(connection, topic, batch(-1, -1, -1, [b"hello"])) == (0, 0)


def test_a_batch_for_an_unknown_topic_is_refused(connection: socket.socket, new_name: Callable[[str], str]) -> None:
    assert produce(connection, new_name("absent"), batch(-1, -1, -1, [b"hello"]))[0] == 3


def test_a_batch_with_acks_zero_has_no_answer(connection: socket.socket, new_topic: NewTopic) -> None:
    topic = new_topic(1)
    connection.sendall(wire.frame(wire.produce(topic, 0, batch(-1, -1, -1, [b"hello"]), acks=0), 7))
    connection.sendall(wire.frame(wire.fetch(topic, 0, 0, max_wait_ms=5000), 8))
    (size,) = struct.unpack(">i", wire.receive_exactly(connection, 4))
    (correlation_id,) = struct.unpack_from(">i", wire.receive_exactly(connection, size))
    assert correlation_id == 8


async def test_read_committed_consumers_read_records_without_transactions(
    server: ServerProcess, new_topic: NewTopic
) -> None:
    """Records outside transactions count as committed at once."""
    topic = new_topic(1)
    await send_numbered(server.bootstrap, topic, 1, 30)
    async with consuming(server.bootstrap, topic, isolation_level="read_committed") as consumer:
        assert [int(record.value) for record in await read(consumer, 30)] == list(range(30))
        assert consumer.last_stable_offset(TopicPartition(topic, 0)) == 30

    def with_confluent() -> list[int]:
        with confluent_consumer(server.bootstrap, group_id="g-" + topic, isolation_level="read_committed") as reader:
            reader.subscribe([topic])
            return [int(message.value()) for message in confluent_read(reader, 30)]

    assert await asyncio.to_thread(with_confluent) == list(range(30))


async def test_an_aborted_transaction_is_not_read(server: ServerProcess, new_topic: NewTopic) -> None:
    topic = new_topic(1)
    async with producing(server.bootstrap, transactional_id="t-" + topic, request_timeout_ms=3000) as producer:
        async with producer.transaction():
            await producer.send_and_wait(topic, b"committed", partition=0)
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"aborted", partition=0)
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send_and_wait(topic, b"committed too", partition=0)
    async with consuming(server.bootstrap, topic, isolation_level="read_committed") as consumer:
        assert [record.value for record in await read(consumer, 2)] == [b"committed", b"committed too"]
