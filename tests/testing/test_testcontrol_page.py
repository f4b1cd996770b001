"""The commands of docs/testcontrol.md are pasted unchanged, and run on a server with three consumers."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from muster.testing import Muster
from tests.support.pasted_docs import blocks
from tests.testing.clients import CLIENTS

PAGE = "docs/testcontrol.md"
CONTROL = "127.0.0.1:9094"
"""The address on the page. Here each server has a free port."""


@pytest.fixture(scope="module")
def server() -> Iterator[Muster]:
    with Muster(process=True, topics={"orders": 4}) as found, ExitStack() as stack:
        for client_id in ("app-1", "app-2", "app-3"):
            stack.enter_context(CLIENTS["aiokafka"](found.bootstrap_servers, "orders", "payments", client_id))
        yield found
        found.tidy()


def run(command: str, server: Muster) -> str:
    words = shlex.split(command.replace(CONTROL, server.runner.control))
    if words[0] == "muster":
        words[:1] = [sys.executable, "-m", "muster.cli"]
    environment = {**os.environ, "MUSTER_CONTROL": server.runner.control}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def test_the_page_starts_a_server_with_the_test_control(server: Muster) -> None:
    [block] = blocks(PAGE, "sh", name="serve")
    [command] = block.commands
    assert run(f"{command} --check", server)
    assert f"--control {CONTROL}" in command


def test_the_control_commands_of_the_page_work(server: Muster) -> None:
    [block] = blocks(PAGE, "sh", name="commands")
    for command in block.commands:
        run(command, server)
    assert [fault.describe()["then"]["error"] for fault in server.faults.list()] == ["NOT_COORDINATOR"]
    server.faults.clear()


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_the_curl_commands_of_the_page_work(server: Muster) -> None:
    [block] = blocks(PAGE, "sh", name="curl")
    for command in block.commands:
        server.group("payments").wait_stable(members=3)
        assert '"error": {"code"' not in run(command, server), command
    assert server.time.now().frozen


def test_each_shell_block_of_the_test_control_page_is_run() -> None:
    assert [block.name for block in blocks(PAGE) if block.language in ("", "sh")] == ["serve", "commands", "curl"]
