"""Kafka Streams on Muster as its only cluster: word count, two instances, one killed. `make conformance-streams`.

Streams has its state in RocksDB, and deletes records of the repartition topic once they are read. It runs with its own
cooperative assignor (classic protocol), where Streams makes repartition and changelog topics, and with KIP-1071, where
the server makes them and assigns the tasks. It runs with at-least-once, its default, and with exactly-once.
"""

from __future__ import annotations

import random
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from tests.e2e.conftest import create_topic, new_server
from tests.e2e.ledger import eventually_sync
from tests.support import wire
from tests.support.servers import QUICK, ServerProcess, kafka_jars

HERE = Path(__file__).parent
PARTITIONS = 4
TASKS = {f"{part}_{partition}" for part in (0, 1) for partition in range(PARTITIONS)}
"""Part 0 splits lines into words, part 1 counts them; a task of each for every partition."""
REPARTITION, CHANGELOG = "word-count-words-repartition", "word-count-counts-store-changelog"
SETTINGS = {
    "commit.interval.ms": "200",
    "statestore.cache.max.bytes": "0",
    "repartition.purge.interval.ms": "500",
    "default.key.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
    "default.value.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
    "main.consumer.auto.offset.reset": "earliest",
}
PROTOCOLS: Mapping[str, Mapping[str, str]] = {
    "classic": {"main.consumer.session.timeout.ms": "3000", "main.consumer.heartbeat.interval.ms": "300"},
    "streams": {"group.protocol": "streams"},
}
"""The settings of each protocol. With the streams protocol, the server sets the times."""
TIMES = {
    "group.streams.min.session.timeout.ms": "1000", "group.streams.session.timeout.ms": "3000",
    "group.streams.min.heartbeat.interval.ms": "100", "group.streams.heartbeat.interval.ms": "300",
    "group.streams.initial.rebalance.delay.ms": "500",
}  # fmt: skip
EXACTLY_ONCE = {"processing.guarantee": "exactly_once_v2", "producer.transaction.timeout.ms": "3000"}
WORDS = [f"word{number}" for number in range(50)]


class Instance:
    """One process of the application."""

    def __init__(self, classes: str, server: ServerProcess, workdir: Path, more: Mapping[str, str]) -> None:
        self.said: list[str] = []
        self.log_path = workdir / "log"
        workdir.mkdir(parents=True, exist_ok=True)
        settings = [f"{name}={value}" for name, value in {**SETTINGS, **more}.items()]
        java = ["java", "-Xmx256M", "-XX:TieredStopAtLevel=1", "-cp", classes]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*java, "WordCount", server.bootstrap, str(workdir / "state"), *settings],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._reader = threading.Thread(target=self._read, name="instance")
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        self.said.extend(iter(line.strip() for line in self._process.stdout))

    @property
    def tasks(self) -> set[str]:
        """The active tasks that the member reported last."""
        reported = [line for line in list(self.said) if line.startswith("tasks")]
        return set(reported[-1].split()[1:]) if reported else set()

    @property
    def state(self) -> str:
        reported = [line for line in list(self.said) if line.startswith("state")]
        return reported[-1].split()[1] if reported else ""

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self.close()

    def close(self) -> None:
        """Let it end as an application does."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if not self._process.stdin.closed:
            self._process.stdin.close()
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._reader.join()
            self._process.stdout.close()


Start = Callable[..., Instance]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    # what a killed instance had begun holds its readers up until it is timed out
    often = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
    server = new_server(tmp_path / "server", {**QUICK, **TIMES, **often})
    server.start()
    create_topic(server, "lines", PARTITIONS)
    create_topic(server, "counts", PARTITIONS)
    yield server
    server.stop()


@pytest.fixture(params=PROTOCOLS)
def start(request: pytest.FixtureRequest, server: ServerProcess, tmp_path: Path) -> Iterator[Start]:
    """Start an instance of that name, with more settings; its state stays when it is started again."""
    jars = kafka_jars()
    classes = tmp_path / "classes"
    subprocess.run(["javac", "-cp", f"{jars}/*", "-d", classes, HERE / "WordCount.java"], check=True)
    started: list[Instance] = []

    def run(name: str, more: Mapping[str, str] = MappingProxyType({})) -> Instance:
        started.append(Instance(f"{classes}:{jars}/*", server, tmp_path / name, {**PROTOCOLS[request.param], **more}))
        return started[-1]

    yield run
    for instance in started:
        instance.close()


class Lines:
    """Writes lines of random words, and knows how often each word was written."""

    def __init__(self, server: ServerProcess) -> None:
        self.written: Counter[str] = Counter()
        self._rng = random.Random(11)
        self._producer = Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 5})

    def write(self, count: int) -> None:
        for _ in range(count):
            words = self._rng.choices(WORDS, k=self._rng.randrange(1, 8))
            self.written.update(words)
            self._producer.produce("lines", " ".join(words).encode(), partition=self._rng.randrange(PARTITIONS))
        assert self._producer.flush(30) == 0


def newest(server: ServerProcess, topic: str) -> dict[str, int]:
    """The last count of each word in a topic, of those that are committed."""
    settings = {"group.id": "nobody", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": server.bootstrap, **settings, "isolation.level": "read_committed"})
    found: dict[str, int] = {}
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
        ended: set[int] = set()
        while len(ended) < PARTITIONS:
            for record in consumer.consume(1000, timeout=1):
                if record.error() is not None:
                    assert record.error().code() == KafkaError._PARTITION_EOF, record.error()
                    ended.add(record.partition())
                else:
                    found[record.key().decode()] = int.from_bytes(record.value(), "big")
    finally:
        consumer.close()
    return found


def all_read(server: ServerProcess) -> bool:
    """Whether the application has committed everything that there is to read."""
    rows = [TopicPartition(topic, number) for topic in ("lines", REPARTITION) for number in range(PARTITIONS)]
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "word-count", "enable.auto.commit": False})
    try:
        return all(
            row.offset >= consumer.get_watermark_offsets(row, timeout=30)[1]
            for row in consumer.committed(rows, timeout=30)
        )
    finally:
        consumer.close()


def start_offsets(server: ServerProcess, topic: str) -> list[int]:
    """The first offset of each partition that is still there."""
    offsets = []
    with socket.create_connection(server.address, timeout=30) as connection:
        for partition in range(PARTITIONS):
            answer = wire.call(connection, wire.list_offsets(topic, partition, -2))
            answer.number("i")
            answer.string()
            answer.number("i")
            answer.number("i")
            assert answer.number("h") == 0
            answer.number("q")
            offsets.append(answer.number("q"))
    return offsets


def wait(condition: Callable[[], object], what: str, *instances: Instance) -> None:
    def or_failed() -> bool:
        for instance in instances:
            assert not [line for line in instance.said if line.startswith("failed")], instance.log_path.read_text()
        return bool(condition())

    try:
        eventually_sync(or_failed, what, 90)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{[instance.said for instance in instances]}") from None


def test_kafka_streams_counts_words_across_a_killed_instance(server: ServerProcess, start: Start) -> None:
    lines = Lines(server)
    lines.write(500)
    one = start("one")
    wait(lambda: one.tasks == TASKS and one.state == "RUNNING", "one instance to have all tasks", one)
    wait(lambda: newest(server, "counts") == lines.written, "every word to be counted, once", one)

    two = start("two")

    def shared() -> bool:
        return one.tasks | two.tasks == TASKS and not one.tasks & two.tasks and len(one.tasks) == len(two.tasks) == 4

    wait(lambda: shared() and one.state == two.state == "RUNNING", "two instances to share the tasks", one, two)
    lines.write(500)
    wait(lambda: newest(server, "counts") == lines.written, "every word to be counted, once", one, two)

    kept = one.tasks
    two.kill()
    lines.write(500)
    wait(lambda: one.tasks == TASKS and one.state == "RUNNING", "the tasks of the killed one to be taken over", one)
    assert kept <= one.tasks
    wait(lambda: all_read(server), "all to be read", one)
    before = newest(server, "counts")
    assert before.keys() == lines.written.keys()
    assert [word for word, count in lines.written.items() if before[word] < count] == [], "at least once"
    assert newest(server, CHANGELOG) == before

    again = start("two")
    wait(lambda: len(again.tasks) == 4 and again.state == "RUNNING", "the killed one to be back", one, again)
    more = Lines(server)
    more.write(300)
    expected = {word: before[word] + more.written[word] for word in before}
    wait(lambda: newest(server, "counts") == expected, "what came then to be counted, once", one, again)
    wait(lambda: all(start_offsets(server, REPARTITION)), "records that were read to be deleted", one, again)


def test_kafka_streams_counts_words_exactly_once(server: ServerProcess, start: Start) -> None:
    lines = Lines(server)
    one = start("one", EXACTLY_ONCE)
    two = start("two", EXACTLY_ONCE)

    def shared() -> bool:
        return one.tasks | two.tasks == TASKS and not one.tasks & two.tasks and len(one.tasks) == len(two.tasks) == 4

    def counted() -> bool:
        return newest(server, "counts") == lines.written

    wait(lambda: shared() and one.state == two.state == "RUNNING", "two instances to share the tasks", one, two)
    lines.write(500)
    wait(counted, "every word to be counted, once", one, two)
    for _ in range(2):  # in the middle of its work
        before = sum(newest(server, "counts").values())
        lines.write(2000)
        wait(lambda: sum(newest(server, "counts").values()) > before, "some of it", one)  # noqa: B023  # at once
        two.kill()
        wait(counted, "every word to be counted, once, by the one that is left", one)
        two = start("two", EXACTLY_ONCE)
        wait(lambda: shared() and two.state == "RUNNING", "the killed one to be back", one, two)  # noqa: B023
    lines.write(500)
    wait(counted, "every word to be counted, once", one, two)
    assert newest(server, CHANGELOG) == lines.written
