"""`muster serve --cluster`: three nodes over one PostgreSQL, with real clients. Nodes are killed, stopped and paused,
and the database cuts connections.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from muster.cli import main
from muster.postgres import administration
from muster.postgres.store import Identity
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from muster.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from muster.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from muster.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tests.e2e.conftest import BOOTSTRAP, SERVER
from tests.support.cluster_nodes import ClusterNode
from tests.support.postgres import own_database
from tests.support.servers import QUICK, MusterServer, free_port_pair
from tests.torture.clients import connected

pytestmark = pytest.mark.skipif(SERVER != "muster" or bool(BOOTSTRAP), reason="nodes of Muster's own")
PARTITIONS = 6
LEASE_MS = 2_500
BETWEEN_LOOKS_S = 0.05
"""A test that asks all the time would take the processor from the nodes."""


@pytest.fixture
def database(postgres: str) -> Iterator[str]:
    with own_database(postgres) as url:
        yield url


@pytest.fixture
def nodes(database: str, tmp_path: Path) -> Iterator[list[ClusterNode]]:
    """Three nodes, with the ids 1, 2, 3."""
    asyncio.run(administration.init(database, "muster", Identity("of-the-test", "AAAAAAAAAAAAAAAAAAAAAQ")))
    with ExitStack() as ends:  # each of them is ended, also when another does not end as it should
        made = []
        for number in range(3):
            properties = {**QUICK, "offsets.topic.num.partitions": "6", "transaction.state.log.num.partitions": "3",
                          "broker.session.timeout.ms": str(LEASE_MS),
                          "metadata.log.max.record.bytes.between.snapshots": "2000"}  # fmt: skip
            arguments = ["--cluster", database, "--topic", f"orders:{PARTITIONS}"]
            node = ClusterNode(tmp_path / f"node-{number}", properties, arguments=arguments)
            node.bootstrap = f"127.0.0.1:{free_port_pair()}"
            made.append(node)
            ends.callback(end, node)
            node.begin()
            node.until_ready()
        until_led_by(made, {1, 2, 3})
        yield made


def admin_of(nodes: list[ClusterNode]) -> AdminClient:
    """The admin client of the first node that runs."""
    asked = next(node for node in nodes if node.running)
    return AdminClient({"bootstrap.servers": asked.bootstrap, "log_level": 0})


def leaders(admin: AdminClient, topic: str) -> list[int]:
    """The leaders of the partitions, as a node reports them."""
    found = admin.list_topics(topic, timeout=30).topics[topic].partitions
    return [found[index].leader for index in sorted(found)]


def until_led_by(nodes: list[ClusterNode], wanted: set[int]) -> None:
    """Wait until each of these nodes, and no other, leads a partition that clients need."""
    admin = admin_of(nodes)
    while any(set(leaders(admin, topic)) != wanted for topic in ("orders", "__consumer_offsets")):
        time.sleep(BETWEEN_LOOKS_S)


def end(node: ClusterNode) -> None:
    """Stop the node if it runs; it may be paused."""
    if node.running:
        node.signal(signal.SIGCONT)
        node.stop()


async def hang_up(database: str) -> int:
    """Cut the connections of all nodes; their number."""
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
        """Wait until `count` more records were acknowledged, read, and committed."""
        end = self.sent + count

        def delivered(error: object, message: object) -> None:
            assert error is None
            self.acked.add(message.value())

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
                continue  # the group is between two coordinators
            self.committed = {row.partition: row.offset for row in rows}
            return

    def close(self) -> None:
        self.consumer.close()


def committed(bootstrap: str) -> dict[int, int]:
    """The committed offsets, as a new client sees them."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "log_level": 0})
    rows = consumer.committed([TopicPartition("orders", number) for number in range(PARTITIONS)], timeout=30)
    consumer.close()
    return {row.partition: row.offset for row in rows}


def bootstrap_of(nodes: list[ClusterNode]) -> str:
    return ",".join(node.bootstrap for node in nodes)


def test_clients_keep_working_while_nodes_are_killed_and_stopped(nodes: list[ClusterNode], database: str) -> None:
    first, second, third = nodes
    load = Load(bootstrap_of(nodes))
    load.run(300)
    # the connections to the database are cut in the middle
    load.producer.produce("orders", b"%d" % load.sent, partition=0, on_delivery=lambda _, m: load.acked.add(m.value()))
    load.sent += 1
    assert asyncio.run(hang_up(database)) >= 3
    load.run(299)
    first.kill()
    load.run(300)
    until_led_by(nodes, {2, 3})
    # a node that returns gets back what it led
    first.begin()
    first.until_ready()
    until_led_by(nodes, {1, 2, 3})
    load.run(300)
    second.stop()
    until_led_by(nodes, {1, 3})
    load.run(300)
    third.stop()
    until_led_by(nodes, {1})
    load.run(300)
    assert sorted(load.read, key=int) == [b"%d" % number for number in range(load.sent)]
    assert load.acked == set(load.read)
    assert load.committed == committed(first.bootstrap) == dict.fromkeys(range(PARTITIONS), 300)
    assert not [node for node in nodes if "events cannot be written" in node.log()]
    load.close()


async def shut(url: str, database: str, *, is_shut: bool) -> None:
    """Let no client into a database."""
    connection = await asyncpg.connect(url)
    name = urlsplit(database).path[1:]
    await connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS {not is_shut}")
    if is_shut:
        await connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
    await connection.close()


def test_clients_recover_after_a_database_outage_longer_than_the_lease(
    nodes: list[ClusterNode], postgres: str, database: str
) -> None:
    load = Load(bootstrap_of(nodes))
    load.run(300)
    before = leaders(admin_of(nodes), "orders")
    asyncio.run(shut(postgres, database, is_shut=True))
    try:
        while any("the registration is lost" not in node.log() for node in nodes):
            time.sleep(BETWEEN_LOOKS_S)
    finally:
        asyncio.run(shut(postgres, database, is_shut=False))
    load.run(300)
    assert sorted(load.read, key=int) == [b"%d" % number for number in range(load.sent)]
    admin = admin_of(nodes)
    while leaders(admin, "orders") != before:
        time.sleep(BETWEEN_LOOKS_S)
    load.close()


def test_transactions_span_nodes_and_survive_their_death(nodes: list[ClusterNode]) -> None:
    first = nodes[0]
    bootstrap = bootstrap_of(nodes)
    producers = []
    for number in range(3):
        producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": f"t{number}", "reconnect.backoff.max.ms": 100,
             "log_level": 0}
        )  # fmt: skip
        producer.init_transactions(30)
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce("orders", b"before-%d" % number, partition=partition)
        producer.flush(30)
        producers.append(producer)
    first.kill()
    until_led_by(nodes, {2, 3})
    for number, producer in enumerate(producers):
        for partition in range(PARTITIONS):
            producer.produce("orders", b"after-%d" % number, partition=partition)
        if number == 0:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "r", "auto.offset.reset": "earliest",
                         "isolation.level": "read_committed", "log_level": 0})  # fmt: skip
    consumer.subscribe(["orders"])
    wanted = sorted(b"%s-%d" % (when, number) for when in (b"before", b"after") for number in (1, 2)) * PARTITIONS
    found: list[bytes] = []
    while len(found) < len(wanted):
        found += [one.value() for one in consumer.consume(50, 1) if one.error() is None]
    assert sorted(found) == sorted(wanted)
    consumer.close()


def test_a_paused_node_acknowledges_nothing_after_its_lease(nodes: list[ClusterNode], database: str) -> None:
    second = nodes[1]
    mine = [index for index, leader in enumerate(leaders(admin_of(nodes), "orders")) if leader == 2]
    acked: list[object] = []
    alone = Producer({"bootstrap.servers": second.bootstrap, "message.timeout.ms": 60_000, "log_level": 0,
                      "enable.idempotence": True})  # fmt: skip
    alone.produce("orders", b"first", partition=mine[0])
    alone.flush(30)
    second.signal(signal.SIGSTOP)
    alone.produce("orders", b"second", partition=mine[0], on_delivery=lambda error, _: acked.append(error))
    alone.poll(0)
    until_led_by([nodes[0]], {1, 3})
    assert not acked
    second.signal(signal.SIGCONT)
    while "the registration is lost" not in second.log():
        time.sleep(BETWEEN_LOOKS_S)
    alone.flush(60)
    assert acked == [None]
    until_led_by(nodes, {1, 2, 3})
    consumer = Consumer({"bootstrap.servers": bootstrap_of(nodes), "group.id": "r", "log_level": 0,
                         "enable.partition.eof": True})  # fmt: skip
    consumer.assign([TopicPartition("orders", mine[0], 0)])
    found: list[bytes] = []
    while True:
        message = consumer.poll(30)
        assert message is not None
        if message.error() is not None:
            break
        found.append(message.value())
    assert found == [b"first", b"second"]
    consumer.close()
    (status,) = asyncio.run(administration.status(database)).clusters
    assert [node.node_id for node in status.nodes if node.lease_ms > 0] == [1, 2, 3]


def test_a_paused_node_answers_no_old_requests_when_it_continues(nodes: list[ClusterNode]) -> None:
    """Requests wait in the sockets of the paused node. When it continues, other nodes lead its partitions."""
    second = nodes[1]
    mine = next(index for index, leader in enumerate(leaders(admin_of(nodes), "orders")) if leader == 2)
    topic = ListOffsetsTopic("orders", [ListOffsetsPartition(mine, timestamp=-1)])

    async def error_code() -> int:
        async with connected(second.address, "reader") as client:
            answer = await client.ask(ListOffsetsRequest(replica_id=-1, topics=[topic]))
        return int(answer.topics[0].partitions[0].error_code)

    while (found := asyncio.run(error_code())) == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        time.sleep(BETWEEN_LOOKS_S)  # the other nodes know the new leader before it has opened the log
    assert found == ErrorCode.NONE

    async def ask() -> list[object]:
        async with connected(second.address, "reader") as client:
            second.signal(signal.SIGSTOP)
            await asyncio.to_thread(until_led_by, [nodes[0]], {1, 3})
            asked = asyncio.create_task(client.ask(ListOffsetsRequest(replica_id=-1, topics=[topic])))
            await asyncio.wait([asked], timeout=BETWEEN_LOOKS_S)  # the request is sent, and not answered
            assert not asked.done()
            second.signal(signal.SIGCONT)
            return await asyncio.gather(asked, return_exceptions=True)

    (answer,) = asyncio.run(ask())
    assert isinstance(answer, OSError | EOFError), answer  # it has closed the connection
    until_led_by(nodes, {1, 2, 3})


def test_every_node_accepts_cluster_changes(nodes: list[ClusterNode]) -> None:
    for number, node in enumerate(nodes):
        admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(f"of-{number}", 3, 1)], operation_timeout=30)[f"of-{number}"].result(30)
        entry = ConfigEntry("retention.ms", "86400000", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, f"of-{number}", incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(30)
    for node in nodes:
        admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
        while {"of-0", "of-1", "of-2"} - admin.list_topics(timeout=30).topics.keys():
            time.sleep(BETWEEN_LOOKS_S)
        resource = ConfigResource(ResourceType.TOPIC, "of-2")
        while admin.describe_configs([resource])[resource].result(30)["retention.ms"].value != "86400000":
            time.sleep(BETWEEN_LOOKS_S)
    admin.delete_topics(["of-0", "of-1", "of-2"], operation_timeout=30)["of-1"].result(30)
    for node in nodes:
        admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
        while {"of-0", "of-1", "of-2"} & admin.list_topics(timeout=30).topics.keys():
            time.sleep(BETWEEN_LOOKS_S)


async def unregister(asked: ClusterNode, broker_id: int) -> None:
    """A slow node that is asked to unregister itself may close the connection before it answers."""
    async with connected(asked.address, "operator") as client:
        with suppress(asyncio.IncompleteReadError):
            answer = await client.ask(UnregisterBrokerRequest(broker_id=broker_id))
            assert answer.error_code == ErrorCode.NONE


def test_nodes_that_are_all_unregistered_register_again(nodes: list[ClusterNode]) -> None:
    async def unregister_all() -> None:
        await asyncio.gather(*[unregister(node, number) for number, node in enumerate(nodes, 1)])

    load = Load(bootstrap_of(nodes))
    for round_ in range(1, 4):
        load.run(60)
        asyncio.run(unregister_all())
        while any(node.log().count("it was unregistered") < round_ for node in nodes):
            time.sleep(BETWEEN_LOOKS_S)
        load.run(60)  # a message that waits for 50 s fails
        until_led_by(nodes, {1, 2, 3})
    # records that were read and not committed may be read again
    assert load.acked == set(load.read) == {b"%d" % number for number in range(load.sent)}
    load.close()


def test_a_topic_created_on_one_node_is_known_to_the_next_at_once(nodes: list[ClusterNode]) -> None:
    async def come_and_go() -> list[int]:
        codes: list[int] = []
        async with connected(nodes[1].address, "one") as one, connected(nodes[2].address, "other") as other:
            for number in range(20):
                name = f"short-{number}"
                created = await one.ask(CreateTopicsRequest([CreatableTopic(name, 1, 1)], 30_000))
                deleted = await other.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name)], timeout_ms=30_000))
                codes += [created.topics[0].error_code, deleted.responses[0].error_code]
        return codes

    assert set(asyncio.run(come_and_go())) == {ErrorCode.NONE}


def test_an_unregistered_node_registers_again(nodes: list[ClusterNode]) -> None:
    load = Load(bootstrap_of(nodes))
    load.run(60)
    for broker_id in (3, 2, 1):
        asyncio.run(unregister(nodes[0], broker_id))
        load.run(20)
        until_led_by(nodes, {1, 2, 3})
    assert sorted(load.read, key=int) == [b"%d" % number for number in range(load.sent)]
    until_led_by(nodes, {1, 2, 3})
    for node in nodes:
        assert "it was unregistered" in node.log()
    load.close()


async def metadata_rows(database: str) -> tuple[int, int]:
    """Where the snapshot of the metadata log ends, and where its oldest row begins."""
    connection = await asyncpg.connect(database)
    ends_at = await connection.fetchval("SELECT snapshot_offset FROM muster_clusters")
    oldest = await connection.fetchval("SELECT min(base_offset) FROM muster_metadata")
    await connection.close()
    return ends_at, oldest


def test_nodes_load_a_snapshot_of_a_shortened_metadata_log(nodes: list[ClusterNode], database: str) -> None:
    first, second, third = nodes
    load = Load(bootstrap_of(nodes))
    load.run(60)
    admin = AdminClient({"bootstrap.servers": first.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic("gone", 2, 1), NewTopic("kept", 2, 1, config={"retention.ms": "86400000"})],
                        operation_timeout=30)["kept"].result(30)  # fmt: skip
    admin.delete_topics(["gone"], operation_timeout=30)["gone"].result(30)
    while True:
        ends_at, oldest = asyncio.run(metadata_rows(database))
        if 0 < oldest <= ends_at:
            break
    second.kill()
    second.begin()
    second.until_ready()
    third.stop()
    load.run(60)
    assert load.acked == set(load.read) == {b"%d" % number for number in range(load.sent)}
    admin = AdminClient({"bootstrap.servers": second.bootstrap, "log_level": 0})
    topics = admin.list_topics(timeout=30).topics
    assert "gone" not in topics
    assert len(topics["kept"].partitions) == 2
    resource = ConfigResource(ResourceType.TOPIC, "kept")
    assert admin.describe_configs([resource])[resource].result(30)["retention.ms"].value == "86400000"
    load.close()


def test_serve_cluster_says_why_it_cannot_start(
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
