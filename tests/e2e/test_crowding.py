"""Limits of a server with clients of librdkafka: full groups, silent connections, little memory for requests."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest

from tests.e2e.conftest import SERVER
from tests.support.servers import QUICK, MusterServer

pytestmark = pytest.mark.skipif(SERVER != "muster" or "MUSTER_TEST_BOOTSTRAP" in os.environ, reason="its own limits")
IDLE_MS = 1_000
RECORD_BYTES = 400_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterServer]:
    properties = {
        **QUICK,
        "group.consumer.max.size": "1",
        "connections.max.idle.ms": str(IDLE_MS),
        "queued.max.request.bytes": "1000000",
        "socket.request.max.bytes": "1000000",
    }
    found = MusterServer(
        tmp_path_factory.mktemp("crowding"),
        properties,
        in_memory=True,
        arguments=["--topic", "t:2", "--log-level", "debug"],
    )
    found.start()
    yield found
    found.stop()


@contextlib.contextmanager
def consuming(server: MusterServer, group: str, **more: Any) -> Iterator[confluent_kafka.Consumer]:
    """A consumer that reads topic "t"."""
    settings = {
        "bootstrap.servers": server.bootstrap, "group.id": group, "auto.offset.reset": "earliest", "log_level": 0,
        **{name.replace("_", "."): value for name, value in more.items()},
    }  # fmt: skip
    with contextlib.closing(confluent_kafka.Consumer(settings, logger=None)) as consumer:
        yield consumer


def test_a_full_consumer_group_refuses_a_member(server: MusterServer) -> None:
    with consuming(server, "full", group_protocol="consumer") as first:
        assigned: list[int] = []
        first.subscribe(["t"], on_assign=lambda _, partitions: assigned.append(len(partitions)))
        while sum(assigned) < 2:
            record = first.poll(0.1)
            assert record is None or record.error() is None
        with consuming(server, "full", group_protocol="consumer") as second:
            second.subscribe(["t"])
            error = None
            while error is None:
                record = second.poll(0.2)
                error = record.error() if record is not None else None
            assert "Consumer group has reached maximum size" in error.str()
        record = first.poll(0.5)
        assert record is None or record.error() is None
        assert sum(assigned) == 2


def test_a_member_whose_idle_connections_are_closed_stays_in_the_group(server: MusterServer) -> None:
    """The member sends a heartbeat every 2 s: by then its connection to the coordinator is closed, and it opens
    another.
    """
    assigned: list[int] = []
    lost: list[int] = []
    with consuming(server, "idle", heartbeat_interval_ms=2_000, fetch_wait_max_ms=10) as consumer:
        consumer.subscribe(
            ["t"],
            on_assign=lambda _, partitions: assigned.append(len(partitions)),
            on_revoke=lambda _, partitions: lost.append(len(partitions)),
        )
        while not assigned:
            consumer.poll(0.1)
        before = server.log().count("closed an idle connection")
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            consumer.poll(0.1)
        assert server.log().count("closed an idle connection") > before
        assert (assigned, lost) == ([2], [])
        consumer.commit(offsets=[confluent_kafka.TopicPartition("t", 0, 0)], asynchronous=False)


def test_large_requests_that_exceed_the_memory_together_are_all_served(server: MusterServer) -> None:
    errors: list[object] = []
    producers = [
        confluent_kafka.Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 0, "log_level": 0}, logger=None)
        for _ in range(8)
    ]
    for _ in range(3):
        for producer in producers:
            producer.produce("t", b"x" * RECORD_BYTES, on_delivery=lambda error, _: errors.append(error))
            producer.poll(0)
    assert [producer.flush(30) for producer in producers] == [0] * 8
    assert errors == [None] * 24
