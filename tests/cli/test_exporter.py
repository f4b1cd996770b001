"""`muster exporter` over a server of another process: the same metrics as the server has itself."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from typing import Any

import pytest

from muster.cli import main
from muster.cli.exporter import ClusterReader
from muster.coordinator.config.listeners import Address
from muster.coordinator.http.failure import Failure
from muster.coordinator.http.watch import of_kafka
from muster.coordinator.server.exposition import exposition
from muster.coordinator.system.jobs import at_once
from muster.testcontrol.topics import NewRecord
from tests.e2e.aio import consuming
from tests.testcontrol.server import bootstrap, controlled


def lines(metrics: Any) -> set[str]:
    text = b"".join(at_once(exposition(metrics))).decode()
    return {line for line in text.splitlines() if line.startswith("kafka_")}


async def test_the_exporter_reads_of_a_cluster_what_the_server_says_of_itself() -> None:
    async with controlled(nodes=2) as found:
        await found.topics.produce("orders", [NewRecord(b"x", partition=0) for _ in range(3)])
        reader = ClusterReader([Address(one.host, one.port) for one in found.server.bound], None)
        async with consuming(bootstrap(found), "orders", group_id="g") as consumer:
            await found.groups.wait_stable("g", members=1, partitions="orders")
            await consumer.commit({one: 1 - one.partition for one in consumer.assignment()})
            of_itself, read = lines(at_once(of_kafka(found.server))), lines(await reader.collect())
            # the history of groups grows meanwhile
            assert {one for one in of_itself ^ read if "__group_events" not in one} == set()
            assert 'kafka_consumergroup_lag{consumergroup="g",partition="0",topic="orders"} 2' in read
        await asyncio.to_thread(reader.close)
    with pytest.raises(Failure) as refused:
        await reader.collect()
    assert refused.value.code == "unavailable"


def test_the_exporter_refuses_wrong_options(capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (("--bootstrap-server", "here"), "--bootstrap-server"),
        (("--http", "0.0.0.0:0"), "needs --http-token FILE"),
    ):
        assert main(["exporter", *words]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize("command", ["exporter", "console"])
def test_a_port_in_use_is_said_in_a_sentence(command: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        # a process of its own: the command sets the level of all log lines
        words = [sys.executable, "-m", "muster.cli", command, "--http", address]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    why = "the port is in use; stop the program that has it, or give another with --http"
    assert (done.returncode, done.stderr) == (1, f"muster {command}: cannot listen on {address}: {why}\n")
