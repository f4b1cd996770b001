"""`muster nodes --bootstrap-server`: the brokers of a running cluster by its address."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muster.cli import main
from tests.support.servers import QUICK, NodesServer


def test_the_nodes_commands_work_by_the_address_of_the_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = NodesServer(tmp_path / "server", QUICK)
    server.start()
    try:
        where = ["--bootstrap-server", f"127.0.0.1:1,{server.bootstrap}"]

        def states(*words: str) -> list[tuple[int, str]]:
            assert main(["nodes", *words, "--json", *where]) == 0
            rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
            return [(row["node"], row["state"]) for row in rows]

        assert states("list") == [(1, "up"), (2, "up"), (3, "up")]
        assert states("stop", "2") == [(1, "up"), (2, "stopped"), (3, "up")]
        assert states("return", "2") == [(1, "up"), (2, "up"), (3, "up")]
        assert main(["nodes", "stop", "9", *where]) == 1
        assert "9" in capsys.readouterr().err
        # any Kafka can be asked, and answers less
        (tmp_path / "server" / "data" / "control.sock").unlink()
        assert main(["nodes", "list", "--json", *where]) == 0
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [(row["node"], row["addresses"], row["connections"]) for row in rows] == [
            (node, [address], None) for node, address in enumerate(server.bootstrap.split(","), 1)
        ]
        assert sum(row["coordinates"] for row in rows) == 10
        assert main(["nodes", "stop", "2", *where]) == 1
        said = capsys.readouterr().err
        assert said.startswith(
            f"muster nodes: {server.bootstrap.split(',')[0]}: it is no muster serve --nodes with a data"
        )
    finally:
        server.stop()
