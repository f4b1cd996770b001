"""The own tests of client libraries, whole as their registry has them: franz-go, kafka-go and sarama (Go modules),
rust-rdkafka (crates.io) and node-rdkafka (npm).

Their versions are those below. A test that fails here and passes on Kafka is a bug of Muster. Needs Go, Rust and npm.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conformance.client_suites import (
    ON_KAFKA,
    cargo_test,
    go_copy,
    go_test,
    mocha,
    one_broker,
    replaced,
    three_brokers,
)
from tests.conformance.packages import crate, kept, npm_package, run
from tests.support.servers import NodesServer, free_port_pair

FRANZ = "github.com/twmb/franz-go@v1.22.3"
KAFKA_GO = "github.com/segmentio/kafka-go@v0.4.51"
SARAMA = "github.com/IBM/sarama@v1.61.1"
RUST_RDKAFKA, RUST_SHA256 = "0.39.0", "d7956f9ac12b5712e50372d9749a3102f4810a8d42481c5eae3748d36d585bcf"
NODE_RDKAFKA = "node-rdkafka@3.6.1"
TOPICS = ["test", "test2", "test3", "test4", "test5", "test6"]
"""The topics that node-rdkafka's tests expect."""
NODE_SHA512 = "sfpTbrT35429cs0RE8Yb9avGX9BiRRvpV7aweQsghKTjtrVZP3jBrKOPItWXAqHb8doyh3SkuGuUVBLgig1SRg=="
pytestmark = pytest.mark.timeout(4000)
OF_THE_CLIENT = (
    'Consumer/Producer "after each" hook',
    "Consumer/Producer should be able to produce and consume messages: empty buffer key and empty value",
    "Consumer committed and position should obey the timeout",
    "Producer with_dr_msg_cb should produce a message with an empty payload and empty key",
)
"""How names of node-rdkafka's tests begin that may fail. The client may hang when it disconnects, on Kafka 4.4, too. It
gives null for an empty buffer. One test wants a timeout of 0 ms to pass before the answer.
"""
needs_go = pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")
DELETED_TOPICS = {
    "TestConn", "TestConn/test_delete_topics", "TestConn/test_delete_topics_with_an_invalid_topic",
}  # fmt: skip
"""They ask for the metadata of deleted topics, which creates these topics at once (docs/conformance.md)."""
NOT_ON_KAFKA_4 = (
    "SASL|TestWriter/.*SASL|TestNetworkAddress|TestDialerResolver|TestReaderReadCompactedMessage|"
    "TestReaderConsumerGroup/(verify_offset|consumer_group_commits_on_close|consumer_group_rebalance$)"
)
"""Tests of kafka-go that need another listener or the port 9092, or fail on Kafka 4.4, too. One wants segments of 200
bytes. Three call a function that their consumer group does not have. A reader of one partition in three wants half of
all records.
"""


@needs_go
def test_the_tests_of_franz_go_pass(tmp_path: Path) -> None:
    """Its tests of groups and transactions run with both protocols. Its tests of share groups run too."""
    copy = go_copy(FRANZ, tmp_path / "franz-go")
    server = three_brokers(tmp_path / "server")
    server.start()
    try:
        settings = {"KGO_SEEDS": server.bootstrap, "KGO_TEST_RECORDS": "5000", "KGO_LOG_LEVEL": "none"}
        found = go_test(copy, "./pkg/kgo", "-skip=SCRAM|OAuth", **settings)
    finally:
        server.stop()
    found.check(500, set())


@needs_go
def test_the_tests_of_kafka_go_pass(tmp_path: Path) -> None:
    copy, port = go_copy(KAFKA_GO, tmp_path / "kafka-go"), free_port_pair()
    replaced(copy, "*_test.go", "9092", str(port))
    replaced(copy, "*_test.go", 'TCP("localhost")', f'TCP("localhost:{port}")')
    server = one_broker(
        tmp_path / "server",
        port,
        **{
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            "super.users": "User:ANONYMOUS",
            "group.min.session.timeout.ms": "6000",  # the default, as one test expects
        },
    )
    server.start()
    try:
        found = go_test(copy, ".", "./topics", f"-skip={NOT_ON_KAFKA_4}", KAFKA_VERSION="3.7.0")
    finally:
        server.stop()
    found.check(300, DELETED_TOPICS)


class NoFaults(BaseHTTPRequestHandler):
    """Answers as toxiproxy would. The clients connect to the brokers themselves, so a proxy has no effect."""

    def do_GET(self) -> None:
        """Describe a proxy."""
        self._answer(200, {"name": self.path.rpartition("/")[2], "enabled": True})

    def do_POST(self) -> None:
        """Reset all proxies, or change one."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/reset":
            self._answer(204, None)
        else:
            self._answer(200, json.loads(body))

    def _answer(self, status: int, body: object) -> None:
        self.send_response(status)
        self.end_headers()
        if body is not None:
            self.wfile.write(json.dumps(body).encode())

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@pytest.fixture
def toxiproxy() -> Iterator[str]:
    """The address of a server that answers as toxiproxy would."""
    with ThreadingHTTPServer(("127.0.0.1", 0), NoFaults) as proxies:
        thread = threading.Thread(target=proxies.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{proxies.server_port}"
        proxies.shutdown()
        thread.join()


DOCKER = """#!/bin/sh
# stops and starts the brokers of Muster, in place of containers: docker compose stop|start kafka-N
case $2 in start) verb=return ;; *) verb=$2 ;; esac
exec {muster} nodes $verb ${{3#kafka-}} --data-dir {data}
"""


@needs_go
@pytest.mark.skipif(ON_KAFKA, reason="a Kafka of five brokers has no script here")
def test_the_functional_tests_of_sarama_pass(tmp_path: Path, toxiproxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five brokers, which some tests stop and start again. Four tests need a real proxy or container. A proxy
    would also add 10 ms to each request.
    """
    copy, base = go_copy(SARAMA, tmp_path / "sarama"), free_port_pair()
    replaced(copy, "functional_test.go", "29090+i", f"{base}+i")
    replaced(copy, "functional_producer_test.go", "minRequestLatencyInMs := 10", "minRequestLatencyInMs := 0")
    server = NodesServer(
        tmp_path / "server",
        {"auto.create.topics.enable": "false"},
        number=5,
        listen=f"127.0.0.1:{base + 1}",
    )
    script = tmp_path / "bin" / "docker"
    script.parent.mkdir()
    script.write_text(DOCKER.format(muster=server.executable, data=server.workdir / "data"))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(script.parent), prepend=":")
    server.start()
    try:
        settings = {"TOXIPROXY_ADDR": toxiproxy, "KAFKA_VERSION": "4.4.0"}
        without = "-skip=NetworkError|ConnectionFailure|IdempotentWithBrokerFailure|BufferedSequence"
        found = go_test(copy, ".", "-tags=functional", "-run=^TestFunc", without, **settings)
    finally:
        server.stop()
    found.check(45, set())


@pytest.mark.skipif(shutil.which("cargo") is None, reason="needs Rust")
def test_the_tests_of_rust_rdkafka_pass(tmp_path: Path) -> None:
    """Its tests of groups, offsets, transactions, topics and metadata, with the librdkafka that it brings. One test
    wants a new topic to need more than 100 ms.
    """
    copy, port = crate("rdkafka", RUST_RDKAFKA, RUST_SHA256, tmp_path), free_port_pair()
    replaced(copy, "test_metadata.rs", "9092", str(port))
    replaced(copy, "test_high_producers.rs", '"localhost"', f'"localhost:{port}"')
    server = one_broker(tmp_path / "server", port, **{"node.id": "0", "num.partitions": "3"})
    server.start()
    try:
        found = cargo_test(copy, KAFKA_HOST=server.bootstrap, KAFKA_VERSION="4.0")
    finally:
        server.stop()
    found.check(60, set() if ON_KAFKA else {"test_base_producer_timeout"})


def build_node_rdkafka(folder: Path) -> None:
    """Build the package, with the librdkafka that it brings and Node's own headers."""
    sources = npm_package(NODE_RDKAFKA, NODE_SHA512, folder)
    run(["npm", "install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund"], sources)
    node = Path(run(["node", "-p", "process.execPath"], folder).strip()).parents[1]
    run(["npx", "node-gyp", "rebuild", f"--nodedir={node}"], sources)


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
def test_the_tests_of_node_rdkafka_pass(tmp_path: Path) -> None:
    """Its tests with a broker: groups, offsets, transactions, the admin client, producers and consumers."""
    copy = kept(NODE_RDKAFKA, build_node_rdkafka) / "package"
    server = one_broker(tmp_path / "server", free_port_pair())
    server.start()
    try:
        admin = AdminClient({"bootstrap.servers": server.bootstrap}, logger=None)
        for topic in admin.create_topics([NewTopic(one, 1) for one in TOPICS]).values():
            topic.result(60)
        found = mocha(copy, "e2e/*.spec.js", KAFKA_HOST=server.bootstrap)
    finally:
        server.stop()
    found.check(45, {name for name in found.failed if name.startswith(OF_THE_CLIENT)})
