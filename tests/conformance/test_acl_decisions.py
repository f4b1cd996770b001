"""Kafka's own StandardAuthorizer and ours answer the same random questions."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.coordinator.security.acl_cases import Case, answers, make, recorded_answers, recorded_cases

HERE = Path(__file__).parent
TOOL = HERE.parent / "kafka" / "kafka-tool.sh"
CASES = 2_400
QUESTIONS = 50


def ask_java(cases: Sequence[Case]) -> list[str]:
    """Kafka's answer to each question: 1, 0, or x where it fails."""
    lines = [
        json.dumps(
            {
                "super": case.super_users,
                "open": "true" if case.is_open else "false",
                "acls": case.acls,
                "asked": [(*one.principal, *one[1:]) for one in case.questions],
            }
        )
        for case in cases
    ]
    run = subprocess.run(
        ["bash", str(TOOL), str(HERE / "Decisions.java")],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def test_the_recorded_acl_decisions_are_kafkas() -> None:
    assert ask_java(recorded_cases()) == recorded_answers()


def test_random_acl_decisions_equal_kafkas() -> None:
    draw = random.Random(4)
    cases = [make(draw, QUESTIONS) for _ in range(CASES)]
    java = ask_java(cases)
    assert len(java) == CASES
    for case, theirs in zip(cases, java, strict=True):
        for question, their, our in zip(case.questions, theirs, answers(case), strict=True):
            assert their == our, (question, their, our, case)
