"""A few kills in a few seconds; `make exactly-once` does fifty for each client, and tries every write of a commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.exactly_once.clients import COMMANDS
from tests.exactly_once.run import SETTINGS, Run, nodes_server
from tests.exactly_once.sweep import Sweep
from tests.support.servers import QUICK, MusterServer


@pytest.mark.timeout(300)
def test_a_record_is_counted_once_when_server_and_workers_are_killed(tmp_path: Path) -> None:
    server = MusterServer(tmp_path, {**QUICK, **SETTINGS})
    server.start()
    command = COMMANDS["aiokafka"](tmp_path)
    how = {"workers": 2, "records_per_kill": 60, "transactions_per_kill": 4}
    run = Run(server, command, tmp_path, seed=1, kills=2, victims=["server", "both"], **how)
    try:
        assert run.run() == []
    finally:
        if server.running:
            server.kill()
    assert run.said["committed"]


@pytest.mark.timeout(300)
def test_a_record_is_counted_once_when_coordinators_and_leaders_move(tmp_path: Path) -> None:
    server = nodes_server(tmp_path)
    server.start()
    command = COMMANDS["confluent-kafka"](tmp_path)
    how = {"workers": 2, "records_per_kill": 60, "transactions_per_kill": 4}
    run = Run(server, command, tmp_path, seed=1, kills=3, victims=["node"], **how)
    try:
        assert run.run() == []
    finally:
        if server.running:
            server.kill()
    assert run.said["committed"]


@pytest.mark.timeout(300)
async def test_a_commit_interrupted_between_its_markers_is_completed(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    assert await sweep.run([2], [True], first=11, step=3, moments=["after"]) == []
    assert sweep.deaths == 2
