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

from tests.conformance.packages import KEPT
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
        assert self.failed == otherwise, (self.failed ^ otherwise, self.output[-20_000:])
        assert len(self.passed) >= at_least, self.output[-20_000:]


def one_broker(folder: Path, port: int, **properties: str) -> ServerProcess:
    """A server with one broker, whose clients connect to localhost:`port`."""
    if not ON_KAFKA:
        settings = {**QUICK, "listeners": f"PLAINTEXT://localhost:{port}", **properties}
        return MusterServer(folder, settings, in_memory=True)
    voter = {"controller.quorum.voters": f"{properties.get('node.id', '1')}@127.0.0.1:{port + 1}"}
    server = KafkaServer(folder, {"advertised.listeners": f"PLAINTEXT://localhost:{port}", **voter, **properties})
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
RUST = re.compile(r"^test (\S+) \.\.\. .*?(ok|FAILED)$", re.MULTILINE | re.DOTALL)


def run(command: list[str], folder: Path, variables: Mapping[str, str]) -> Results:
    """Run the tests, and read their results as Go's test runner prints them."""
    status, output = output_of(command, folder, variables)
    states = GO.findall(output)
    failed = {name for state, name in states if state == "FAIL"}
    assert status == 0 or failed, output[-20_000:]
    return Results({name for state, name in states if state == "PASS"} - failed, failed, output)


def output_of(command: list[str], folder: Path, variables: Mapping[str, str]) -> tuple[int, str]:
    """Run a command: its exit status, and what it printed."""
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **variables}, timeout=TIMEOUT_S + 600, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace",
    )  # fmt: skip
    return done.returncode, done.stdout


def cargo_test(copy: Path, **variables: str) -> Results:
    """Run the tests of a crate, one after the other. What is built is kept."""
    command = ["cargo", "test", "--locked", "--tests", "--no-fail-fast", "--", "--test-threads=1"]
    _, output = output_of(command, copy, {"CARGO_TARGET_DIR": str(KEPT / "cargo"), "RUST_LOG": "off", **variables})
    states = RUST.findall(output)
    assert states, output[-20_000:]
    failed = {name for name, state in states if state == "FAILED"}
    return Results({name for name, _ in states} - failed, failed, output)


ENDS_AT_ONCE = "process.on('exit', () => process.kill(process.pid, 'SIGKILL'))"
"""A thread of node-rdkafka may read for ever, and Node's exit waits for it."""


def mocha(copy: Path, pattern: str, **variables: str) -> Results:
    """Run the specs of a package of npm with mocha."""
    report, ends = copy / "results.json", copy / "ends.js"
    report.unlink(missing_ok=True)
    ends.write_text(ENDS_AT_ONCE)
    command = ["npx", "mocha", "--exit", "--timeout", "60000", "--require", str(ends), "--reporter", "json"]
    _, output = output_of(
        [*command, "--reporter-option", f"output={report}", *sorted(map(str, copy.glob(pattern)))], copy, variables
    )
    assert report.is_file(), output[-20_000:]
    found = json.loads(report.read_text())
    passed, failed = ({one["fullTitle"] for one in found[key]} for key in ("passes", "failures"))
    return Results(passed - failed, failed, json.dumps(found["failures"], indent=1) + output[-5_000:])


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
