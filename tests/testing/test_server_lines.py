"""The log lines of a server in a thread that are kept for the report of a test."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module",
    ["muster.testcontrol.faults.engine", "muster.postgres.membership", "muster.coordinator.net.connection"],
)
def test_log_lines_of_modules_loaded_before_the_server_are_kept(module: str) -> None:
    """A program under test may have loaded any part of Muster already."""
    code = f"""
import {module} as loaded
from muster.testing import server_lines

lines = server_lines.ServerLines()
server_lines.keep(lines)
loaded.log.warning("seen")
print([line.text for line in lines.warnings()])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['seen']\n"
