"""KafkaProducer (idempotent, as it is by default) and KafkaConsumer play the story of the first clients, in Java."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.clients import JavaClients
from tests.e2e.conftest import create_topic
from tests.support.servers import ServerProcess

PARTITIONS = 8
StartJava = Callable[[ServerProcess], JavaClients]
NewTopic = Callable[[int], str]
STRATEGIES = {
    "eager": "org.apache.kafka.clients.consumer.RangeAssignor",
    "cooperative": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}


@pytest.fixture(params=STRATEGIES)
def strategy(request: pytest.FixtureRequest) -> str:
    return STRATEGIES[request.param]


@pytest.fixture(params=["dynamic", "static"])
def static(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "static")


def consume(
    java: JavaClients, name: str, group: str, topic: str, strategy: str, static: bool = False, **settings: str
) -> None:
    identity = {"group_instance_id": f"instance-of-{name}"} if static else {}
    java.consume(name, group, topic, partition_assignment_strategy=strategy, **identity, **settings)


def read_all(java: JavaClients, count: int) -> None:
    java.wait(lambda: len(java.ledger) == count, f"{count} records")


def test_java_consumers_share_partitions_as_members_join_and_leave(
    server: ServerProcess, new_topic: NewTopic, group: str, start_java: StartJava, strategy: str, static: bool
) -> None:
    topic, java = new_topic(PARTITIONS), start_java(server)
    for name in ("a", "b", "c"):
        consume(java, name, group, topic, strategy, static, session_timeout_ms="1500")
    java.shared_out(["a", "b", "c"], PARTITIONS)
    java.produce(topic, 0, 400)
    read_all(java, 400)
    consume(java, "late", group, topic, strategy, static, session_timeout_ms="1500")
    java.shared_out(["a", "b", "c", "late"], PARTITIONS)
    java.produce(topic, 400, 400)
    read_all(java, 800)
    java.stop("a")
    java.assignments["a"] = set()
    java.shared_out(["b", "c", "late"], PARTITIONS)
    java.produce(topic, 800, 400)
    read_all(java, 1200)
    assert not java.ledger.twice
    assert all(java.ledger.by(name) for name in ("a", "b", "c", "late"))


def test_a_killed_java_consumer_leaves_after_its_session_timeout(
    server: ServerProcess, new_topic: NewTopic, group: str, start_java: StartJava, strategy: str
) -> None:
    topic, java, victim = new_topic(PARTITIONS), start_java(server), start_java(server)
    for name in ("a", "b"):
        consume(java, name, group, topic, strategy)
    consume(victim, "victim", group, topic, strategy, session_timeout_ms="1000")
    java.wait(
        lambda: (
            bool(victim.assignments["victim"])
            and len(java.assignments["a"] | java.assignments["b"] | victim.assignments["victim"]) == PARTITIONS
        ),
        "three to share",
    )
    java.produce(topic, 0, 200)
    java.wait(lambda: len(java.ledger) + len(victim.ledger) == 200, "200 records")
    victim.kill()
    java.shared_out(["a", "b"], PARTITIONS)
    seen = len(java.ledger)
    java.produce(topic, 200, 200)
    java.wait(lambda: len(java.ledger) >= seen + 200, "the records after it")
    assert not java.ledger.twice


def test_a_static_java_member_restarts_without_a_rebalance(
    server: ServerProcess, new_topic: NewTopic, group: str, start_java: StartJava, strategy: str
) -> None:
    topic, java = new_topic(PARTITIONS), start_java(server)
    for name in ("a", "b"):
        consume(java, name, group, topic, strategy, static=True)
    java.shared_out(["a", "b"], PARTITIONS)
    before, reported = set(java.assignments["b"]), list(java.rebalances["a"])
    java.stop("b")
    java.assignments["b"] = set()
    consume(java, "b", group, topic, strategy, static=True)
    java.shared_out(["a", "b"], PARTITIONS)
    assert java.assignments["b"] == before
    assert java.rebalances["a"] == reported
    java.produce(topic, 0, 200)
    read_all(java, 200)
    assert not java.ledger.twice


@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL"])
def test_java_clients_go_on_after_a_restart_of_the_server(
    start_server: Callable[..., ServerProcess], start_java: StartJava, strategy: str, how: str
) -> None:
    server, topic, group = start_server(), "restarted", "restarted-group"
    create_topic(server, topic, PARTITIONS)
    java = start_java(server)
    for name in ("a", "b", "c"):
        consume(java, name, group, topic, strategy)
    java.shared_out(["a", "b", "c"], PARTITIONS)
    java.produce(topic, 0, 400)
    read_all(java, 400)
    for name in ("a", "b", "c"):
        java.stop(name)
    if how == "SIGTERM":
        server.stop()
    else:
        server.kill()
    server.start()
    java.produce(topic, 400, 400)
    for name in ("d", "e", "f"):
        consume(java, name, group, topic, strategy)
    read_all(java, 800)
    # and once more, with the consumers at work
    server.stop()
    server.start()
    java.produce(topic, 800, 400)
    read_all(java, 1200)
    assert not java.ledger.twice


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_java_clients_write_and_read_each_compression_codec(
    server: ServerProcess, new_topic: NewTopic, group: str, start_java: StartJava, codec: str
) -> None:
    topic, java = new_topic(PARTITIONS), start_java(server)
    java.produce(topic, 0, 2000, compression_type=codec, linger_ms="20")
    consume(java, "reader", group, topic, STRATEGIES["eager"], isolation_level="read_committed")
    read_all(java, 2000)
    assert not java.ledger.twice
