"""Instances of a Kafka Streams application (Applications.java) as subprocesses, and the topics around them."""

from __future__ import annotations

import random
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from tests.e2e.ledger import eventually_sync
from tests.support.servers import QUICK, ServerProcess, kafka_jars

HERE = Path(__file__).parent
PARTITIONS = 4
TASKS = frozenset(f"{part}_{partition}" for part in (0, 1) for partition in range(PARTITIONS))
"""Of word-count: part 0 splits lines into words, part 1 counts them; a task of each for every partition."""
REPARTITION, CHANGELOG = "word-count-words-repartition", "word-count-counts-store-changelog"
SETTINGS = {
    "commit.interval.ms": "200",
    "statestore.cache.max.bytes": "0",
    "repartition.purge.interval.ms": "500",
    "default.key.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
    "default.value.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
    "main.consumer.auto.offset.reset": "earliest",
}
STREAMS: Mapping[str, str] = {"group.protocol": "streams"}
"""The server sets the times."""
CLASSIC: Mapping[str, str] = {"main.consumer.session.timeout.ms": "3000", "main.consumer.heartbeat.interval.ms": "300"}
SERVER_SETTINGS = {
    **QUICK,
    "group.streams.min.session.timeout.ms": "1000", "group.streams.session.timeout.ms": "3000",
    "group.streams.min.heartbeat.interval.ms": "100", "group.streams.heartbeat.interval.ms": "300",
    "group.streams.initial.rebalance.delay.ms": "500",
    # what a killed instance had begun holds its readers up until it is timed out
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}  # fmt: skip
EXACTLY_ONCE = {"processing.guarantee": "exactly_once_v2", "producer.transaction.timeout.ms": "3000"}
WORDS = [f"word{number}" for number in range(50)]
PATIENCE_S = 90


class Instance:
    """One process of an application."""

    def __init__(
        self, classes: str, application: str, server: ServerProcess, workdir: Path, more: Mapping[str, str]
    ) -> None:
        """`more` has settings. Among them, "process" is the process id of the instance; any id without it."""
        self.said: list[str] = []
        self.log_path = workdir / "log"
        workdir.mkdir(parents=True, exist_ok=True)
        settings = [f"{name}={value}" for name, value in {**SETTINGS, **more}.items() if name != "process"]
        java = ["java", "-Xmx256M", "-XX:TieredStopAtLevel=1", "-cp", classes, "Applications", application]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*java, server.bootstrap, str(workdir / "state"), more.get("process", ""), *settings],
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

    def _last(self, what: str) -> list[str]:
        reported = [line for line in list(self.said) if line.split(" ")[0] == what]
        return reported[-1].split()[1:] if reported else []

    @property
    def tasks(self) -> set[str]:
        """The active tasks that the instance reported last."""
        return set(self._last("tasks"))

    @property
    def standbys(self) -> set[str]:
        """Its standby and warm-up tasks."""
        return set(self._last("standbys"))

    @property
    def state(self) -> str:
        """The name of its state in Kafka Streams."""
        return "".join(self._last("state"))

    def hosts(self, store: str) -> set[str]:
        """Where the instance says that a store is: rows HOST:PORT=partitions/standby partitions."""
        before = sum(line.startswith("hosts") for line in self.said)
        assert self._process.stdin is not None
        self._process.stdin.write(f"hosts {store}\n")
        self._process.stdin.flush()
        eventually_sync(lambda: sum(line.startswith("hosts") for line in self.said) > before, "an answer", PATIENCE_S)
        return set(self._last("hosts"))

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


def starting(server: ServerProcess, workdir: Path) -> Iterator[Start]:
    """Start instances by `start(application, name, settings)`. The state stays when an instance starts again."""
    jars = kafka_jars()
    classes = workdir / "classes"
    subprocess.run(["javac", "-cp", f"{jars}/*", "-d", classes, HERE / "Applications.java"], check=True)
    started: list[Instance] = []

    def start(application: str, name: str, more: Mapping[str, str] = MappingProxyType({})) -> Instance:
        started.append(Instance(f"{classes}:{jars}/*", application, server, workdir / name, more))
        return started[-1]

    yield start
    for instance in started:
        instance.close()


class Lines:
    """Writes lines of random words, and knows how often each word was written."""

    def __init__(self, server: ServerProcess) -> None:
        self.written: Counter[str] = Counter()
        self._rng = random.Random(11)
        self._producer = Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 5})

    def write(self, count: int) -> None:
        """Write so many lines."""
        for _ in range(count):
            words = self._rng.choices(WORDS, k=self._rng.randrange(1, 8))
            self.written.update(words)
            self._producer.produce("lines", " ".join(words).encode(), partition=self._rng.randrange(PARTITIONS))
        assert self._producer.flush(30) == 0


def all_of(server: ServerProcess, topic: str, partitions: int = PARTITIONS) -> list[tuple[str, bytes]]:
    """Key and value of each record of a topic, of those that are committed."""
    settings = {"group.id": "nobody", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": server.bootstrap, **settings, "isolation.level": "read_committed"})
    found: list[tuple[str, bytes]] = []
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
        ended: set[int] = set()
        while len(ended) < partitions:
            for record in consumer.consume(1000, timeout=1):
                error, partition = record.error(), record.partition()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    assert partition is not None
                    ended.add(partition)
                else:
                    key, value = record.key(), record.value()
                    assert key is not None
                    assert value is not None
                    found.append((key.decode(), value))
    finally:
        consumer.close()
    return found


def newest(server: ServerProcess, topic: str) -> dict[str, int]:
    """The last count of each key in a topic, of those that are committed."""
    return {key: int.from_bytes(value, "big") for key, value in all_of(server, topic)}


def wait(condition: Callable[[], object], what: str, *instances: Instance) -> None:
    """Wait until the condition holds. None of the instances may fail meanwhile."""

    def or_failed() -> bool:
        for instance in instances:
            assert not [line for line in instance.said if line.startswith("failed")], instance.log_path.read_text()
        return bool(condition())

    try:
        eventually_sync(or_failed, what, PATIENCE_S)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{[instance.said for instance in instances]}") from None


def shared(*instances: Instance, tasks: frozenset[str] = TASKS) -> bool:
    """Whether the instances run, and each task is active in one of them, with at most one task more than in another."""
    counts = [len(one.tasks) for one in instances]
    return (
        all(one.state == "RUNNING" for one in instances)
        and set().union(*(one.tasks for one in instances)) == tasks
        and sum(counts) == len(tasks)
        and max(counts) - min(counts) <= 1
    )
