"""The command `muster` in a process of its own, and a server that it runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "muster.cli"]


START_S = 30


Command = Callable[..., subprocess.CompletedProcess[str]]


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KAFKA_", "CLUSTER_ID"))}
    return {**kept, **(more or {})}


def run(
    *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=START_S,
        cwd=cwd,
        env=environment(env),
        check=False,
    )


class Serving:
    """A running `muster serve`. It waits for the ready line, and ends the process with SIGTERM."""

    def __init__(self, *arguments: str, cwd: Path, env: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "serve", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd,
            env=environment(env),
        )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        if not self.line:
            pytest.fail("the server did not start: " + self.process.communicate()[1])

    @property
    def port(self) -> int:
        return int(self.line.rpartition(":")[2])

    def stop(self, number: int = signal.SIGTERM) -> tuple[str, list[dict[str, str]]]:
        """Stop the process: the rest of its stdout, and its log lines."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        out, err = self.process.communicate(timeout=START_S)
        assert self.process.returncode == 0, err
        assert "Traceback" not in err, err
        return out, [json.loads(line) for line in err.splitlines()]
