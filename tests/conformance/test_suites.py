"""The own tests of client libraries, whole as their registries have them: franz-go and kafka-go (Go's module proxy).

Their versions are those below. A test that fails here and passes on Kafka is a bug of Muster. Needs Go.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conformance.client_suites import at_port, go_copy, go_test, one_broker, three_brokers
from tests.support.servers import free_port_pair

FRANZ = "github.com/twmb/franz-go@v1.22.3"
KAFKA_GO = "github.com/segmentio/kafka-go@v0.4.51"
pytestmark = [
    pytest.mark.timeout(4000),
    pytest.mark.skipif(shutil.which("go") is None, reason="needs Go"),
]


def test_the_tests_of_franz_go_pass(tmp_path: Path) -> None:
    """Its tests of groups and transactions run with both protocols; tests of share groups skip themselves."""
    copy = go_copy(FRANZ, tmp_path / "franz-go")
    server = three_brokers(tmp_path / "server")
    server.start()
    try:
        settings = {"KGO_SEEDS": server.bootstrap, "KGO_TEST_RECORDS": "20000", "KGO_LOG_LEVEL": "none"}
        found = go_test(copy, "./pkg/kgo", "-skip=SCRAM|OAuth", **settings)
    finally:
        server.stop()
    found.check(500, set())


def test_the_tests_of_kafka_go_pass(tmp_path: Path) -> None:
    copy, port = go_copy(KAFKA_GO, tmp_path / "kafka-go"), free_port_pair()
    at_port(copy, "*_test.go", "9092", str(port))
    server = one_broker(tmp_path / "server", port)
    server.start()
    try:
        found = go_test(copy, ".", "./topics", KAFKA_VERSION="3.7.0")
    finally:
        server.stop()
    found.check(200, set())
