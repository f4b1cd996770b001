"""Clients of the test control's API in other languages (examples/), each in tests with its language's Kafka client."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers import REPOSITORY

EXAMPLES = REPOSITORY / "examples"
COMMANDS = {
    "typescript": [["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], ["npm", "test"]],
    "go": [["go", "vet", "./..."], ["go", "test", "-count=1", "./..."]],
    "java": [["mvn", "-q", "-B", "test"]],
}
LINES = 340
"""The largest length of a client: users copy the file."""


@pytest.mark.parametrize("language", list(COMMANDS))
def test_the_example_tests_of_each_language_pass(language: str, tmp_path: Path) -> None:
    missing = [command[0] for command in COMMANDS[language] if shutil.which(command[0]) is None]
    if missing:
        pytest.skip(f"needs {missing[0]}")
    place = tmp_path / language
    built = shutil.ignore_patterns("node_modules", "dist", "target")
    shutil.copytree(EXAMPLES / language, place, ignore=built)
    environment = {**os.environ, "MUSTER": str(Path(sys.prefix) / "bin" / "muster")}
    for command in COMMANDS[language]:
        done = subprocess.run(
            command, cwd=place, env=environment, capture_output=True, text=True, timeout=280, check=False
        )
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-8000:]}\n{done.stderr[-8000:]}"


@pytest.mark.parametrize(
    "name", ["typescript/muster.ts", "go/muster.go", "java/src/test/java/muster/Muster.java"], ids=lambda name: name[:2]
)
def test_each_example_client_uses_only_described_paths(name: str) -> None:
    """Each path that a client builds is in the description, and the client is short."""
    text = (EXAMPLES / name).read_text()
    assert len(text.splitlines()) <= LINES
    paths = json.loads((REPOSITORY / "testcontrol/http/openapi.json").read_text())["paths"]
    known = {re.split(r"[/{}]", path.removeprefix("/v1/"))[0] for path in paths}
    last = {path.rpartition("/")[2] for path in paths} | {verb for path in paths for verb in path.split("/")}
    asked = set(re.findall(r"[`\"]/([a-z-]+)[/\"`]", text))
    assert asked
    assert asked <= known | last
