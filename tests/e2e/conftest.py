"""The servers under test, and names that no other test uses."""

from __future__ import annotations

import itertools
import os
import secrets
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support import wire
from tests.support.servers import QUICK, KafkaServer, MusterServer, ServerProcess

BOOTSTRAP = os.environ.get("MUSTER_TEST_BOOTSTRAP")
SERVER = os.environ.get("MUSTER_TEST_SERVER", "muster")
TIMEOUT_S = 300

NOT_LED_YET = (3, 5, 6)
"""UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER"""

Start = Callable[..., ServerProcess]


class RunningServer(ServerProcess):
    """A server that a user has started."""

    def __init__(self, workdir: Path, bootstrap: str) -> None:
        super().__init__(workdir)
        self.bootstrap = bootstrap

    @property
    def running(self) -> bool:
        return True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = f"{Path(__file__).parent}/"
    for item in items:
        if f"{item.path}".startswith(here) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


def new_server(workdir: Path, properties: Mapping[str, str], **options: Any) -> ServerProcess:
    """A server of the kind under test, which is not started yet; `options` are those of `MusterServer`."""
    if SERVER == "kafka":
        return KafkaServer(workdir, properties)
    return MusterServer(workdir, properties, **options)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The server that most tests share; its groups settle at once. It must end with exit status 0."""
    workdir = tmp_path_factory.mktemp("server")
    if BOOTSTRAP:
        yield RunningServer(workdir, BOOTSTRAP)
        return
    process = new_server(workdir, QUICK, in_memory=True)
    process.start()
    yield process
    process.stop()


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[Start]:
    """Start servers for one test: `start_server({"property": "value"}, in_memory=False)`. A server that still runs at
    the end of the test is stopped, and must end with exit status 0.
    """
    if BOOTSTRAP:
        pytest.skip("this test needs a server of its own")
    started: list[ServerProcess] = []

    def start(properties: Mapping[str, str] | None = None, **options: Any) -> ServerProcess:
        process = new_server(tmp_path / f"server-{len(started)}", {**QUICK, **(properties or {})}, **options)
        process.start()
        started.append(process)
        return process

    yield start
    for process in started:
        if process.running:
            process.stop()


@pytest.fixture
def new_name() -> Callable[[str], str]:
    """New names of topics and groups, which stay unique when one server serves many runs."""
    run, counter = secrets.token_hex(4), itertools.count()
    return lambda kind: f"{kind}-{run}-{next(counter)}"


@pytest.fixture
def new_topic(server: ServerProcess, new_name: Callable[[str], str]) -> Callable[[int], str]:
    """Create a topic with the given number of partitions on the shared server."""

    def create(partitions: int = 1) -> str:
        name = new_name("topic")
        create_topic(server, name, partitions)
        return name

    return create


@pytest.fixture
def group(new_name: Callable[[str], str]) -> str:
    """A new group id."""
    return new_name("group")


def create_topic(server: ServerProcess, name: str, partitions: int) -> None:
    """Create a topic with frames written by hand, so that no client needs admin calls. Returns when the partitions have
    leaders: Kafka answers CreateTopics a little earlier.
    """
    with socket.create_connection(server.address, timeout=60) as connection:
        answer = wire.call(connection, wire.create_topic(name, partitions))
        answer.number("i")
        assert answer.number("i") == 1
        assert answer.string() == name
        assert answer.number("h") == 0
        for partition in range(partitions):
            while (
                wire.read_list_offsets_error(wire.call(connection, wire.list_offsets(name, partition))) in NOT_LED_YET
            ):
                pass
