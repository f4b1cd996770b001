"""Long polls: a Fetch waits for records, and is answered when they come. The tests check the order, never the time."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable

from aiokafka import TopicPartition

from tests.e2e.aio import consuming, producing, read
from tests.e2e.test_producers import batch, produce
from tests.support import wire
from tests.support.servers import ServerProcess

NewTopic = Callable[[int], str]
MINUTES_MS = 300_000


def records_size(answer: wire.Reader) -> int:
    """How many bytes of records the answer to a Fetch v10 of one partition carries."""
    answer.number("i")
    assert answer.number("h") == 0
    answer.number("i")
    assert answer.number("i") == 1
    answer.string()
    assert answer.number("i") == 1
    answer.number("i")
    assert answer.number("h") == 0
    answer.take(24)
    answer.take(16 * max(answer.number("i"), 0))
    return len(answer.data())


async def test_a_waiting_fetch_is_answered_when_a_record_comes(server: ServerProcess, new_topic: NewTopic) -> None:
    """The wait is minutes long, so only the record can end it."""
    topic = new_topic(1)
    settings = {"fetch_max_wait_ms": MINUTES_MS, "request_timeout_ms": 2 * MINUTES_MS}
    async with consuming(server.bootstrap, topic, **settings) as consumer, producing(server.bootstrap) as producer:
        for number in range(5):
            waiting = asyncio.create_task(consumer.getone())
            await producer.send_and_wait(topic, b"%d" % number)
            assert (await asyncio.wait_for(waiting, 20)).value == b"%d" % number


def test_a_fetch_waits_for_its_minimum_of_bytes(server: ServerProcess, new_topic: NewTopic) -> None:
    topic, other = new_topic(1), new_topic(1)
    records = batch(-1, -1, -1, [b"x" * 100])
    with (
        socket.create_connection(server.address, timeout=30) as waiter,
        socket.create_connection(server.address, timeout=30) as writer,
    ):
        waiter.sendall(wire.frame(wire.fetch(topic, 0, 0, max_wait_ms=MINUTES_MS, min_bytes=2 * len(records))))
        assert produce(writer, other, records) == (0, 0)
        assert produce(writer, topic, records) == (0, 0)
        assert produce(writer, topic, records) == (0, 1)
        assert records_size(wire.receive(waiter)) == 2 * len(records)


def test_a_fetch_without_records_is_answered_after_its_wait_time(server: ServerProcess, new_topic: NewTopic) -> None:
    with socket.create_connection(server.address, timeout=30) as connection:
        assert records_size(wire.call(connection, wire.fetch(new_topic(1), 0, 0, max_wait_ms=20))) == 0


def test_a_waiting_fetch_does_not_hold_up_other_connections(server: ServerProcess, new_topic: NewTopic) -> None:
    topic = new_topic(1)
    waiters = [socket.create_connection(server.address, timeout=30) for _ in range(20)]
    try:
        for waiter in waiters:
            waiter.sendall(wire.frame(wire.fetch(topic, 0, 0, max_wait_ms=MINUTES_MS)))
        with socket.create_connection(server.address, timeout=30) as writer:
            wire.call(writer, wire.api_versions())
            assert produce(writer, topic, batch(-1, -1, -1, [b"now"])) == (0, 0)
        assert {records_size(wire.receive(waiter)) > 0 for waiter in waiters} == {True}
    finally:
        for waiter in waiters:
            waiter.close()


def test_a_waiting_fetch_holds_the_next_request_of_its_connection(server: ServerProcess, new_topic: NewTopic) -> None:
    """As on Kafka, answers leave in the order of the requests."""
    topic = new_topic(1)
    with (
        socket.create_connection(server.address, timeout=30) as waiter,
        socket.create_connection(server.address, timeout=30) as writer,
    ):
        waiter.sendall(
            wire.frame(wire.fetch(topic, 0, 0, max_wait_ms=MINUTES_MS), 1) + wire.frame(wire.api_versions(), 2)
        )
        assert produce(writer, topic, batch(-1, -1, -1, [b"now"])) == (0, 0)
        correlation_ids = []
        for _ in range(2):
            (size,) = struct.unpack(">i", wire.receive_exactly(waiter, 4))
            correlation_ids += struct.unpack_from(">i", wire.receive_exactly(waiter, size))
    assert correlation_ids == [1, 2]


async def test_small_fetch_answers_serve_all_partitions_in_turn(server: ServerProcess, new_topic: NewTopic) -> None:
    """No partition waits for ever behind a partition with much to read."""
    topic = new_topic(4)
    async with producing(server.bootstrap, max_batch_size=2000) as producer:
        await asyncio.gather(
            *[await producer.send(topic, b"x" * 500, partition=partition) for _ in range(40) for partition in range(4)]
        )
    async with consuming(server.bootstrap, topic, fetch_max_bytes=3000, max_partition_fetch_bytes=3000) as consumer:
        records = await read(consumer, 160)
        ends = await consumer.end_offsets([TopicPartition(topic, partition) for partition in range(4)])
    assert set(ends.values()) == {40}
    assert {record.partition for record in records[:80]} == {0, 1, 2, 3}
