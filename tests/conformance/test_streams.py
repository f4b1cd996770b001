"""Kafka Streams on Muster as its only cluster: word count, two instances, one killed. `make conformance-streams`.

Streams has its state in RocksDB, and deletes records of the repartition topic once they are read. It runs with its own
cooperative assignor (classic protocol), where Streams makes repartition and changelog topics, and with KIP-1071, where
the server makes them and assigns the tasks. It runs with at-least-once, its default, and with exactly-once.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.conformance.streams_instances import (
    CHANGELOG,
    CLASSIC,
    EXACTLY_ONCE,
    PARTITIONS,
    REPARTITION,
    SERVER_SETTINGS,
    STREAMS,
    TASKS,
    Instance,
    Lines,
    newest,
    shared,
    starting,
    wait,
)
from tests.e2e.conftest import create_topic, new_server
from tests.support import wire
from tests.support.servers import ServerProcess

PROTOCOLS = {"classic": CLASSIC, "streams": STREAMS}
Start = Callable[..., Instance]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    server = new_server(tmp_path / "server", SERVER_SETTINGS)
    server.start()
    create_topic(server, "lines", PARTITIONS)
    create_topic(server, "counts", PARTITIONS)
    yield server
    server.stop()


@pytest.fixture(params=PROTOCOLS)
def start(request: pytest.FixtureRequest, server: ServerProcess, tmp_path: Path) -> Iterator[Start]:
    """Start an instance of that name, with more settings; its state stays when it is started again."""
    for run in starting(server, tmp_path):

        def one(name: str, more: Mapping[str, str] = MappingProxyType({})) -> Instance:
            return run("word-count", name, {**PROTOCOLS[request.param], **more})  # noqa: B023  # there is one

        yield one


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


def test_kafka_streams_counts_words_across_a_killed_instance(server: ServerProcess, start: Start) -> None:
    lines = Lines(server)
    lines.write(500)
    one = start("one")
    wait(lambda: one.tasks == TASKS and one.state == "RUNNING", "one instance to have all tasks", one)
    wait(lambda: newest(server, "counts") == lines.written, "every word to be counted, once", one)

    two = start("two")

    wait(lambda: shared(one, two), "two instances to share the tasks", one, two)
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

    def counted() -> bool:
        return newest(server, "counts") == lines.written

    wait(lambda: shared(one, two), "two instances to share the tasks", one, two)
    lines.write(500)
    wait(counted, "every word to be counted, once", one, two)
    for _ in range(2):  # in the middle of its work
        before = sum(newest(server, "counts").values())
        lines.write(2000)
        wait(lambda: sum(newest(server, "counts").values()) > before, "some of it", one)  # noqa: B023  # at once
        two.kill()
        wait(counted, "every word to be counted, once, by the one that is left", one)
        two = start("two", EXACTLY_ONCE)
        wait(lambda: shared(one, two), "the killed one to be back", one, two)  # noqa: B023  # it is called at once
    lines.write(500)
    wait(counted, "every word to be counted, once", one, two)
    assert newest(server, CHANGELOG) == lines.written
