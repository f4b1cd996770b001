"""Every client reads the records that any client produces, with every codec."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import MessageSizeTooLargeError
from confluent_kafka import TopicPartition as ConfluentPartition

from tests.e2e.aio import consuming, producing, read
from tests.e2e.sync_clients import (
    confluent_consumer,
    confluent_produce,
    confluent_read,
    kafka_python_consumer,
    kafka_python_producer,
    kafka_python_read,
)
from tests.support.servers import ServerProcess

NewTopic = Callable[[int], str]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
VALUES = [b"%d " % number * 40 for number in range(60)]


@pytest.mark.parametrize("codec", CODECS)
async def test_records_of_aiokafka_are_read_by_all_clients(
    server: ServerProcess, new_topic: NewTopic, codec: str
) -> None:
    topic = new_topic(1)
    settings = {} if codec == "none" else {"compression_type": codec}
    async with producing(server.bootstrap, linger_ms=20, **settings) as producer:
        sent = [await producer.send(topic, value, key=b"k", partition=0) for value in VALUES]
        assert [metadata.offset for metadata in await asyncio.gather(*sent)] == list(range(60))
    await read_with_all(server, topic, codec)


@pytest.mark.parametrize("codec", CODECS)
async def test_records_of_librdkafka_are_read_by_all_clients(
    server: ServerProcess, new_topic: NewTopic, codec: str
) -> None:
    topic = new_topic(1)
    delivered = await asyncio.to_thread(
        confluent_produce, server.bootstrap, topic, [(b"k", value) for value in VALUES], compression_type=codec
    )
    assert [message.offset() for message in delivered] == list(range(60))
    await read_with_all(server, topic, codec)


@pytest.mark.parametrize("codec", [None, "gzip"])
async def test_records_of_kafka_python_are_read_by_all_clients(
    server: ServerProcess, new_topic: NewTopic, codec: str | None
) -> None:
    """The other codecs need packages that kafka-python does not install."""
    topic = new_topic(1)

    def produce() -> list[int]:
        with kafka_python_producer(server.bootstrap, compression_type=codec, linger_ms=20) as producer:
            sent = [producer.send(topic, value, key=b"k", partition=0) for value in VALUES]
            producer.flush()
            return [future.get(10).offset for future in sent]

    assert await asyncio.to_thread(produce) == list(range(60))
    await read_with_all(server, topic, codec or "none")


async def read_with_all(server: ServerProcess, topic: str, codec: str) -> None:
    async with consuming(server.bootstrap, topic) as consumer:
        records = await read(consumer, 60)
        assert [(record.offset, record.key, record.value) for record in records] == expected()
    assert await asyncio.to_thread(read_with_confluent, server, topic) == expected()
    if codec in ("none", "gzip"):  # what kafka-python reads without other packages
        assert await asyncio.to_thread(read_with_kafka_python, server, topic) == expected()


def expected() -> list[tuple[int, bytes, bytes]]:
    return [(offset, b"k", value) for offset, value in enumerate(VALUES)]


def read_with_confluent(server: ServerProcess, topic: str) -> list[tuple[int, bytes, bytes]]:
    with confluent_consumer(server.bootstrap, group_id="unused") as consumer:
        consumer.assign([ConfluentPartition(topic, 0, 0)])
        return [(message.offset(), message.key(), message.value()) for message in confluent_read(consumer, 60)]


def read_with_kafka_python(server: ServerProcess, topic: str) -> list[tuple[int, bytes, bytes]]:
    with kafka_python_consumer(server.bootstrap, topic) as consumer:
        return [(record.offset, record.key, record.value) for record in kafka_python_read(consumer, 60)]


async def test_headers_timestamps_tombstones_and_empty_values_are_read_as_written(
    server: ServerProcess, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    async with producing(server.bootstrap) as producer:
        await producer.send_and_wait(topic, None, key=b"gone")
        await producer.send_and_wait(
            topic, b"", key=None, headers=[("h", b"1"), ("h", b"\x00\xff")], timestamp_ms=1234567
        )
    async with consuming(server.bootstrap, topic) as consumer:
        gone, empty = await read(consumer, 2)
    assert (gone.key, gone.value, gone.headers) == (b"gone", None, ())
    assert (empty.key, empty.value, empty.timestamp) == (None, b"", 1234567)
    assert empty.headers == (("h", b"1"), ("h", b"\x00\xff"))


async def test_every_client_puts_a_key_into_the_same_partition(server: ServerProcess, new_topic: NewTopic) -> None:
    topic, keys = new_topic(7), [b"key-%d" % number for number in range(40)]
    found: dict[str, list[int]] = {}
    async with producing(server.bootstrap) as producer:
        sent = await asyncio.gather(*[producer.send_and_wait(topic, b"v", key=key) for key in keys])
        found["aiokafka"] = [metadata.partition for metadata in sent]

    def others() -> None:
        with kafka_python_producer(server.bootstrap) as producer:
            futures = [producer.send(topic, b"v", key=key) for key in keys]
            producer.flush()
            found["kafka-python"] = [future.get(10).partition for future in futures]
        delivered = confluent_produce(
            server.bootstrap, topic, [(key, b"v") for key in keys], partitioner="murmur2_random"
        )
        by_key = {message.key(): message.partition() for message in delivered}
        found["confluent-kafka"] = [by_key[key] for key in keys]

    await asyncio.to_thread(others)
    assert found["aiokafka"] == found["kafka-python"] == found["confluent-kafka"]
    assert len(set(found["aiokafka"])) == 7


@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_records_with_each_kind_of_acks_are_stored(
    server: ServerProcess, new_topic: NewTopic, acks: int | str
) -> None:
    topic = new_topic(1)
    async with producing(server.bootstrap, acks=acks) as producer:
        for number in range(20):
            await producer.send_and_wait(topic, b"%d" % number)
        async with consuming(server.bootstrap, topic) as consumer:
            assert [record.value for record in await read(consumer, 20)] == [b"%d" % number for number in range(20)]


async def test_a_record_of_a_megabyte_and_large_batches_are_stored(server: ServerProcess, new_topic: NewTopic) -> None:
    topic, large = new_topic(1), bytes(range(256)) * 3900
    async with producing(server.bootstrap, max_batch_size=1 << 20, linger_ms=10) as producer:
        await producer.send_and_wait(topic, large)
        await asyncio.gather(*[await producer.send(topic, b"%d" % number) for number in range(5000)])
    async with consuming(server.bootstrap, topic, max_partition_fetch_bytes=4096) as consumer:
        records = await read(consumer, 5001)
    assert records[0].value == large
    assert [record.value for record in records[1:]] == [b"%d" % number for number in range(5000)]


async def test_a_record_that_is_too_large_is_refused_and_the_connection_goes_on(
    server: ServerProcess, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    async with producing(server.bootstrap, max_request_size=4 << 20) as producer:
        with pytest.raises(MessageSizeTooLargeError):
            await producer.send_and_wait(topic, bytes(3 << 20))
        assert (await producer.send_and_wait(topic, b"small")).offset == 0


async def test_a_topic_is_created_by_its_first_record(server: ServerProcess, new_name: Callable[[str], str]) -> None:
    topic = new_name("auto")
    async with producing(server.bootstrap) as producer:
        assert (await producer.send_and_wait(topic, b"first")).offset == 0
    async with consuming(server.bootstrap, topic) as consumer:
        assert [record.value for record in await read(consumer, 1)] == [b"first"]


async def test_no_topic_is_created_when_that_is_switched_off(start_server: Callable[..., ServerProcess]) -> None:
    server = start_server({"auto.create.topics.enable": "false"}, in_memory=True)

    def ask() -> list[str]:
        with kafka_python_consumer(server.bootstrap) as consumer:
            consumer.partitions_for_topic("absent")
            return [topic for topic in consumer.topics() if not topic.startswith("__")]

    assert await asyncio.to_thread(ask) == []


async def test_order_and_positions_are_kept_over_many_fetches(server: ServerProcess, new_topic: NewTopic) -> None:
    """Small answers and small batches: offsets come in order, and none is missing."""
    topic = new_topic(3)
    async with producing(server.bootstrap, max_batch_size=400) as producer:
        await asyncio.gather(
            *[await producer.send(topic, b"x" * 50 + b"%d" % number, partition=number % 3) for number in range(900)]
        )
    async with consuming(server.bootstrap, topic, max_partition_fetch_bytes=700, fetch_max_bytes=1500) as consumer:
        records = await read(consumer, 900)
        assert [await consumer.position(TopicPartition(topic, partition)) for partition in range(3)] == [300] * 3
    for partition in range(3):
        mine = [record for record in records if record.partition == partition]
        assert [record.offset for record in mine] == list(range(300))
        assert [record.value[50:] for record in mine] == [b"%d" % number for number in range(partition, 900, 3)]
