"""Real clients that write, read and commit while the brokers are disturbed, and the answers that each client got."""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import confluent_kafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from tests.e2e.sync_clients import close_kafka_python, kafka, kafka_offsets

PARTITIONS = 3
PATIENCE_S = 60.0
"""How long a client may make no progress, on a busy machine."""
RECONNECT_MS = 200
"""The longest time before a client connects again; the default is 30 s in kafka-python and 10 s in librdkafka."""
COMMIT_MS = 5_000
"""kafka-python waits for ever for an answer to a commit, unless it has a limit."""
SILENT_S = 15.0
"""After this time without a record another consumer replaces a kafka-python consumer. The old one may not have left,
and then its session must expire first.
"""
SESSION_OF_KAFKA_PYTHON_MS = 6_000
SESSION_OF_LIBRDKAFKA_MS = 10_000
"""After this time without a coordinator librdkafka joins as a new member; the old member must expire before all go on.
"""
LONG_S = 15.0
"""A time without progress is noted if it is longer than this."""
GIVING_UP_S = 5.0
"""How long clients have to end when the story has failed."""


class Progress:
    """What the server has acknowledged to one client: its written records and its committed offsets."""

    def __init__(self) -> None:
        self.written: list[int] = []
        self.read: list[int] = []
        self.committed: dict[int, int] = {}
        self.longest_s = 0.0
        self.gaps: list[tuple[float, float]] = []
        """The times without progress that were longer than `LONG_S`: their begins and ends."""
        self._since = time.monotonic()
        self.stops = threading.Event()
        self.gives_up = threading.Event()
        """Set when the story has failed: then nobody waits any more."""

    def goes_on(self) -> None:
        now = time.monotonic()
        self.longest_s = max(self.longest_s, now - self._since)
        if now - self._since > LONG_S:
            self.gaps.append((self._since, now))
        self._since = now

    def is_done(self) -> bool:
        """Whether all written records were read, and no more come."""
        return self.gives_up.is_set() or (self.stops.is_set() and set(self.written) <= set(self.read))

    def __str__(self) -> str:
        unread = sorted(set(self.written) - set(self.read))
        return f"{len(self.written)} written, {len(unread)} of them unread (first {unread[:3]}), {self.committed}"


async def aiokafka_works(bootstrap: str, topic: str, group: str, progress: Progress) -> None:
    """Write numbers in order, read and commit them."""
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
            with suppress(KafkaError):  # a rebalance or a move: the next commit includes what was read
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
    """The same with librdkafka. `settle` is called with each of the last commits, to carry it out."""
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

    def on_delivery_report(error: Any, message: Any) -> None:
        if error is None:
            progress.written.append(int(message.value()))
            progress.goes_on()

    try:
        while not progress.is_done():
            if not progress.stops.is_set() and len(producer) < PARTITIONS:
                producer.produce(topic, b"%d" % number, partition=number % PARTITIONS, on_delivery=on_delivery_report)
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
            # kafka-python 3.0.12 may count a fetch on a cut connection as still running, and then never fetch there
            # again
            close_kafka_python(consumer)
            consumer, heard_s = join(), time.monotonic()
        # while it looks for a coordinator that has gone, poll may raise UnknownBrokerIdError
        try:
            found = consumer.poll(timeout_ms=50)
        except kafka.errors.KafkaError:
            for place in consumer.assignment():  # records that poll had taken before it raised are read again
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
        close_kafka_python(consumer)
        close_kafka_python(producer)


def quieten() -> None:
    """Let no client log its errors."""
    for library in ("aiokafka", "kafka"):
        logging.getLogger(library).setLevel(logging.CRITICAL)


async def in_thread(work: Callable[..., None], *arguments: Any) -> None:
    """Run the work in a daemon thread: a client may wait for ever in one call."""
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


Works = Callable[[str, str, str, Progress], Awaitable[None]]
"""(bootstrap, topic, group, progress)"""
WORKERS: dict[str, Works] = {
    "aiokafka": aiokafka_works,
    "confluent-kafka": lambda *all_: in_thread(confluent_works, *all_),
    "kafka-python": lambda *all_: in_thread(kafka_python_works, *all_),
}


class Work:
    """Clients at work. `progress` has what the server has acknowledged to each, by name."""

    def __init__(
        self, works: Mapping[str, Works], bootstrap: str, patience_s: float, committing: Collection[str]
    ) -> None:
        self.progress = {name: Progress() for name in works}
        self._patience_s = patience_s
        self._committing = committing
        self._tasks: list[asyncio.Future[None]] = [
            asyncio.ensure_future(work(bootstrap, name, name, self.progress[name])) for name, work in works.items()
        ]

    def __str__(self) -> str:
        return "; ".join(f"{name}: {one}" for name, one in self.progress.items())

    async def progressed(self) -> dict[str, float]:
        """Wait until each client has written and committed something more; the seconds that this took."""
        marks = {name: (len(one.written), dict(one.committed)) for name, one in self.progress.items()}
        began = time.monotonic()
        took: dict[str, float] = {}
        while len(took) < len(self.progress):
            for name, one in self.progress.items():
                written, committed = marks[name]
                has_committed = name not in self._committing or one.committed != committed
                if name not in took and len(one.written) > written and has_committed:
                    took[name] = round(time.monotonic() - began, 1)
            for task in self._tasks:
                if task.done():
                    task.result()
            stuck = sorted(set(self.progress) - set(took))
            if time.monotonic() > began + self._patience_s:  # where each client's thread waits
                faulthandler.dump_traceback(all_threads=True)
            assert time.monotonic() < began + self._patience_s, f"{stuck} came not on: {self}"
            await asyncio.sleep(0.01)
        return took

    async def finish(self) -> None:
        """Let them read and commit what they have written, and stop."""
        for one in self.progress.values():
            one.stops.set()
        _, pending = await asyncio.wait(self._tasks, timeout=2 * self._patience_s)
        assert not pending, str(self)
        for task in self._tasks:
            task.result()

    async def give_up(self) -> None:
        """The story has failed: the clients need not finish."""
        for one in self.progress.values():
            one.gives_up.set()
        await asyncio.wait(self._tasks, timeout=GIVING_UP_S)


@asynccontextmanager
async def at_work(
    works: Mapping[str, Works], bootstrap: str, patience_s: float, committing: Collection[str]
) -> AsyncIterator[Work]:
    """Clients that have made progress, and that have finished after the block. Each works on the topic, and in the
    group, of its name. `patience_s`: how long none of them may stand still; `committing`: those that also commit.
    """
    work = Work(works, bootstrap, patience_s, committing)
    try:
        await work.progressed()
        yield work
        await work.finish()
    except BaseException:
        await work.give_up()
        raise


def tell(progress: Mapping[str, Progress]) -> None:
    """Print what they have done."""
    for name, one in progress.items():
        print(f"{name}: {len(one.written)} written, {len(one.read)} read, "
              f"at most {one.longest_s:.1f} s without progress")  # fmt: skip
