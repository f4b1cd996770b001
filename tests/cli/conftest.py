"""Fixtures of the tests of commands."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from muster.cli import main
from tests.cli.command_harness import Command, Serving


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command that starts no server: in this process, which takes a tenth of the time of a new one."""
    monkeypatch.chdir(tmp_path)

    def run_here(*arguments: str) -> subprocess.CompletedProcess[str]:
        status = main([*arguments])
        output = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, status, output.out, output.err)

    return run_here


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Callable[..., Serving]]:
    """Start servers, which are always stopped when the test ends."""
    started: list[subprocess.Popen[str]] = []

    class Started(Serving):
        def __init__(self, *arguments: str, env: Mapping[str, str] | None = None, cwd: Path = tmp_path) -> None:
            super().__init__(*arguments, cwd=cwd, env=env)
            started.append(self.process)

    yield Started
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()
