"""Clients commit, seek and look offsets up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from aiokafka import OffsetAndMetadata, TopicPartition
from aiokafka.errors import CommitFailedError, OffsetOutOfRangeError
from confluent_kafka import TopicPartition as ConfluentPartition

from tests.e2e.aio import consuming, producing, read, send_numbered
from tests.e2e.ledger import eventually, eventually_sync
from tests.e2e.sync_clients import confluent_consumer, confluent_produce, confluent_read, kafka, kafka_python_consumer
from tests.support.servers import ServerProcess

NewTopic = Callable[[int], str]


async def test_an_explicit_commit_with_metadata_is_fetched_again(
    server: ServerProcess, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic(2)
    partition = TopicPartition(topic, 0)
    await send_numbered(server.bootstrap, topic, 2, 20)
    async with consuming(server.bootstrap, topic, group_id=group) as consumer:
        await read(consumer, 20)
        await consumer.commit({partition: OffsetAndMetadata(4, "déjà lu")})
        assert await consumer.committed(partition) == 4
        assert await consumer.committed(TopicPartition(topic, 1)) is None
        await consumer.commit()
        assert await consumer.committed(partition) == 10
    async with consuming(server.bootstrap, topic, group_id=group) as consumer:
        assert await consumer.committed(TopicPartition(topic, 1)) == 10
        await send_numbered(server.bootstrap, topic, 2, 2, first=20)
        assert sorted(record.value for record in await read(consumer, 2)) == [b"20", b"21"]


async def test_auto_commit_saves_the_position(server: ServerProcess, new_topic: NewTopic, group: str) -> None:
    topic = new_topic(1)
    await send_numbered(server.bootstrap, topic, 1, 10)
    settings = {"group_id": group, "enable_auto_commit": True, "auto_commit_interval_ms": 50}
    async with consuming(server.bootstrap, topic, **settings) as consumer:
        await read(consumer, 7)

        async with consuming(server.bootstrap, group_id=group) as other:
            other.assign([TopicPartition(topic, 0)])
            committed: list[int | None] = []

            async def look() -> None:
                committed.append(await other.committed(TopicPartition(topic, 0)))

            while committed[-1:] != [7]:
                await asyncio.wait_for(look(), 10)
                assert committed[-1] in (None, 7)
    async with consuming(server.bootstrap, topic, **settings) as consumer:
        assert [record.offset for record in await read(consumer, 3)] == [7, 8, 9]


def test_librdkafka_commits_in_each_way(server: ServerProcess, new_topic: NewTopic, group: str) -> None:
    topic = new_topic(1)
    confluent_produce(server.bootstrap, topic, [(None, b"%d" % number) for number in range(30)], partition=0)
    answers: list[int] = []

    def on_commit(error: object, partitions: list[ConfluentPartition]) -> None:
        assert error is None
        answers.extend(partition.offset for partition in partitions)

    with confluent_consumer(server.bootstrap, group_id=group, on_commit=on_commit) as consumer:
        consumer.subscribe([topic])
        messages = confluent_read(consumer, 10)
        assert consumer.commit(message=messages[4], asynchronous=False)[0].offset == 5
        consumer.commit(offsets=[ConfluentPartition(topic, 0, 10)], asynchronous=True)

        def answered() -> bool:
            consumer.poll(0)
            return 10 in answers

        eventually_sync(answered, "the answer of the asynchronous commit")
    settings = {"group_id": group, "enable_auto_commit": True, "auto_commit_interval_ms": 100000}
    with confluent_consumer(server.bootstrap, **settings) as consumer:
        consumer.subscribe([topic])
        assert [message.offset() for message in confluent_read(consumer, 10)] == list(range(10, 20))
    with confluent_consumer(server.bootstrap, group_id=group) as consumer:  # auto-committed by close()
        (committed,) = consumer.committed([ConfluentPartition(topic, 0)], timeout=60)
        assert committed.offset == 20


def test_kafka_python_commits_in_each_way(server: ServerProcess, new_topic: NewTopic, group: str) -> None:
    topic = new_topic(1)
    partition = kafka.TopicPartition(topic, 0)
    confluent_produce(server.bootstrap, topic, [(None, b"%d" % number) for number in range(30)], partition=0)
    answers: list[object] = []
    with kafka_python_consumer(server.bootstrap, topic, group_id=group) as consumer:
        while not consumer.poll(timeout_ms=1000, max_records=10):
            pass
        consumer.commit({partition: kafka.OffsetAndMetadata(5, "five", -1)})
        assert consumer.committed(partition, metadata=True) == kafka.OffsetAndMetadata(5, "five", -1)
        consumer.commit_async(
            {partition: kafka.OffsetAndMetadata(9, "", -1)}, lambda _offsets, answer: answers.append(answer)
        )

        def answered() -> bool:
            consumer.poll(timeout_ms=10)
            return bool(answers)

        eventually_sync(answered, "the answer of the asynchronous commit")
        assert consumer.committed(partition) == 9


async def test_a_commit_of_an_older_generation_is_refused(
    server: ServerProcess, new_topic: NewTopic, group: str
) -> None:
    """A member that was removed, and does not know it yet."""
    topic = new_topic(2)
    async with consuming(
        server.bootstrap, topic, group_id=group, session_timeout_ms=200, heartbeat_interval_ms=60000
    ) as silent:
        await eventually(lambda: len(silent.assignment()) == 2, "an assignment")
        async with consuming(server.bootstrap, topic, group_id=group) as other:
            await eventually(lambda: len(other.assignment()) == 2, "the silent one's partitions")
            with pytest.raises(CommitFailedError):
                await silent.commit({TopicPartition(topic, 0): 1})
            assert await other.committed(TopicPartition(topic, 0)) is None


async def test_a_consumer_seeks_to_both_ends_and_between(server: ServerProcess, new_topic: NewTopic) -> None:
    topic = new_topic(1)
    partition = TopicPartition(topic, 0)
    await send_numbered(server.bootstrap, topic, 1, 50)
    async with consuming(server.bootstrap) as consumer:
        consumer.assign([partition])
        assert await consumer.beginning_offsets([partition]) == {partition: 0}
        assert await consumer.end_offsets([partition]) == {partition: 50}
        consumer.seek(partition, 33)
        assert (await read(consumer, 1))[0].value == b"33"
        await consumer.seek_to_beginning(partition)
        assert (await read(consumer, 1))[0].value == b"0"
        await consumer.seek_to_end(partition)
        await send_numbered(server.bootstrap, topic, 1, 1, first=50)
        assert (await read(consumer, 1))[0].value == b"50"


async def test_offsets_are_found_by_timestamp(server: ServerProcess, new_topic: NewTopic) -> None:
    topic = new_topic(1)
    partition = TopicPartition(topic, 0)
    async with producing(server.bootstrap) as producer:
        for number in range(10):
            await producer.send_and_wait(topic, b"v", partition=0, timestamp_ms=1000 + 100 * number)
    async with consuming(server.bootstrap, topic) as consumer:
        found = [
            (await consumer.offsets_for_times({partition: time}))[partition] for time in (0, 1000, 1301, 1900, 1901)
        ]
    assert [offset and (offset.offset, offset.timestamp) for offset in found] == [
        (0, 1000),
        (0, 1000),
        (4, 1400),
        (9, 1900),
        None,
    ]


async def test_a_position_past_the_end_is_out_of_range(server: ServerProcess, new_topic: NewTopic) -> None:
    topic = new_topic(1)
    await send_numbered(server.bootstrap, topic, 1, 5)
    async with consuming(server.bootstrap, auto_offset_reset="none") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek(TopicPartition(topic, 0), 500)
        with pytest.raises(OffsetOutOfRangeError):
            await consumer.getone()
    async with consuming(server.bootstrap) as consumer:  # auto_offset_reset=earliest
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek(TopicPartition(topic, 0), 500)
        assert (await read(consumer, 1))[0].offset == 0


async def test_a_new_group_may_start_at_the_end(server: ServerProcess, new_topic: NewTopic, group: str) -> None:
    topic = new_topic(1)
    partition = TopicPartition(topic, 0)
    await send_numbered(server.bootstrap, topic, 1, 5)
    async with consuming(server.bootstrap, topic, group_id=group, auto_offset_reset="latest") as consumer:
        await eventually(lambda: consumer.assignment() == {partition}, "the partition")
        assert await consumer.position(partition) == 5
        await send_numbered(server.bootstrap, topic, 1, 1, first=5)
        assert [record.value for record in await read(consumer, 1)] == [b"5"]


async def test_a_consumer_without_a_group_membership_may_commit(
    server: ServerProcess, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic(1)
    await send_numbered(server.bootstrap, topic, 1, 5)
    for first in (0, 2):
        async with consuming(server.bootstrap, group_id=group) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            records = await read(consumer, 2)
            assert [record.offset for record in records] == [first, first + 1]
            await consumer.commit({TopicPartition(topic, 0): first + 2})
