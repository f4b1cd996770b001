"""Real clients on a cluster of three brokers in one process, while these stop, die, stand still and
return: what must hold."""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import confluent_kafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from muster.coordinator.nodes.states import State
from muster.coordinator.server import Server
from tests.e2e.sync_clients import kafka, kafka_offsets
from tests.support.muster import running

PARTITIONS = 3
SESSION_MS = 300
PATIENCE_S = 60.0
"""How long nothing may come forward, on a machine that does much else."""
RECONNECT_MS = 200
"""How long a client waits at most before it connects anew; by itself kafka-python does for 30 s, librdkafka for 10."""
COMMIT_MS = 5_000
"""kafka-python waits for ever for an answer to a commit, unless it is told."""
SILENT_S = 15.0
"""After so long without a record another consumer takes the place of one of kafka-python; the one before may not have
said that it leaves, and its session must be over first."""
SESSION_OF_KAFKA_PYTHON_MS = 6_000
SESSION_OF_LIBRDKAFKA_MS = 10_000
"""When it heard of no coordinator for so long it joins as a new member, and the old one must go before all go on."""
GIVING_UP_S = 5.0
"""How long clients have to end when the story has failed."""


class Progress:
    """What one client was told: which records it has written, which offsets committed."""

    def __init__(self) -> None:
        self.written: list[int] = []
        self.read: list[int] = []
        self.committed: dict[int, int] = {}
        self.longest_s = 0.0
        self._since = time.monotonic()
        self.stops = threading.Event()
        self.gives_up = threading.Event()
        """Set when the story has failed: nothing more is waited for."""

    def goes_on(self) -> None:
        now = time.monotonic()
        self.longest_s = max(self.longest_s, now - self._since)
        self._since = now

    def is_done(self) -> bool:
        """All that was written was read, once nothing more comes."""
        return self.gives_up.is_set() or (self.stops.is_set() and set(self.written) <= set(self.read))

    def __str__(self) -> str:
        unread = sorted(set(self.written) - set(self.read))
        return f"{len(self.written)} written, {len(unread)} of them unread (first {unread[:3]}), {self.committed}"


async def aiokafka_works(bootstrap: str, topic: str, group: str, progress: Progress) -> None:
    """Write numbers one after the other, read and commit them."""
    quick: dict[str, Any] = {"bootstrap_servers": bootstrap, "retry_backoff_ms": 20, "metadata_max_age_ms": 1_000}
    producer = AIOKafkaProducer(enable_idempotence=True, **quick)
    consumer = AIOKafkaConsumer(
        topic, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest", fetch_max_wait_ms=50, **quick
    )
    await producer.start()
    await consumer.start()
    number = 0
    try:
        while not progress.is_done():
            if not progress.stops.is_set():
                await producer.send_and_wait(topic, b"%d" % number, partition=number % PARTITIONS)
                progress.written.append(number)
                number += 1
                progress.goes_on()
            found = await consumer.getmany(timeout_ms=50)
            offsets: dict[TopicPartition, int] = {}
            for place, records in found.items():
                progress.read += [int(record.value) for record in records]
                offsets[place] = records[-1].offset + 1
            with suppress(KafkaError):  # a rebalance or a move: what was read is committed with the next
                await consumer.commit(offsets or None)
                progress.committed |= {place.partition: offset for place, offset in offsets.items()}
                progress.goes_on()
        for place in consumer.assignment():
            await consumer.commit({place: await consumer.position(place)})
            progress.committed[place.partition] = await consumer.position(place)
    finally:
        await consumer.stop()
        await producer.stop()


def confluent_works(
    bootstrap: str,
    topic: str,
    group: str,
    progress: Progress,
    *,
    protocol: str = "classic",
    settle: Callable[[Callable[[], object]], object] = lambda commit: commit(),
) -> None:
    """The same with librdkafka. `settle` is given each of the last commits, to do it."""
    quick: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}
    quick |= {"topic.metadata.refresh.interval.ms": 1_000, "reconnect.backoff.max.ms": RECONNECT_MS}
    producer = confluent_kafka.Producer({**quick, "enable.idempotence": True, "linger.ms": 0}, logger=None)
    settings: dict[str, Any] = {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    settings["group.protocol"] = protocol
    if protocol == "classic":
        settings["session.timeout.ms"] = SESSION_OF_LIBRDKAFKA_MS
    consumer = confluent_kafka.Consumer({**quick, **settings, "fetch.wait.max.ms": 50}, logger=None)
    consumer.subscribe([topic])
    number = 0

    def told(error: Any, message: Any) -> None:
        if error is None:
            progress.written.append(int(message.value()))
            progress.goes_on()

    try:
        while not progress.is_done():
            if not progress.stops.is_set() and len(producer) < PARTITIONS:
                producer.produce(topic, b"%d" % number, partition=number % PARTITIONS, on_delivery=told)
                number += 1
            producer.poll(0)
            if progress.stops.is_set():
                producer.flush(1)
            message = consumer.poll(0.05)
            if message is None or message.error() is not None:
                continue
            progress.read.append(int(message.value()))
            with suppress(confluent_kafka.KafkaException):
                consumer.commit(message, asynchronous=False)
                progress.committed[message.partition()] = message.offset() + 1
                progress.goes_on()
        for partition in sorted(progress.committed):
            last = confluent_kafka.TopicPartition(topic, partition, progress.committed[partition])
            settle(partial(consumer.commit, offsets=[last], asynchronous=False))
    finally:
        consumer.close()


def kafka_python_works(bootstrap: str, topic: str, group: str, progress: Progress) -> None:
    """The same with kafka-python."""
    quick: dict[str, Any] = {"bootstrap_servers": bootstrap, "retry_backoff_ms": 20, "metadata_max_age_ms": 1_000}
    quick["reconnect_backoff_max_ms"] = RECONNECT_MS
    producer = kafka.KafkaProducer(enable_idempotence=True, **quick)

    def join() -> Any:
        return kafka.KafkaConsumer(
            topic,
            session_timeout_ms=SESSION_OF_KAFKA_PYTHON_MS,
            heartbeat_interval_ms=1_000,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=50,
            **quick,
        )

    consumer, heard_s = join(), time.monotonic()
    number = 0
    reached: dict[Any, int] = {}

    def read() -> None:
        nonlocal consumer, heard_s
        if time.monotonic() > heard_s + SILENT_S:
            # kafka-python 3.0.12 may count a fetch as under way whose connection was cut, and never fetch there again
            consumer.close()
            consumer, heard_s = join(), time.monotonic()
        # while it looks for a coordinator that has gone, poll may raise UnknownBrokerIdError
        try:
            found = consumer.poll(timeout_ms=50)
        except kafka.errors.KafkaError:
            for place in consumer.assignment():  # what poll had taken before it raised is read again
                if place in reached:
                    consumer.seek(place, reached[place])
            return
        for place, records in found.items():
            progress.read += [int(record.value) for record in records]
            reached[place] = records[-1].offset + 1
            heard_s = time.monotonic()

    def commit() -> None:
        if reached:
            consumer.commit(kafka_offsets(reached), timeout_ms=COMMIT_MS)
            progress.committed |= {place.partition: offset for place, offset in reached.items()}
            progress.goes_on()

    try:
        while not progress.is_done():
            if not progress.stops.is_set():
                producer.send(topic, b"%d" % number, partition=number % PARTITIONS).get(timeout=PATIENCE_S)
                progress.written.append(number)
                number += 1
                progress.goes_on()
            read()
            with suppress(kafka.errors.KafkaError):
                commit()
        while not progress.gives_up.is_set():
            with suppress(kafka.errors.KafkaError):
                commit()
                break
    finally:
        consumer.close()
        producer.close()


def quieten() -> None:
    """Have no client tell of each fault."""
    for library in ("aiokafka", "kafka"):
        logging.getLogger(library).setLevel(logging.CRITICAL)


async def in_thread(work: Callable[..., None], *arguments: Any) -> None:
    """Run it in a thread that does not keep the process: a client may wait for ever in one call."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def tell(error: BaseException | None) -> None:
        if not ended.done():
            ended.set_result(None) if error is None else ended.set_exception(error)

    def run() -> None:
        error: BaseException | None = None
        try:
            work(*arguments)
        except BaseException as raised:  # noqa: BLE001  # raised again where it is waited for
            error = raised
        with suppress(RuntimeError):  # the story has failed, and its loop is closed
            loop.call_soon_threadsafe(tell, error)

    threading.Thread(target=run, name=work.__name__, daemon=True).start()
    await ended


WORKERS: dict[str, Callable[[str, str, str, Progress], Awaitable[None]]] = {
    "aiokafka": aiokafka_works,
    "confluent-kafka": lambda *all_: in_thread(confluent_works, *all_),
    "kafka-python": lambda *all_: in_thread(kafka_python_works, *all_),
}


@asynccontextmanager
async def cluster(data_dir: Path) -> AsyncIterator[Server]:
    properties = {
        "muster.nodes": "3",
        "broker.session.timeout.ms": str(SESSION_MS),
        "offsets.topic.num.partitions": "6",
        "muster.offsets.durability": "os",
    }
    async with running(properties, data_dir=data_dir, topics=[f"{name}:{PARTITIONS}" for name in WORKERS]) as server:
        yield server


async def play(server: Server, names: list[str], changes: int, seed: int) -> dict[str, Progress]:
    """Let the clients work while nodes stop, die, pause and return at random; each has finished when this ends."""
    draw = random.Random(seed)
    bootstrap = ",".join(f"127.0.0.1:{bound.port}" for bound in server.bound)
    workers = {name: Progress() for name in names}
    tasks = [asyncio.create_task(_coroutine(WORKERS[name](bootstrap, name, name, workers[name]))) for name in names]
    nodes = server.cluster
    try:
        await _came_on(workers, tasks)
        for _ in range(changes):
            up = [one for one, state in nodes.states.items() if state is State.UP]
            down = [one for one, state in nodes.states.items() if state in (State.STOPPED, State.KILLED)]
            if down:
                # a client that knows of one broker alone finds no other when that dies, as on Kafka (KIP-899)
                await nodes.return_node(draw.choice(down))
            else:
                one, what = draw.choice(up), draw.choice(("stop", "kill", "pause"))
                if what == "stop":
                    await nodes.stop_node(one)
                elif what == "kill":
                    nodes.kill_node(one)
                else:  # for so long that others may lead by then, or not
                    nodes.pause_node(one)
                    await asyncio.sleep(draw.random() * 2 * SESSION_MS / 1000)
                    await nodes.resume_node(one)
            await _came_on(workers, tasks)
        for one in workers.values():
            one.stops.set()
        _, pending = await asyncio.wait(tasks, timeout=2 * PATIENCE_S)
        assert not pending, _told(workers)
        for task in tasks:
            task.result()
    except BaseException:
        for one in workers.values():
            one.gives_up.set()
        await asyncio.wait(tasks, timeout=GIVING_UP_S)
        raise
    return workers


def _told(workers: dict[str, Progress]) -> str:
    return "; ".join(f"{name}: {one}" for name, one in workers.items())


async def _coroutine(work: Awaitable[None]) -> None:
    await work


async def _came_on(workers: dict[str, Progress], tasks: list[asyncio.Task[None]]) -> None:
    """Each has written and committed something more since."""
    marks = {name: (len(one.written), dict(one.committed)) for name, one in workers.items()}
    end = time.monotonic() + PATIENCE_S
    while any(len(one.written) <= marks[name][0] or one.committed == marks[name][1] for name, one in workers.items()):
        for task in tasks:
            if task.done():
                task.result()
        assert time.monotonic() < end, _told(workers)
        await asyncio.sleep(0.01)


async def check(server: Server, workers: dict[str, Progress]) -> None:
    """Each record that was acknowledged is there once, and the offsets are those that were last acknowledged."""
    for name, progress in workers.items():
        topic = server.topics.by_name[name]
        found: list[int] = []
        for partition in topic.partitions:
            assert partition is not None
            found += [int(value) for value in values(partition.log)]
        assert sorted(found) == sorted(set(found)), f"{name}: written twice"
        assert set(progress.written) <= set(found), f"{name}: lost"
        leader = server.topics.open.leaders["__consumer_offsets"][server.routing.partition(name)].broker_id
        core = server.cluster.nodes[leader].routing.shard(name).runtime.core
        assert core is not None
        offsets = core.state.offsets
        kept = {index: offsets.get(name, name, index).offset for index in progress.committed}  # type: ignore[union-attr]
        assert kept == progress.committed, name


def values(log: Any) -> list[bytes]:
    """Of the records of a log."""
    from muster.coordinator.log import batches

    return [
        record.value
        for chunk in log.replay()
        for header, records in batches.read(chunk)
        if not header.is_control
        for record in records
    ]


async def _main(changes: int, seed: int) -> None:
    quieten()
    with tempfile.TemporaryDirectory() as directory:
        async with cluster(Path(directory)) as server:
            workers = await play(server, [*WORKERS], changes, seed)
            await check(server, workers)
    for name, progress in workers.items():
        print(f"{name}: {len(progress.written)} written, {len(progress.read)} read, "
              f"at most {progress.longest_s:.1f} s without progress")  # fmt: skip


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--changes", type=int, default=100, help="stops, kills, pauses and returns")
    options.add_argument("--seed", type=int, default=1)
    asked = options.parse_args()
    asyncio.run(_main(asked.changes, asked.seed))
