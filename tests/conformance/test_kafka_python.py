"""kafka-python's own tests against a broker: its admin client, consumers, groups, producers and transactions.

    git clone https://github.com/dpkp/kafka-python; make conformance-kafka-python KAFKA_PYTHON=kafka-python

The checkout is copied; its own code is tested. Tests that start brokers of their own (SASL, TLS) skip themselves.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.client_suites import TIMEOUT_S, one_broker, pytest_results
from tests.support.servers import free_port_pair

CHECKOUT = os.environ.get("KAFKA_PYTHON", "")
pytestmark = [
    pytest.mark.skipif(not CHECKOUT, reason="KAFKA_PYTHON names no checkout of kafka-python"),
    pytest.mark.timeout(4000),
]
NEWEST = "4.3.0"
"""The newest version that kafka-python knows."""
CHOSEN = ["-Wignore", "test/integration", "--ignore=test/integration/test_ssl_integration.py"]
WITHOUT = ["hypothesispytest", "muster", "cacheprovider", "logging"]
"""Plugins of pytest that are off. Threads of kafka-python run while tests are collected, so asserts stay plain, too."""


def test_the_tests_of_kafka_python_pass(tmp_path: Path) -> None:
    copy, port = tmp_path / "kafka-python", free_port_pair()
    shutil.copytree(CHECKOUT, copy, ignore=shutil.ignore_patterns(".git"))
    (copy / "servers" / NEWEST / "kafka-bin").mkdir(parents=True, exist_ok=True)  # its fixture asks whether it exists
    server = one_broker(
        tmp_path / "server",
        port,
        **{
            "node.id": "0",
            "num.partitions": "4",
            "advertised.listeners": f"PLAINTEXT://localhost:{port}",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            "super.users": "User:ANONYMOUS",
        },
    )
    server.start()
    try:
        off = [word for name in WITHOUT for word in ("-p", f"no:{name}")]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-rA", "--assert=plain", *off, *CHOSEN],
            cwd=copy, timeout=TIMEOUT_S, capture_output=True, text=True, check=False,
            env={
                **os.environ, "PYTHONPATH": str(copy),
                "KAFKA_VERSION": NEWEST, "KAFKA_URI": f"kafka://localhost:{port}",
            },
        )  # fmt: skip
    finally:
        server.stop()
    pytest_results(done.stdout).check(40, set())
