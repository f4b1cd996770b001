"""The own tests of client libraries, whole as their registry has them: franz-go, kafka-go and sarama (Go modules).

Their versions are those below. A test that fails here and passes on Kafka is a bug of Muster. Needs Go.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.conformance.client_suites import ON_KAFKA, go_copy, go_test, one_broker, replaced, three_brokers
from tests.support.servers import NodesServer, free_port_pair

FRANZ = "github.com/twmb/franz-go@v1.22.3"
KAFKA_GO = "github.com/segmentio/kafka-go@v0.4.51"
SARAMA = "github.com/IBM/sarama@v1.61.1"
pytestmark = [
    pytest.mark.timeout(4000),
    pytest.mark.skipif(shutil.which("go") is None, reason="needs Go"),
]
DELETED_TOPICS = {
    "TestConn", "TestConn/test_delete_topics", "TestConn/test_delete_topics_with_an_invalid_topic",
}  # fmt: skip
"""They ask for the metadata of deleted topics, and expect no partitions. They fail on Kafka 4.4, too."""
NOT_ON_KAFKA_4 = (
    "SASL|TestReaderReadCompactedMessage|TestReaderConsumerGroup/consumer_group_(commits_on_close|rebalance)"
)
"""Tests of kafka-go that need another listener, or fail on Kafka 4.4, too: segments of 200 bytes are refused, a
consumer group lacks a function, and a reader of one partition in three wants half of all records.
"""


def test_the_tests_of_franz_go_pass(tmp_path: Path) -> None:
    """Its tests of groups and transactions run with both protocols; tests of share groups skip themselves."""
    copy = go_copy(FRANZ, tmp_path / "franz-go")
    server = three_brokers(tmp_path / "server")
    server.start()
    try:
        settings = {"KGO_SEEDS": server.bootstrap, "KGO_TEST_RECORDS": "5000", "KGO_LOG_LEVEL": "none"}
        found = go_test(copy, "./pkg/kgo", "-skip=SCRAM|OAuth", **settings)
    finally:
        server.stop()
    found.check(500, set())


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
