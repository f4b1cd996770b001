"""`muster serve --cluster`: nodes over one PostgreSQL, under real clients, with kills, stops, and a database that hangs
up.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import asyncpg
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from muster.coordinator.cli import main
from muster.coordinator.database import administration
from muster.coordinator.database.store import Identity
from tests.e2e.conftest import BOOTSTRAP, SERVER
from tests.support.postgres import own_database
from tests.support.servers import QUICK, MusterServer

pytestmark = pytest.mark.skipif(SERVER != "muster" or bool(BOOTSTRAP), reason="nodes of Muster's own")
PARTITIONS = 2
LEASE_MS = 2_500


class ClusterNode(MusterServer):
    """A node that may stand by for long before it is ready."""

    def begin(self) -> None:
        """Run it; it may have to stand by."""
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(self.command(), stdout=subprocess.PIPE, stderr=log, cwd=self.workdir)

    def until_ready(self) -> None:
        """It serves."""
        assert self._process is not None
        assert self.wait_until_ready(self._process) == self.bootstrap

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


@pytest.fixture
def database(postgres: str) -> Iterator[str]:
    with own_database(postgres) as url:
        yield url


@pytest.fixture
def nodes(database: str, tmp_path: Path) -> Iterator[list[ClusterNode]]:
    """Two of them, the first in office and the second standing by."""
    asyncio.run(administration.init(database, "muster", Identity("of-the-test", "AAAAAAAAAAAAAAAAAAAAAQ")))
    made = []
    for number in range(2):
        properties = {**QUICK, "offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2",
                      "broker.session.timeout.ms": str(LEASE_MS)}  # fmt: skip
        arguments = ["--cluster", database, "--topic", f"orders:{PARTITIONS}"]
        node = ClusterNode(tmp_path / f"node-{number}", properties, arguments=arguments)
        node.bootstrap = f"127.0.0.1:{free_port()}"
        made.append(node)
    made[0].begin()
    made[0].until_ready()
    made[1].begin()
    with ExitStack() as ends:  # each of them is ended, also when one does not end as it should
        for node in made:
            ends.callback(end, node)
        yield made


def end(node: ClusterNode) -> None:
    """Stop it if it runs; it may be one that stands still."""
    if node.running:
        node.signal(signal.SIGCONT)
        node.stop()


async def hang_up(database: str) -> int:
    """Cut the connections of all nodes; how many these were."""
    connection = await asyncpg.connect(database)
    cut = await connection.fetch(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )
    await connection.close()
    return len(cut)


class Load:
    """A producer, and a member of a group that reads and commits what it produces."""

    def __init__(self, bootstrap: str) -> None:
        common = {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 100, "log_level": 0}
        self.producer = Producer({**common, "enable.idempotence": True, "message.timeout.ms": 50_000})
        self.consumer = Consumer(
            {**common, "group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False,
             "session.timeout.ms": 10_000}
        )  # fmt: skip
        self.consumer.subscribe(["orders"])
        self.sent = 0
        self.acked: set[bytes] = set()
        self.read: list[bytes] = []
        self.committed: dict[int, int] = {}

    def run(self, count: int) -> None:
        """Until so many more were acknowledged, read, and committed."""
        end = self.sent + count

        def delivered(error: object, message: object) -> None:
            assert error is None
            self.acked.add(message.value())  # type: ignore[attr-defined]

        while self.sent < end:
            self.producer.produce("orders", b"%d" % self.sent, on_delivery=delivered, partition=self.sent % PARTITIONS)
            self.sent += 1
        while len(self.acked) < end or len(self.read) < end:
            self.producer.poll(0)
            for message in self.consumer.consume(200, 0.05):
                if message.error() is None:
                    self.read.append(message.value())
        while True:
            try:
                rows = self.consumer.commit(asynchronous=False)
            except KafkaException:
                continue  # between two holders of the office
            self.committed = {row.partition: row.offset for row in rows}
            return

    def close(self) -> None:
        self.consumer.close()


def committed(bootstrap: str) -> dict[int, int]:
    """As somebody sees it who comes anew."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "log_level": 0})
    rows = consumer.committed([TopicPartition("orders", number) for number in range(PARTITIONS)], timeout=30)
    consumer.close()
    return {row.partition: row.offset for row in rows}


def test_clients_go_on_through_kills_and_stops(nodes: list[ClusterNode], database: str) -> None:
    first, second = nodes
    load = Load(f"{first.bootstrap},{second.bootstrap}")
    load.run(400)
    # with the connections to the database cut in the middle
    load.producer.produce("orders", b"%d" % load.sent, partition=0, on_delivery=lambda _, m: load.acked.add(m.value()))
    load.sent += 1
    assert asyncio.run(hang_up(database)) >= 1
    load.run(99)
    first.kill()
    second.until_ready()
    load.run(500)
    # whoever stops gives the office back, and whoever stands by takes it at once
    first.begin()
    second.stop()
    first.until_ready()
    load.run(500)
    assert sorted(load.read, key=int) == [b"%d" % number for number in range(load.sent)]
    assert load.acked == set(load.read)
    assert load.committed == committed(first.bootstrap) == {0: 750, 1: 750}
    load.close()
    assert "a member joined" not in second.log(), "the member needed no rebalance"


def test_a_transaction_outlives_the_node_that_it_began_on(nodes: list[ClusterNode]) -> None:
    first, second = nodes
    bootstrap = f"{first.bootstrap},{second.bootstrap}"
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": "t", "reconnect.backoff.max.ms": 100, "log_level": 0}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("orders", b"before", partition=0)
    producer.flush(30)
    first.kill()
    second.until_ready()
    producer.produce("orders", b"after", partition=1)
    producer.commit_transaction(60)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "r", "auto.offset.reset": "earliest",
                         "isolation.level": "read_committed", "log_level": 0})  # fmt: skip
    consumer.subscribe(["orders"])
    found: list[bytes] = []
    while len(found) < 2:
        found += [one.value() for one in consumer.consume(2, 1) if one.error() is None]
    assert sorted(found) == [b"after", b"before"]
    consumer.close()


def test_a_node_that_stood_still_too_long_stands_by(nodes: list[ClusterNode], database: str) -> None:
    first, second = nodes
    first.signal(signal.SIGSTOP)
    second.until_ready()
    first.signal(signal.SIGCONT)
    while "the office is lost" not in first.log():
        (found,) = asyncio.run(administration.status(database)).clusters
        assert (found.address, found.epoch) == (second.bootstrap, 2)
    second.stop()
    first.until_ready()


def test_what_is_said_when_it_cannot_be_served(
    tmp_path: Path, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    muster = MusterServer(tmp_path / "unused").executable

    def serve(*arguments: str) -> tuple[int, str]:
        done = subprocess.run([muster, "serve", "--listen", "127.0.0.1:0", *arguments], capture_output=True, text=True)
        return done.returncode, done.stderr.splitlines()[-1]

    assert main(["serve", "--cluster", database, "--in-memory"]) == 2
    assert "give one" in capsys.readouterr().err
    status, said = serve("--cluster", database)
    assert (status, "run `muster cluster init URL`" in said) == (1, True)
    asyncio.run(administration.init(database, "muster", Identity("of-the-test", "AAAAAAAAAAAAAAAAAAAAAQ")))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letters").write_text("dear")
    status, said = serve("--cluster", database, "--data-dir", str(tmp_path / "mine"))
    assert (status, "give --data-dir a directory of its own" in said) == (1, True)
    assert (tmp_path / "mine" / "letters").read_text() == "dear"
