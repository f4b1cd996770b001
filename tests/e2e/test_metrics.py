"""`muster serve --metrics`: the metrics of a server and of a node of a cluster, as the site's reference lists them."""

from __future__ import annotations

import asyncio
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from muster.cli import main
from muster.postgres import administration
from muster.postgres.metrics import OLD_NAMES
from muster.postgres.store import Identity
from tests.e2e.conftest import BOOTSTRAP, SERVER
from tests.e2e.test_cluster import shut
from tests.support.cluster_nodes import ClusterNode
from tests.support.postgres import own_database
from tests.support.servers import QUICK, MusterServer, free_port_pair
from tools.site.references.metrics import rows

pytestmark = pytest.mark.skipif(SERVER != "muster" or bool(BOOTSTRAP), reason="figures of Muster's own")
LEASE_MS = 2_500


def scrape(port: int) -> tuple[dict[str, tuple[str, str]], dict[str, float]]:
    """Kind and description of each metric, and the values, by name and labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        lines = answer.read().decode().splitlines()
    about = {line.split(" ", 3)[2]: line.split(" ", 3)[3] for line in lines if line.startswith("# HELP")}
    kinds = {line.split(" ")[2]: line.split(" ")[3] for line in lines if line.startswith("# TYPE")}
    values = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}
    return {name: (kinds[name], about[name]) for name in kinds}, values


def documented() -> dict[str, tuple[str, str]]:
    return {row.name: (row.kind, row.about) for row in rows()}


def own(reported: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """The metrics with Muster's own names."""
    return {name: row for name, row in reported.items() if name.startswith("muster_")}


def work(bootstrap: str) -> None:
    """Write some records, and let a group read them and leave."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(20):
        producer.produce("orders", b"%d" % number, partition=number % 2)
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest",
                         "enable.auto.commit": False, "log_level": 0})  # fmt: skip
    consumer.subscribe(["orders"])
    read = 0
    while read < 20:
        read += sum(one.error() is None for one in consumer.consume(20, 0.1))
    consumer.commit(asynchronous=False)
    consumer.close()


def check(values: dict[str, float]) -> None:
    """Check the values after `work`."""
    assert values['muster_requests_total{api="OffsetCommit"}'] == 1
    assert values['muster_requests_total{api="Produce"}'] >= 1
    assert values['muster_request_seconds_total{api="JoinGroup"}'] > 0
    assert values['muster_request_errors_total{api="JoinGroup",error="MEMBER_ID_REQUIRED"}'] == 1
    assert values['muster_group_events_total{kind="rebalance_completed"}'] == 1
    assert values['muster_group_events_total{kind="member_left"}'] == 1
    assert values['muster_groups{type="classic",state="Empty"}'] == 1
    assert values["muster_event_loop_latest_seconds"] < 30


def test_a_server_has_the_documented_metrics(tmp_path: Path) -> None:
    port = free_port_pair()
    server = MusterServer(tmp_path, QUICK, arguments=["--metrics", f"127.0.0.1:{port}", "--topic", "orders:2"])
    server.start()
    try:
        work(server.bootstrap)
        reported, values = scrape(port)
    finally:
        server.stop()
    check(values)
    assert own(reported) == {name: row for name, row in documented().items() if not name.startswith("muster_cluster_")}
    assert values['kafka_consumergroup_lag_sum{consumergroup="g",topic="orders"}'] == 0
    assert values['muster_group_rebalances_total{group="g",cause="member_joined"}'] == 1
    assert values['muster_request_duration_seconds_count{api="OffsetCommit",phase="handler"}'] == 1
    assert values["process_cpu_seconds_total"] > 0
    assert values["muster_sync_duration_seconds_count"] > 0
    assert values["muster_log_compactions_total"] == 0


def test_a_cluster_node_has_the_documented_metrics(postgres: str, tmp_path: Path) -> None:
    port = free_port_pair()
    with own_database(postgres) as database:
        asyncio.run(administration.init(database, "muster", Identity("of-the-test", "AAAAAAAAAAAAAAAAAAAAAQ")))
        properties = {**QUICK, "broker.session.timeout.ms": str(LEASE_MS), "offsets.topic.num.partitions": "3"}
        arguments = ["--cluster", database, "--metrics", f"127.0.0.1:{port}", "--topic", "orders:2"]
        node = ClusterNode(tmp_path / "node", properties, arguments=arguments)
        node.bootstrap = f"127.0.0.1:{free_port_pair()}"
        node.begin()
        try:
            node.until_ready()
            work(node.bootstrap)
            reported, values = scrape(port)
            check(values)
            assert {name: row for name, row in own(reported).items() if name not in OLD_NAMES.values()} == documented()
            assert all(values[new] == values[old] for new, old in OLD_NAMES.items())
            of = {name.removeprefix("muster_cluster_"): value for name, value in values.items()}
            assert (of["registered"], of["registrations_total"], of["registrations_lost_total"]) == (1, 1, 0)
            assert of["node_id"] == 1
            assert of["nodes"] == 1
            assert of["writes_total"] > 0
            assert of["bytes_total"] > 0
            assert of["takeovers_total"] >= 5
            assert of["metadata_offset"] > 0
            assert 0 < of["lease_seconds"] <= LEASE_MS / 1000
            asyncio.run(shut(postgres, database, is_shut=True))
            try:
                while values["muster_cluster_registered"]:
                    reported, values = scrape(port)
            finally:
                asyncio.run(shut(postgres, database, is_shut=False))
            assert "muster_cluster_epoch" not in reported
            assert values["muster_cluster_registrations_lost_total"] == 1
            assert values["muster_cluster_database_away_seconds_total"] > 0
            while not values["muster_cluster_registered"]:
                reported, values = scrape(port)
            assert values["muster_cluster_registrations_total"] == 2
            assert values["muster_topics"] > 0
            assert values['muster_requests_total{api="OffsetCommit"}'] == 1
        finally:
            node.stop()


def test_serve_refuses_metrics_without_a_usable_address(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--in-memory", "--metrics", "localhost:0", "--control", "localhost:0"]) == 2
    assert "give one" in capsys.readouterr().err
    assert main(["serve", "--in-memory", "--metrics", "here"]) == 2
    assert "--metrics" in capsys.readouterr().err
