"""A topic of many segments that moves to another node: the node reads the newest segment, and serves all of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import asyncpg
import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from muster.postgres import administration
from muster.postgres.store import Identity
from tests.e2e.conftest import BOOTSTRAP, SERVER
from tests.e2e.test_cluster import BETWEEN_LOOKS_S, admin_of, leaders
from tests.support.cluster_nodes import ClusterNode
from tests.support.postgres import own_database
from tests.support.servers import QUICK, free_port_pair

pytestmark = pytest.mark.skipif(SERVER != "muster" or bool(BOOTSTRAP), reason="nodes of Muster's own")
SEGMENT_BYTES = 50_000
CACHE_BYTES = 200_000
RECORDS = 300
"""The number of records, of 4 KB each: some 25 segments."""


@pytest.fixture
def database(postgres: str) -> Iterator[str]:
    with own_database(postgres) as url:
        yield url


def value(number: int) -> bytes:
    return b"%06d" % number * 680


def read(bootstrap: str, start: int, count: int) -> list[Message]:
    """Return `count` records that were not aborted, from an offset on, as a new client reads them."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "g", "log_level": 0, "isolation.level": "read_committed"}
    )
    consumer.assign([TopicPartition("wide", 0, start)])
    found: list[Message] = []
    while len(found) < count:
        for message in consumer.consume(100, 1.0):
            assert message.error() is None
            found.append(message)
    consumer.close()
    return found


def offset_at(bootstrap: str, timestamp_ms: int) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "log_level": 0})
    (found,) = consumer.offsets_for_times([TopicPartition("wide", 0, timestamp_ms)], timeout=30)
    consumer.close()
    return int(found.offset)


def files(node: ClusterNode) -> list[Path]:
    return list((node.workdir / "copy" / "wide-0").glob("*.log"))


async def checkpoint_of(database: str) -> tuple[int, int]:
    """Where the checkpoint of the topic's log is, and how many of its segments are live."""
    connection = await asyncpg.connect(database)
    row = await connection.fetchrow(
        "SELECT coalesce(checkpoint_offset, -1), (SELECT count(*) FROM muster_segments s "
        "WHERE s.log_no = l.log_no AND s.state = 0) FROM muster_logs l WHERE topic = 'wide'"
    )
    await connection.close()
    return tuple(row)


def test_a_topic_of_many_segments_is_served_after_it_moves_to_another_node(database: str, tmp_path: Path) -> None:
    asyncio.run(administration.init(database, "muster", Identity("of-the-test", "AAAAAAAAAAAAAAAAAAAAAQ")))
    with ExitStack() as ends:
        nodes = []
        for number in range(2):
            properties = {**QUICK, "offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2",
                          "broker.session.timeout.ms": "2500", "muster.cluster.segment.bytes": str(SEGMENT_BYTES),
                          "muster.cluster.cache.bytes": str(CACHE_BYTES)}  # fmt: skip
            workdir = tmp_path / f"node-{number}"
            arguments = ["--cluster", database, "--data-dir", str(workdir / "copy"), "--topic", "wide:1"]
            node = ClusterNode(workdir, properties, arguments=arguments)
            node.bootstrap = f"127.0.0.1:{free_port_pair()}"
            nodes.append(node)
            ends.callback(lambda node=node: node.running and node.stop())
            node.begin()
            node.until_ready()
        bootstrap = ",".join(node.bootstrap for node in nodes)
        (leader,) = leaders(admin_of(nodes), "wide")
        first, second = nodes if leader == 1 else reversed(nodes)

        expected = []
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t", "log_level": 0, "linger.ms": 0})
        producer.init_transactions(30)
        for start in range(0, RECORDS, 20):
            producer.begin_transaction()
            for number in range(start, start + 20):
                producer.produce("wide", value(number), partition=0)
            if start % 60 == 40:
                producer.abort_transaction(30)
            else:
                producer.commit_transaction(30)
                expected += range(start, start + 20)
        before = read(bootstrap, 0, len(expected))
        assert [message.value() for message in before] == [value(number) for number in expected]
        end, middle = before[-1].offset(), before[len(before) // 2]
        at_time = offset_at(bootstrap, middle.timestamp()[1])
        assert 0 < at_time <= middle.offset()
        assert sum(path.stat().st_size for path in files(first)) < CACHE_BYTES + 4 * SEGMENT_BYTES

        first.kill()
        admin = admin_of([second])
        while leaders(admin, "wide") != [3 - leader]:
            time.sleep(BETWEEN_LOOKS_S)
        (last,) = read(bootstrap, end, 1)
        assert last.value() == before[-1].value()
        offset, segments = asyncio.run(checkpoint_of(database))
        assert segments > 12
        assert offset > end // 2
        assert len(files(second)) < 6
        # from the start, from the middle, and by time: the records are as before
        after = read(bootstrap, 0, len(expected))
        assert [(message.offset(), message.value()) for message in after] == [
            (message.offset(), message.value()) for message in before
        ]
        assert read(bootstrap, middle.offset(), 1)[0].value() == middle.value()
        assert offset_at(bootstrap, middle.timestamp()[1]) == at_time
        assert sum(path.stat().st_size for path in files(second)) < CACHE_BYTES + 4 * SEGMENT_BYTES
        # and the producer continues
        producer.begin_transaction()
        producer.produce("wide", b"more", partition=0)
        producer.commit_transaction(30)
        assert read(bootstrap, end + 1, 1)[0].value() == b"more"
