"""Runs the own tests of client libraries, which their registries have, on a copy of the library.

The server is Muster. With `MUSTER_SUITES_ON=kafka` the server is a real Kafka, which shows whose a failure is.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.support.servers import QUICK, KafkaCluster, KafkaServer, MusterServer, NodesServer, ServerProcess

ON_KAFKA = os.environ.get("MUSTER_SUITES_ON") == "kafka"
TIMEOUT_S = 3000


class Results(NamedTuple):
    """The names of tests, with those of subtests."""

    passed: set[str]
    failed: set[str]
    output: str

    def check(self, at_least: int, otherwise: set[str]) -> None:
        """Only the tests in `otherwise` failed, and at least this number of tests passed."""
        assert self.failed == otherwise, self.output[-20_000:]
        assert len(self.passed) >= at_least, self.output[-20_000:]


def one_broker(folder: Path, port: int, **properties: str) -> ServerProcess:
    """A server with one broker, whose clients connect to localhost:`port`."""
    if not ON_KAFKA:
        settings = {**QUICK, "listeners": f"PLAINTEXT://localhost:{port}", **properties}
        return MusterServer(folder, settings, in_memory=True)
    server = KafkaServer(folder, {"advertised.listeners": f"PLAINTEXT://localhost:{port}", **properties})
    server.bootstrap = f"127.0.0.1:{port}"
    return server


def three_brokers(folder: Path) -> ServerProcess:
    """A server with three brokers, at free ports."""
    return KafkaCluster(folder) if ON_KAFKA else NodesServer(folder)


def go_copy(module: str, copy: Path) -> Path:
    """Copy a module of Go, such as "example.org/name@v1.2.3"."""
    done = subprocess.run(["go", "mod", "download", "-json", module], capture_output=True, text=True, check=True)
    shutil.copytree(json.loads(done.stdout)["Dir"], copy)
    for path in [copy, *copy.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)
    return copy


def go_test(copy: Path, *arguments: str, **variables: str) -> Results:
    """Run `go test`."""
    return run(
        ["go", "test", "-mod=mod", "-count=1", "-p=1", "-v", f"-timeout={TIMEOUT_S}s", *arguments], copy, variables
    )


GO = re.compile(r"^\s*--- (PASS|FAIL): (\S+)", re.MULTILINE)


def run(command: list[str], folder: Path, variables: Mapping[str, str]) -> Results:
    """Run the tests, and read their results as Go's test runner prints them."""
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **variables}, timeout=TIMEOUT_S + 600, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace",
    )  # fmt: skip
    states = GO.findall(done.stdout)
    failed = {name for state, name in states if state == "FAIL"}
    assert done.returncode == 0 or failed, done.stdout[-20_000:]
    return Results({name for state, name in states if state == "PASS"} - failed, failed, done.stdout)


def replaced(copy: Path, pattern: str, old: str, new: str) -> None:
    """Replace a text in the files of a copy, such as the port of the server."""
    for file in copy.rglob(pattern):
        text = file.read_text(encoding="utf-8")
        if old in text:
            file.write_text(text.replace(old, new), encoding="utf-8")


def pytest_results(output: str) -> Results:
    """What pytest printed with -rA."""
    states = re.findall(r"^(PASSED|FAILED|ERROR) \S+::(\S+)", output, re.MULTILINE)
    return Results(
        {name for state, name in states if state == "PASSED"},
        {name for state, name in states if state != "PASSED"},
        output,
    )
