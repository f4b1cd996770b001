"""Applications of Kafka Streams with the streams protocol (KIP-1071), Muster as their only cluster.

`make conformance-streams`. With MUSTER_TEST_SERVER=kafka they run on a real Kafka.
"""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from muster.client.kafka_client import KafkaClient
from muster.coordinator.config.listeners import Address
from muster.protocol.api import ApiKey
from muster.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from tests.conformance.streams_instances import (
    CHANGELOG,
    CLASSIC,
    EXACTLY_ONCE,
    PARTITIONS,
    SERVER_SETTINGS,
    STREAMS,
    Instance,
    Lines,
    all_of,
    newest,
    shared,
    starting,
    wait,
)
from tests.e2e.conftest import create_topic, new_server
from tests.support.servers import KAFKA_SCRIPTS, KafkaServer, MusterServer, ServerProcess

Start = Callable[..., Instance]
CONFIGS, TOPICS = "org.apache.kafka.tools.ConfigCommand", "org.apache.kafka.tools.TopicCommand"
COUNTING = frozenset(f"1_{partition}" for partition in range(PARTITIONS))
"""The tasks of word-count that have a store."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    server = new_server(tmp_path / "server", SERVER_SETTINGS)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def start(server: ServerProcess, tmp_path: Path) -> Iterator[Start]:
    yield from starting(server, tmp_path)


def topics(server: ServerProcess, **partitions: int) -> None:
    for name, number in partitions.items():
        create_topic(server, name, number)


def tool(server: ServerProcess, name: str, *words: str) -> str:
    """What one of Kafka's tools prints."""
    command = [f"{KAFKA_SCRIPTS / 'kafka-tool.sh'}", name, "--bootstrap-server", server.bootstrap, *words]
    return f"{subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout}"


def configure_group(server: ServerProcess, *configs: str) -> None:
    """Give the group of word-count these configs."""
    entity = ["--entity-type", "groups", "--entity-name", "word-count"]
    tool(server, CONFIGS, "--alter", *entity, "--add-config", ",".join(configs))


def described(server: ServerProcess, topic: str) -> str:
    """The number of partitions and the configs of a topic."""
    return tool(server, TOPICS, "--describe", "--topic", topic).splitlines()[0]


class Orders:
    """Writes customers and orders, and knows which order ids there are."""

    CUSTOMERS = 100

    def __init__(self, server: ServerProcess) -> None:
        self.written: Counter[str] = Counter()
        self._rng = random.Random(3)
        self._producer = Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 5})
        for number in range(self.CUSTOMERS):
            # the partitioner of Java's clients, so that both sides of the join agree
            self._partitioned("customers", f"customer{number}", f"name{number}")
        assert self._producer.flush(30) == 0

    def _partitioned(self, topic: str, key: str, value: str) -> None:
        self._producer.produce(topic, value.encode(), key.encode(), partition=murmur(key.encode()) % PARTITIONS)

    def write(self, count: int) -> None:
        for _ in range(count):
            order = f"order{sum(self.written.values())}"
            self.written[order] += 1
            customer = f"customer{self._rng.randrange(self.CUSTOMERS)}"
            self._producer.produce("orders", customer.encode(), order.encode(), partition=self._rng.randrange(3))
        assert self._producer.flush(30) == 0


def murmur(data: bytes) -> int:
    """Murmur2 as Java's clients have it, as a number that is not negative."""
    seed, m, mask = 0x9747B28C, 0x5BD1E995, 0xFFFFFFFF
    h = seed ^ len(data)
    for at in range(0, len(data) - len(data) % 4, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        h = (h * m & mask) ^ ((k ^ k >> 24) * m & mask)
    rest = data[len(data) - len(data) % 4 :]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return (h ^ h >> 15) & 0x7FFFFFFF


def test_a_join_through_a_repartition_topic_exactly_once(server: ServerProcess, start: Start) -> None:
    topics(server, orders=3, customers=PARTITIONS, joined=PARTITIONS)
    orders = Orders(server)
    tasks = frozenset([*(f"1_{number}" for number in range(3)), *(f"0_{number}" for number in range(PARTITIONS))])
    tasks_found: set[str] = set()

    def joined() -> bool:
        return Counter(value.decode().split(":")[0] for _, value in all_of(server, "joined")) == orders.written

    one, two, three = (start("join", name, {**STREAMS, **EXACTLY_ONCE}) for name in ("one", "two", "three"))

    def settled(*instances: Instance) -> bool:
        tasks_found.clear()
        tasks_found.update(*(one.tasks for one in instances))
        return all(one.state == "RUNNING" for one in instances) and len(tasks_found) == sum(
            len(one.tasks) for one in instances
        ) == len(tasks)

    wait(lambda: settled(one, two, three), "three instances to share the tasks", one, two, three)
    orders.write(1_000)
    wait(joined, "each order to be joined once", one, two, three)
    assert "PartitionCount: 4" in described(server, "join-by-customer-repartition")
    for _ in range(2):  # in the middle of its work
        before = len(all_of(server, "joined"))
        orders.write(3_000)
        wait(lambda: len(all_of(server, "joined")) > before, "some of it", one, two)  # noqa: B023  # at once
        three.kill()
        wait(joined, "each order to be joined once by those that are left", one, two)
        three = start("join", "three", {**STREAMS, **EXACTLY_ONCE})
        wait(lambda: settled(one, two, three), "the killed one to be back", one, two, three)  # noqa: B023  # it is called at once
    four = start("join", "four", {**STREAMS, **EXACTLY_ONCE})
    wait(lambda: settled(one, two, three, four), "a fourth to have tasks", one, two, three, four)
    orders.write(1_000)
    wait(joined, "each order to be joined once by four", one, two, three, four)
    named = [value.decode().split(":")[1] for _, value in all_of(server, "joined")]
    assert len([name for name in named if name.startswith("name")]) >= 2_000, "most orders find their customer"


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_of_three_instances_one_is_killed_and_one_is_added(guarantee: str, server: ServerProcess, start: Start) -> None:
    topics(server, lines=PARTITIONS, counts=PARTITIONS)
    more = {**STREAMS, **(EXACTLY_ONCE if guarantee == "exactly_once_v2" else {})}
    lines = Lines(server)

    def counted() -> bool:
        found = newest(server, "counts")
        if guarantee == "exactly_once_v2":
            return found == lines.written
        return found.keys() == lines.written.keys() and all(found[word] >= lines.written[word] for word in found)

    one, two, three = (start("word-count", name, more) for name in ("one", "two", "three"))
    wait(lambda: shared(one, two, three), "three instances to share the tasks", one, two, three)
    lines.write(1_000)
    wait(counted, "every word to be counted", one, two, three)
    kept = one.tasks, two.tasks
    lines.write(2_000)
    three.kill()
    wait(lambda: shared(one, two), "two instances to share the tasks", one, two)
    assert kept[0] <= one.tasks
    assert kept[1] <= two.tasks
    wait(counted, "every word to be counted by two", one, two)
    four = start("word-count", "four", more)
    lines.write(2_000)
    wait(lambda: shared(one, two, four), "the new one to have tasks", one, two, four)
    wait(counted, "every word to be counted by three again", one, two, four)


def test_a_standby_takes_over_and_a_new_instance_warms_up(server: ServerProcess, start: Start) -> None:
    topics(server, lines=PARTITIONS, counts=PARTITIONS)
    configure_group(server, "streams.num.standby.replicas=1", "streams.num.warmup.replicas=1")
    lines = Lines(server)
    lines.write(1_000)

    def counted() -> bool:
        return newest(server, "counts") == lines.written

    def replicated(*instances: Instance) -> bool:
        standbys = [one.standbys for one in instances]
        return (
            shared(*instances)
            and set().union(*standbys) == COUNTING
            and sum(map(len, standbys)) == len(COUNTING)
            and not any(one.tasks & one.standbys for one in instances)
        )

    one, two = start("word-count", "one", STREAMS), start("word-count", "two", STREAMS)
    wait(lambda: replicated(one, two), "each task with a store to have a standby", one, two)
    wait(counted, "every word to be counted", one, two)
    wait(lambda: one.standbys == two.tasks & COUNTING and two.standbys == one.tasks & COUNTING, "standbys", one, two)
    two.kill()
    wait(lambda: shared(one) and one.standbys == set(), "the standbys to be active", one)
    three = start("word-count", "three", STREAMS)
    wait(lambda: replicated(one, three), "the new one to have tasks and standbys", one, three)
    more = Lines(server)
    before = newest(server, "counts")
    more.write(300)
    expected = {word: before[word] + more.written[word] for word in before}
    wait(lambda: newest(server, "counts") == expected, "what came then to be counted, once", one, three)


def test_static_members_keep_their_tasks(server: ServerProcess, start: Start) -> None:
    topics(server, lines=PARTITIONS, counts=PARTITIONS)
    configure_group(server, "streams.session.timeout.ms=40000")

    def begin(name: str) -> Instance:
        return start("word-count", name, {**STREAMS, "group.instance.id": name})

    one, two = begin("one"), begin("two")
    wait(lambda: shared(one, two), "two instances to share the tasks", one, two)
    lines = Lines(server)
    lines.write(300)
    wait(lambda: newest(server, "counts") == lines.written, "every word to be counted, once", one, two)
    before, said = (one.tasks, two.tasks), len(one.said)
    two.close()
    two = begin("two")
    wait(lambda: shared(one, two), "the static member to be back", one, two)
    assert (one.tasks, two.tasks) == before
    assert one.said[said:] == [], "nothing has changed for the other member"
    lines.write(300)
    wait(lambda: newest(server, "counts") == lines.written, "every word to be counted, once", one, two)


def test_a_windowed_count(server: ServerProcess, start: Start) -> None:
    topics(server, events=PARTITIONS, windowed=PARTITIONS)
    one = start("windows", "one", {**STREAMS, **EXACTLY_ONCE})
    two = start("windows", "two", {**STREAMS, **EXACTLY_ONCE})
    tasks = frozenset(f"0_{number}" for number in range(PARTITIONS))
    wait(lambda: shared(one, two, tasks=tasks), "two instances to share the tasks", one, two)
    producer = Producer({"bootstrap.servers": server.bootstrap})
    written: Counter[str] = Counter()
    rng, start_s = random.Random(5), int(time.time()) - 100

    def write(seconds: range) -> None:
        for second in seconds:
            for number in range(200):
                key = f"key{number % 20}"
                written[f"{key}@{start_s + second}"] += 1
                # keys of a partition stay there: a late record would be dropped
                place, at_ms = number % 20 % PARTITIONS, (start_s + second) * 1000 + rng.randrange(1)
                producer.produce("events", b"1", key.encode(), partition=place, timestamp=at_ms)
        assert producer.flush(30) == 0

    write(range(10))
    wait(lambda: newest(server, "windowed") == written, "every event to be counted, once", one, two)
    write(range(10, 20))
    two.kill()
    wait(lambda: newest(server, "windowed") == written, "every event to be counted, once, by one", one)
    configs = described(server, "windows-windows-store-changelog")
    assert "cleanup.policy=compact,delete" in configs
    assert "retention.ms=86401000" in configs, "the window, and a day more"


def test_instances_know_where_each_store_is(server: ServerProcess, start: Start) -> None:
    topics(server, lines=PARTITIONS, counts=PARTITIONS)
    configure_group(server, "streams.num.standby.replicas=1")
    one = start("word-count", "one", {**STREAMS, "application.server": "one.example:1111"})
    two = start("word-count", "two", {**STREAMS, "application.server": "two.example:2222"})

    def rows() -> set[str]:
        """The answer that is right for the tasks that the instances have now."""
        found = set()
        for name, instance in (("one.example:1111", one), ("two.example:2222", two)):
            its = [
                ",".join(sorted(task[2:] for task in tasks & COUNTING)) for tasks in (instance.tasks, instance.standbys)
            ]
            found.add(f"{name}={its[0]}/{its[1]}")
        return found

    wait(lambda: shared(one, two) and one.standbys | two.standbys == COUNTING, "standbys", one, two)
    wait(lambda: one.hosts("counts-store") == rows() == two.hosts("counts-store"), "both to know it", one, two)
    two.close()
    wait(lambda: shared(one), "the tasks to be taken over", one)
    wait(lambda: one.hosts("counts-store") == {"one.example:1111=0,1,2,3/"}, "the other to be forgotten", one)


def test_an_instance_shuts_the_application_down(server: ServerProcess, start: Start) -> None:
    topics(server, lines=PARTITIONS, counts=PARTITIONS)
    instances = [start("word-count", name, STREAMS) for name in ("one", "two", "three")]
    wait(lambda: shared(*instances), "three instances to share the tasks", *instances)
    producer = Producer({"bootstrap.servers": server.bootstrap})
    producer.produce("lines", b"poison", partition=0)
    assert producer.flush(30) == 0
    wait(lambda: all(one.state == "ERROR" for one in instances), "all to end", *instances)
    assert sum(any(line.startswith("poison") for line in one.said) for one in instances) == 1


def test_a_missing_source_topic_is_created_later(server: ServerProcess, start: Start) -> None:
    topics(server, counts=PARTITIONS)
    one = start("word-count", "one", STREAMS)
    missing = "MissingSourceTopicException: Missing source topics: Source topics lines are missing."
    wait(lambda: any(missing in line for line in one.said), "the application to know what is missing")
    wait(lambda: one.state == "ERROR", "it to end")
    configure_group(server, "streams.heartbeat.interval.ms=15000", "streams.session.timeout.ms=45000")
    two, three = (start("word-count", name, STREAMS) for name in ("two", "three"))  # they wait for two intervals
    wait(lambda: two.state and three.state, "both to have begun", two, three)
    topics(server, lines=PARTITIONS)
    wait(lambda: shared(two, three), "two instances to share the tasks", two, three)
    lines = Lines(server)
    lines.write(300)
    wait(lambda: newest(server, "counts") == lines.written, "every word to be counted, once", two, three)


def test_an_application_goes_from_classic_to_streams_and_back(server: ServerProcess, start: Start) -> None:
    topics(server, lines=PARTITIONS, counts=PARTITIONS)
    lines = Lines(server)
    for protocol in (CLASSIC, STREAMS, CLASSIC):
        one, two = (start("word-count", name, {**protocol, **EXACTLY_ONCE}) for name in ("one", "two"))
        wait(lambda: shared(one, two), f"two instances to share the tasks: {protocol}", one, two)  # noqa: B023  # it is called at once
        lines.write(500)
        wait(lambda: newest(server, "counts") == lines.written, "every word to be counted, once", one, two)
        one.close()
        two.close()
    assert newest(server, CHANGELOG) == lines.written


def state(server: ServerProcess) -> str:
    """The state of word-count's group."""
    request = StreamsGroupDescribeRequest(["word-count"])
    with KafkaClient(Address(*server.address)) as client:
        answer = client.coordinator("word-count").ask(ApiKey.STREAMS_GROUP_DESCRIBE, request)
    return f"{answer.groups[0].group_state}"


PROCESSES = {
    "one": "0bd1a6d5-3b0e-4a54-9f1b-1c7a3a1f0001",
    "two": "5f1fb3a9-90a5-4f5c-8d3a-6f4c0a2e0002",
    "three": "c3d0e0a8-2d6f-4b5d-a9c4-7e9b1d3f0003",
}


def placements(server: ServerProcess, workdir: Path) -> list[dict[str, tuple[list[str], list[str]]]]:
    """The active and standby tasks of each instance while one, two and then three of them run."""
    found = []
    topics(server, lines=PARTITIONS, counts=PARTITIONS)
    configure_group(server, "streams.num.standby.replicas=1")
    for start in starting(server, workdir):
        running: dict[str, Instance] = {}

        def settled(instances: dict[str, Instance]) -> bool:
            copied = set().union(*(one.standbys for one in instances.values()))
            is_copied = len(instances) == 1 or copied == COUNTING
            return is_copied and shared(*instances.values()) and state(server) == "Stable"

        for name, process in PROCESSES.items():
            running[name] = start("word-count", name, {**STREAMS, "process": process})
            wait(lambda: settled(running), f"{len(running)} instances to share", *running.values())  # noqa: B023  # it is called at once
            found.append({name: (sorted(one.tasks), sorted(one.standbys)) for name, one in running.items()})
    return found


def test_tasks_are_where_kafka_puts_them(tmp_path: Path) -> None:
    found = []
    for kind in (MusterServer, KafkaServer):
        server = kind(tmp_path / kind.name, SERVER_SETTINGS)
        server.start()
        try:
            found.append(placements(server, tmp_path / f"of-{kind.name}"))
        finally:
            server.kill()
    for rows in found:  # which of three instances gets some of the copies depends on random member ids
        rows[-1] = {name: (active, []) for name, (active, _) in rows[-1].items()}
    assert found[0] == found[1]
