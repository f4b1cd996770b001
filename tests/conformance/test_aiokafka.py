"""aiokafka's own tests of groups, consumers, producers and transactions, on the fixture of `muster.testing`.

    git clone --branch v0.14.0 https://github.com/aio-libs/aiokafka make conformance-aiokafka AIOKAFKA=aiokafka

Its tests are copied. In the copy conftest.py is ours, which gives them the server of the session in place of a
container. Tests that need the container itself (certificates, Kerberos, Kafka's scripts) are skipped.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = os.environ.get("AIOKAFKA", "")
pytestmark = [
    pytest.mark.skipif(not CHECKOUT, reason="AIOKAFKA names no checkout of aiokafka"),
    pytest.mark.timeout(1800),
]
FILES = (
    "test_coordinator.py",
    "test_consumer.py",
    "test_pep492.py",
    "test_producer.py",
    "test_transactional_consumer.py",
    "test_transactional_producer.py",
    "test_admin.py",
    "test_client.py",
    "test_fetcher.py",
    "test_sender.py",
)
CONFTEST = """
import asyncio
import gc
import pytest

KAFKA = "2.8.0"  # what they choose their tests by


def pytest_addoption(parser):
    parser.addoption("--docker-image", default=f"muster:{KAFKA}")


@pytest.fixture(scope="session")
def muster_properties():
    return {"num.partitions": 2, "node.id": 0, "group.min.session.timeout.ms": "6000"}


class Server:
    def __init__(self, address):
        self.host, port = address.split(":")
        self.port = int(port)
        self.hosts = [address]


@pytest.fixture(scope="session")
def kafka_server(muster_session):
    return Server(muster_session.bootstrap_servers)


@pytest.fixture(scope="class")
def loop():
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield loop
    if not loop.is_closed():
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop.close()
    gc.collect()
    asyncio.set_event_loop(None)


@pytest.fixture(scope="class")
def setup_test_class_serverless(request, loop):
    request.cls.loop = loop


@pytest.fixture(scope="class")
def setup_test_class(request, loop, kafka_server):
    request.cls.loop = loop
    request.cls.kafka_host, request.cls.kafka_port = kafka_server.host, kafka_server.port
    request.cls.hosts = kafka_server.hosts
    request.cls.kafka_version = KAFKA


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("ssl") or "acl" in item.name or "sasl" in item.name or "ssl" in item.name:
            item.add_marker(pytest.mark.skip(reason="it asks for a container"))
"""


def test_the_tests_of_aiokafka_pass_on_muster(tmp_path: Path) -> None:
    copy = tmp_path / "aiokafka"
    shutil.copytree(Path(CHECKOUT) / "tests", copy / "tests")
    (copy / "tests" / "conftest.py").write_text(CONFTEST)
    (copy / "pytest.ini").write_text(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
        "markers =\n    ssl: needs certificates\n"
    )
    there = [f"tests/{name}" for name in FILES if (copy / "tests" / name).exists()]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", "--timeout=120", *there],
        cwd=copy,
        capture_output=True,
        text=True,
        check=False,
    )
    counts = dict(re.findall(r"(\d+) (passed|failed|error)", done.stdout.splitlines()[-1]))
    assert done.returncode == 0, done.stdout[-20_000:]
    assert any(int(number) >= 100 and what == "passed" for number, what in counts.items()), done.stdout[-2_000:]
