"""Calls the Java programs Assignors.java and Tasks.java."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TOOL = HERE.parent / "kafka" / "kafka-tool.sh"


def ask_java(lines: Iterable[str], *arguments: str, program: str = "Assignors.java") -> list[Any]:
    """What Kafka's own assignors answer to these cases (`Case.line` of tests.assignors.cases or `task_cases`)."""
    run = subprocess.run(
        ["bash", str(TOOL), str(HERE / program), *arguments],
        input="".join(line + "\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]
