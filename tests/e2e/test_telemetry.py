"""Real clients push their metrics (KIP-714), and `muster clients` shows them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer

from muster.cli import main
from tests.coordinator.telemetry.story import Story
from tests.coordinator.telemetry.wire import Wire
from tests.support.servers import ServerProcess

Capture = pytest.CaptureFixture[str]
CLIENT = "telemetry-e2e"
METRIC = "org.apache.kafka.consumer.coordinator.rebalance.latency.total"

pytestmark = pytest.mark.skipif(
    os.environ.get("MUSTER_TEST_SERVER") == "kafka", reason="Apache Kafka has no receiver of metrics"
)


@pytest.fixture
def subscription(server: ServerProcess) -> Iterator[None]:
    """A subscription of the test's own clients."""
    with Wire(*server.address) as wire:
        admin = Story(wire)
        admin.subscribe(CLIENT, metrics="org.apache.kafka.consumer.", interval_ms="200", match=f"client_id={CLIENT}.*")
        yield
        admin.subscribe(CLIENT, metrics=None, interval_ms=None, match=None)


def shown(server: ServerProcess, capsys: Capture, *command: str) -> list[dict[str, Any]]:
    """The JSON lines of a command."""
    capsys.readouterr()
    assert main([*command, "--json", "--bootstrap-server", server.bootstrap]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.usefixtures("subscription")
def test_a_client_of_librdkafka_pushes_its_metrics(
    server: ServerProcess, new_topic: Callable[[int], str], new_name: Callable[[str], str], capsys: Capture
) -> None:
    topic, group_id = new_topic(2), new_name("group")
    settings = {"bootstrap.servers": server.bootstrap, "group.id": group_id, "client.id": f"{CLIENT}-1"}
    consumer = Consumer(settings)
    try:
        consumer.subscribe([topic])
        deadline = time.monotonic() + 30
        found: list[dict[str, Any]] = []
        while not (found and found[0]["pushes"] >= 2 and consumer.assignment()):
            assert time.monotonic() < deadline, found
            consumer.poll(0.1)
            found = [one for one in shown(server, capsys, "clients", "list") if one["group"] == group_id]
        (one,) = shown(server, capsys, "clients", "describe", found[0]["id"])
        assert one["client_id"] == f"{CLIENT}-1"
        assert "rdkafka" in one["software"]
        assert METRIC in one["series"]
        by_client_id = shown(server, capsys, "clients", "describe", f"{CLIENT}-1")
        assert one["id"] in [each["id"] for each in by_client_id]
        assert main(["clients", "describe", one["id"], "--bootstrap-server", server.bootstrap]) == 0
        text = capsys.readouterr().out
        assert METRIC in text
        assert f"group {group_id}" in text
    finally:
        consumer.close()
    assert main(["clients", "describe", "nobody", "--bootstrap-server", server.bootstrap]) == 1
    assert "no client nobody has pushed metrics" in capsys.readouterr().err
