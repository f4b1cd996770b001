"""Java clients and tools as subprocesses."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.clients import JavaClients
from tests.conformance.parts import FILES, PARTS
from tests.e2e.conftest import group, new_name, new_topic, server, start_server
from tests.support.servers import KAFKA_SCRIPTS, ServerProcess, kafka_available, kafka_jars

__all__ = ["group", "new_name", "new_topic", "server", "start_server"]
HERE = Path(__file__).parent
Tool = Callable[..., str]


def pytest_configure(config: pytest.Config) -> None:
    for part, about in PARTS.items():
        config.addinivalue_line("markers", f"conformance_{part}: {about}")


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """These tests need a real Kafka, so they run only when their names are given."""
    return None if any("conformance" in argument for argument in config.args) else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not f"{item.path}".startswith(f"{HERE}/"):
            continue
        part = next((part for name, part in FILES.items() if item.path.stem.startswith(name)), "clients")
        item.add_marker(f"conformance_{part}")
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(300))
        if not kafka_available():
            item.add_marker(pytest.mark.skip(reason="needs Java 17+ and Maven"))


@pytest.fixture(scope="session")
def java_classes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The class path of Kafka's jars and of our program, compiled once."""
    jars = kafka_jars()
    classes = tmp_path_factory.mktemp("classes")
    subprocess.run(["javac", "-cp", f"{jars}/*", "-d", classes, HERE / "Clients.java"], check=True)
    return f"{classes}:{jars}/*"


@pytest.fixture
def start_java(java_classes: str, tmp_path: Path) -> Iterator[Callable[[ServerProcess], JavaClients]]:
    """Start processes with Java clients. A process that still runs at the end of the test is stopped."""
    started: list[JavaClients] = []

    def start(server: ServerProcess) -> JavaClients:
        clients = JavaClients(java_classes, server.bootstrap, tmp_path / f"java-{len(started)}.log")
        started.append(clients)
        return clients

    yield start
    for clients in started:
        clients.close()


@pytest.fixture
def tool(server: ServerProcess) -> Tool:
    """Run one of Kafka's command line tools on the shared server, and return its stdout. The tool must succeed, unless
    another `status` is expected; `errors` adds its stderr.
    """

    def run(name: str, *arguments: str, stdin: str | None = None, status: int = 0, errors: bool = False) -> str:
        command = [KAFKA_SCRIPTS / "kafka-tool.sh", name, "--bootstrap-server", server.bootstrap, *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == status, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + (done.stderr if errors or status else "")

    return run
