"""`muster.testing.containers.MusterContainer`, and testcontainers' own Kafka module with the image."""

from __future__ import annotations

import subprocess
import sys

import pytest
from testcontainers.community.kafka import KafkaContainer

from muster.testing.containers import MusterContainer
from tests.image.clients import works
from tests.image.container import missing
from tests.image.engine import Kept, engine

runs = pytest.mark.skipif(bool(missing()), reason=missing())
pytestmark = pytest.mark.timeout(120)


def test_muster_container_starts_the_image_with_its_command() -> None:
    kept = Kept(log_with="/tc-start.sh.whole", log="[KafkaRaftServer nodeId=1] Kafka Server started\n")
    with engine(kept) as asked:
        container = MusterContainer("muster:1").with_topic("orders", 8).with_cluster_id("shop").with_kraft()
        container.with_properties({"num.partitions": 3, "a_b-c": "x"})
        with container as kafka:
            assert kafka.get_bootstrap_server() == "localhost:49153"
    assert asked.asked["image"] == "muster:1"
    assert asked.asked["ports"] == {"9093": None}
    assert asked.asked["command"] == [
        "bash",
        "-c",
        "until [ -f /tc-start.sh.whole ]; do sleep 0.02; done; exec bash /tc-start.sh",
    ]
    assert asked.asked["environment"] == {
        "CLUSTER_ID": "shop",
        "KAFKA_A__B___C": "x",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
        "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "KAFKA_NUM_PARTITIONS": "3",
    }
    script = kept.files["/tc-start.sh"].decode()
    assert "export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:49153,BROKER://$(hostname -i" in script
    assert script.endswith("exec /etc/kafka/docker/run --in-memory --topic orders:8\n")
    assert (kept.status, asked.closed) == ("removed", True)


def test_a_container_that_does_not_start_in_time_is_removed() -> None:
    kept = Kept()
    with engine(kept):
        container = MusterContainer()
        with pytest.raises(TimeoutError, match="Kafka Server started"):
            container.start(timeout=0)
        container.stop()
    assert kept.status == "removed"


def test_muster_container_has_the_interface_of_kafka_container() -> None:
    with engine(Kept()):
        theirs, ours = KafkaContainer(), MusterContainer()
        # settings of ZooKeeper, and settings that matter only before it starts
        absent = {"MIN_KRAFT_TAG", "configure"}
        assert {name for name in dir(theirs) if not name.startswith("_")} - set(dir(ours)) == absent
        assert (ours.port, ours.listeners) == (theirs.port, theirs.listeners)
        assert ours.security_protocol_map == theirs.security_protocol_map


def test_muster_testing_does_not_import_testcontainers() -> None:
    code = "import sys, muster.testing; sys.exit('testcontainers' in sys.modules or 'docker' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@runs
def test_muster_container_serves_clients_of_the_host() -> None:
    with engine(), MusterContainer().with_cluster_id("shop").with_property("node.id", 7) as kafka:
        assert works(kafka.get_bootstrap_server()) == "shop"


@runs
def test_the_test_control_of_muster_container_needs_its_token() -> None:
    with engine(), MusterContainer().with_topic("orders", 2).with_control() as kafka:
        assert works(kafka.get_bootstrap_server(), topic="parcels")
        group = kafka.control("GET", "/groups/shop")
        assert (group["group"], group["state"]) == ("shop", "Empty")
        rule = {"match": {"api": "JoinGroup"}, "then": {"do": "delay", "ms": 1}, "when": {"once": True}}
        assert kafka.control("POST", "/faults", rule)["hits"] == 0
        with pytest.raises(RuntimeError, match="till"):
            kafka.control("POST", "/groups/till/wait-stable", {"timeout_ms": 0})
        kafka.control_token = "another"
        with pytest.raises(RuntimeError, match="token"):
            kafka.control("GET", "/groups")


@runs
@pytest.mark.parametrize("kraft", [True, False], ids=["kraft", "zookeeper"])
def test_testcontainers_own_kafka_module_starts_the_image(kraft: bool) -> None:
    with engine():
        container = KafkaContainer("muster:8.0.0")
        with container.with_kraft() if kraft else container as kafka:
            cluster_id = works(kafka.get_bootstrap_server())
    assert cluster_id == container.cluster_id if kraft else len(cluster_id) == 22
