"""The verbs for topics, on a running server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiokafka.partitioner import DefaultPartitioner

from muster.testcontrol.errors import CannotBeDone
from muster.testcontrol.topics import NewRecord, Topics
from tests.e2e.aio import consuming, producing
from tests.support.muster import running
from tests.testcontrol.server import controlled


@pytest.fixture
async def topics() -> AsyncIterator[Topics]:
    async with running(topics=["orders:3"]) as server:
        yield Topics(server)


async def test_topics_are_created_grown_and_deleted(topics: Topics) -> None:
    await topics.create("new", 2, {"cleanup.policy": "compact"})
    assert "new" in topics.names()
    assert topics.end_offsets("new") == {0: 0, 1: 0}
    await topics.grow("new", 4)
    assert topics.start_offsets("new") == {0: 0, 1: 0, 2: 0, 3: 0}
    await topics.delete("new")
    assert "new" not in topics.names()


async def test_requests_that_kafka_refuses_fail(topics: Topics) -> None:
    with pytest.raises(CannotBeDone, match="already exists"):
        await topics.create("orders")
    with pytest.raises(CannotBeDone):
        await topics.create("a/b")
    with pytest.raises(CannotBeDone):
        await topics.grow("orders", 2)
    for refused in (topics.grow("nope", 3), topics.delete("nope"), topics.produce("nope", [])):
        with pytest.raises(CannotBeDone, match="there is no topic nope"):
            await refused
    with pytest.raises(CannotBeDone, match="UNKNOWN_TOPIC_OR_PARTITION"):
        await topics.produce("orders", [NewRecord(b"x", partition=3)])
    await topics.create("compacted", 1, {"cleanup.policy": "compact"})
    with pytest.raises(CannotBeDone, match="INVALID_RECORD"):
        await topics.produce("compacted", [NewRecord(b"x")])
    with pytest.raises(CannotBeDone, match="TOO_LARGE"):
        await topics.produce("orders", [NewRecord(b"x" * 2_000_000)])


async def test_records_are_produced_and_read(topics: Topics) -> None:
    placed = await topics.produce(
        "orders",
        [
            NewRecord(b"a", partition=1, headers=(("h", b"1"), ("n", None))),
            NewRecord(b"b", partition=1, timestamp_ms=1_700_000_000_000),
            NewRecord(None, b"key"),
            NewRecord(b"c"),
            NewRecord(b"d"),
        ],
    )
    by_key = DefaultPartitioner()(b"key", [0, 1, 2], [0, 1, 2])
    assert [placed[0], placed[1]] == [(1, 0), (1, 1)]
    assert placed[2][0] == by_key
    assert placed[3][0] != placed[4][0]
    found = topics.records("orders")
    assert {(one.partition, one.offset) for one in found} == set(placed)
    first = next(one for one in found if one.value == b"a")
    assert (first.headers, first.text, first.topic) == ((("h", b"1"), ("n", None)), "a", "orders")
    second = next(one for one in found if one.value == b"b")
    assert second.timestamp_ms == 1_700_000_000_000
    assert next(one.value for one in topics.records("orders", 1, since=1)) == b"b"
    assert len(topics.records("orders", most=2)) == 2
    assert sum(topics.end_offsets("orders").values()) == 5


async def test_topics_and_records_are_visible_to_clients_and_to_the_control(topics: Topics) -> None:
    bound = topics._server.bound[0]
    bootstrap = f"{bound.host}:{bound.port}"
    async with consuming(bootstrap, "orders", group_id="g") as consumer:
        await topics.produce("orders", [NewRecord(b"from here", b"k", 2, (("h", b"v"),))])
        record = await consumer.getone()
        assert (record.key, record.value, record.partition, record.headers) == (b"k", b"from here", 2, (("h", b"v"),))
    async with producing(bootstrap, transactional_id="t") as producer, producer.transaction():
        await producer.send("orders", b"from there", partition=0)
    assert [one.text for one in topics.records("orders", 0)] == ["from there"]
    assert topics.end_offsets("orders")[0] == 2  # behind the marker


async def test_many_large_records_are_divided_into_allowed_batches() -> None:
    async with controlled() as found:
        values = [b"%d" % number + b"x" * 400_000 for number in range(5)]
        placed = await found.topics.produce("orders", [NewRecord(value, partition=1) for value in values])
        assert placed == [(1, number) for number in range(5)]
        assert [one.value for one in found.topics.records("orders", 1)] == values
        assert [one.offset for one in found.topics.records("orders", 1, since=2, most=2)] == [2, 3]
