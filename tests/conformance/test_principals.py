"""The names of clients with certificates are those of Java's classes, for random names and rules.

`MUSTER_FREEZE=1` writes the sample of `make test` (tests/coordinator/security/java-principals.txt) again.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.coordinator.security import principal_cases
from tests.coordinator.security.test_ssl_principal import answer, shown

HERE = Path(__file__).parent
TOOL = HERE.parent / "kafka" / "kafka-tool.sh"


def ask_java(lines: Sequence[str], folder: Path) -> list[str]:
    asked, answered = folder / "asked", folder / "answered"
    asked.write_text("".join(f"{line}\n" for line in lines))
    subprocess.run(["bash", TOOL, HERE / "Principals.java", asked, answered], check=True, timeout=300)
    return answered.read_text().splitlines()


def test_random_principal_names_and_rules_equal_javas(tmp_path: Path) -> None:
    freeze = bool(os.environ.get("MUSTER_FREEZE"))
    seed, names, rules = (1, 800, 800) if freeze else (2, 20_000, 50_000)
    lines = [*principal_cases.names(seed, names), *principal_cases.mappings(seed, rules)]
    answers = ask_java(lines, tmp_path)
    assert len(answers) == len(lines)
    if freeze:
        text = "".join(f"{line} {java}\n" for line, java in zip(lines, answers, strict=True))
        principal_cases.FROZEN.write_text(text)
    pairs = [(line, java, answer(line)) for line, java in zip(lines, answers, strict=True)]
    assert [[*shown(line), java, ours] for line, java, ours in pairs if java != ours and not _ends_a_line(line)] == []


def _ends_a_line(line: str) -> bool:
    """Java's `$` also matches before a line end at the very end of a name. RE2's does not, and no name ends so."""
    return line.startswith("map ") and line.endswith(("0a", "0d"))
