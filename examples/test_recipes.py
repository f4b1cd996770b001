"""Recipes for tests of consumers with Muster: copy what you need. docs/testing.md explains the fixtures."""

import asyncio
import contextlib
import threading

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError


@contextlib.asynccontextmanager
async def consuming(muster, topic, group, **settings):
    """A consumer that commits on demand."""
    quick = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "heartbeat_interval_ms": 50}
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=muster.bootstrap_servers, group_id=group, **{**quick, **settings}
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        # aiokafka 0.14 cancels its own tasks here, and sometimes raises CancelledError
        with contextlib.suppress(asyncio.CancelledError):
            await consumer.stop()


async def test_a_slow_consumer_leaves_the_group(muster, muster_topic, muster_group):
    group = muster_group.aio
    async with consuming(muster, muster_topic.name, group.id, client_id="quick") as quick:
        async with consuming(muster, muster_topic.name, group.id, client_id="slow", max_poll_interval_ms=300):
            await group.wait_stable(members=2, partitions=muster_topic.name)
            for partition in range(3):
                muster_topic.produce("work", partition=partition)
            drinking = asyncio.create_task(drink(quick))
            view = await group.wait_stable(members=1, partitions=muster_topic.name)
            assert view.members[0].client_id == "quick"
            assert any("slow" in line for line in await group.history())
            drinking.cancel()


async def drink(consumer):
    while True:
        await consumer.getmany(timeout_ms=50)


def test_a_cooperative_rebalance_revokes_only_partitions_that_move(muster, muster_topic, muster_group):
    revoked = []
    over = threading.Event()

    def consume(client_id):
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": muster.bootstrap_servers,
                "group.id": muster_group.id,
                "client.id": client_id,
                "partition.assignment.strategy": "cooperative-sticky",
                "heartbeat.interval.ms": 50,
            }
        )
        consumer.subscribe(
            [muster_topic.name],
            on_revoke=lambda _, gone: None if over.is_set() else revoked.append((client_id, len(gone))),
        )
        while not over.is_set():
            consumer.poll(0.05)
        consumer.close()

    threads = [threading.Thread(target=consume, args=(name,)) for name in ("first", "second")]
    threads[0].start()
    before = muster_group.wait_stable(members=1, partitions=muster_topic.name)
    threads[1].start()
    after = muster_group.wait_stable(members=2, partitions=muster_topic.name)
    over.set()
    for thread in threads:
        thread.join()
    kept = after.member("first").assignment[muster_topic.name]
    assert set(kept) < set(before.members[0].assignment[muster_topic.name])
    assert revoked == [("first", 3 - len(kept))]


async def test_a_static_member_restarts_without_a_rebalance(muster, muster_topic, muster_group):
    group = muster_group.aio
    async with consuming(muster, muster_topic.name, group.id, group_instance_id="stays"):
        async with consuming(muster, muster_topic.name, group.id, group_instance_id="restarts"):
            before = await group.wait_stable(members=2, partitions=muster_topic.name)
        async with consuming(muster, muster_topic.name, group.id, group_instance_id="restarts"):
            after = await group.wait_stable(members=2, partitions=muster_topic.name)
    assert after.generation == before.generation
    assert after.member("restarts").assignment == before.member("restarts").assignment
    assert after.member("restarts").member_id != before.member("restarts").member_id


async def process(muster, source, results, group, producer, crash):
    async with consuming(muster, source.name, group.id) as consumer:
        await group.aio.wait_stable(members=1, partitions=source.name)
        async with asyncio.timeout(10):
            record = await consumer.getone()
        await producer.begin_transaction()
        await producer.send_and_wait(results.name, record.value.upper())
        offsets = {partition: await consumer.position(partition) for partition in consumer.assignment()}
        await producer.send_offsets_to_transaction(offsets, group.id)
        if not crash:
            await producer.commit_transaction()


@pytest.mark.muster(topics={"results": 1}, partitions=1)
async def test_records_are_processed_exactly_once_through_a_crash(muster, muster_topic, muster_group):
    results = muster.topic("results")
    muster_topic.produce("work")
    settings = {"bootstrap_servers": muster.bootstrap_servers, "transactional_id": "app"}
    first, second = AIOKafkaProducer(**settings), AIOKafkaProducer(**settings)
    await first.start()
    await process(muster, muster_topic, results, muster_group, first, crash=True)
    assert muster_group.offsets == {}
    await second.start()  # the transaction of the first one is aborted
    await process(muster, muster_topic, results, muster_group, second, crash=False)
    with pytest.raises(KafkaError):
        await first.commit_transaction()
    await first.stop()
    await second.stop()
    assert muster_group.offsets == {muster_topic.name: {0: 1}}
    async with consuming(muster, "results", "reader", isolation_level="read_committed") as reader:
        read = await reader.getmany(timeout_ms=500)
    assert [record.value for records in read.values() for record in records] == [b"WORK"]
    assert len(results.records()) == 2


@pytest.mark.muster(partitions=1)
async def test_offsets_are_reset_to_the_earliest(muster, muster_topic, muster_group):
    muster_topic.produce("a", "b")
    for _ in range(2):
        async with consuming(muster, muster_topic.name, muster_group.id) as consumer:
            assert [(await consumer.getone()).value for _ in range(2)] == [b"a", b"b"]
            await consumer.commit()
        view = await muster_group.aio.wait_until(lambda group: not group.members, what="is empty")
        assert view.total_lag == 0
        muster_group.reset_offsets("earliest")


async def handle(muster, topic, group, aside):
    async with consuming(muster, topic, group) as consumer:
        async for record in consumer:
            try:
                int(record.value)
            except ValueError:
                aside.produce(record.value)
            await consumer.commit()


@pytest.mark.muster(topics={"aside": 1}, partitions=1)
async def test_a_poison_message_is_sent_to_another_topic(muster, muster_topic, muster_group):
    muster_topic.produce("1", "poison", "3")
    handling = asyncio.create_task(handle(muster, muster_topic.name, muster_group.id, muster.topic("aside")))
    await muster_group.aio.wait_consumed(muster_topic.name)
    handling.cancel()
    assert [record.text for record in muster.topic("aside").records()] == ["poison"]


@pytest.mark.muster(partitions=1)
async def test_the_lag_of_a_group_falls_to_zero(muster, muster_topic, muster_group):
    muster_topic.produce(*"abcdef")
    async with consuming(muster, muster_topic.name, muster_group.id) as consumer:
        await consumer.getmany(timeout_ms=5000, max_records=4)
        await consumer.commit()
        assert muster_group.lag == {muster_topic.name: {0: 2}}
        await consumer.getmany(timeout_ms=5000)
        await consumer.commit()
        await muster_group.aio.wait_until(lambda group: not group.total_lag, what="has no lag")


@pytest.mark.muster(nodes=3, topics={"orders": 3})
async def test_a_consumer_survives_a_move_of_its_coordinator(muster, muster_group):
    muster.topic("orders").produce("work", partition=0)
    group = muster_group.aio
    async with consuming(muster, "orders", group.id) as consumer:
        before = await group.wait_stable(members=1, partitions="orders")
        await muster.coordinator(group.id).aio.stop()
        await group.wait_until(lambda view: view.is_stable and view.node not in (before.node, -1))
        await consumer.getone()
        await consumer.commit()
        assert (await group.describe()).offsets["orders"][0] == 1


async def test_a_rolling_deploy_causes_no_rebalance(muster, muster_topic, muster_group):
    names, group = ["app-1", "app-2", "app-3"], muster_group.aio
    async with contextlib.AsyncExitStack() as stack:
        running = {}
        for name in names:
            running[name] = await stack.enter_async_context(contextlib.AsyncExitStack())
            await running[name].enter_async_context(
                consuming(muster, muster_topic.name, group.id, group_instance_id=name)
            )
        before = await group.wait_stable(members=3, partitions=muster_topic.name)
        for name in names:
            await running[name].aclose()
            await running[name].enter_async_context(
                consuming(muster, muster_topic.name, group.id, group_instance_id=name)
            )
            after = await group.wait_stable(members=3, partitions=muster_topic.name)
            assert after.generation == before.generation
        kinds = [event["kind"] for event in await group.events()]
        assert kinds.count("member_replaced") == 3
