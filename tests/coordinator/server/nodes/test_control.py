from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from muster.cli import main
from muster.cli.nodes import ask
from muster.coordinator.server.nodes.control import NAME
from tests.coordinator.server.nodes.test_three_nodes import three
from tests.support.muster import running


async def asked(directory: Path, do: str, node: object = None) -> Any:
    return await asyncio.to_thread(ask, directory, {"do": do, "node": node})


async def test_nodes_are_controlled_by_a_socket_in_the_data_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with three(tmp_path) as cluster:
        assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600
        rows = (await asked(tmp_path, "list"))["nodes"]
        assert [(row["node"], row["state"]) for row in rows] == [(1, "up"), (2, "up"), (3, "up")]
        assert {row["coordinates"] for row in rows} == {2}
        rows = (await asked(tmp_path, "stop", 2))["nodes"]
        assert [(row["state"], row["leads"] > 0) for row in rows] == [("up", True), ("stopped", False), ("up", True)]
        assert await asked(tmp_path, "stop", 2) == {"error": "node 2 is stopped: the action stop is not possible"}
        assert "there is no node 9" in (await asked(tmp_path, "kill", 9))["error"]
        assert "nodes have no action sing" in (await asked(tmp_path, "sing", 1))["error"]
        assert "the request names no node" in (await asked(tmp_path, "stop"))["error"]
        rows = (await asked(tmp_path, "return", 2))["nodes"]
        assert rows[1]["state"] == "up"
        rows = (await asked(tmp_path, "pause", 1))["nodes"]
        assert rows[0]["state"] == "paused"
        rows = (await asked(tmp_path, "resume", 1))["nodes"]
        assert rows[0]["state"] == "up"
        rows = (await asked(tmp_path, "kill", 3))["nodes"]
        assert rows[2]["state"] == "killed"
        assert await asyncio.to_thread(main, ["nodes", "list", "--json", "--data-dir", str(tmp_path)]) == 0
        output = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
        assert [(row["node"], row["state"]) for row in output] == [(1, "up"), (2, "up"), (3, "killed")]
        assert cluster.server.cluster.nodes[3].bound[0].port == int(output[2]["addresses"][0].rpartition(":")[2])
        reader, writer = await asyncio.open_unix_connection(tmp_path / NAME)
        writer.write(b"no json\n")
        assert b"error" in await reader.readline()
        writer.close()
    assert not (tmp_path / NAME).exists()


async def test_the_nodes_command_says_that_no_server_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(data_dir=tmp_path):
        # a single broker has no such socket
        assert await asyncio.to_thread(main, ["nodes", "stop", "1", "--data-dir", str(tmp_path)]) == 1
    assert "no server of several brokers answers" in capsys.readouterr().err
