"""The assignor of tasks answers as Kafka 4.4's own class does: on random applications, and through their histories.

`MUSTER_FREEZE=1` writes the sample that `make test` compares with (tests/assignors/tasks-4.4.jsonl.gz) again.
"""

from __future__ import annotations

import gzip
import json
import os
import random

import pytest

from tests.assignors.task_cases import TaskCase, draw_case, draw_history
from tests.assignors.test_sticky_tasks import SAMPLE
from tests.conformance.java_assignors import ask_java

APPLICATIONS = 2_500
HISTORIES = 400
FROZEN = 40


def _random_cases() -> list[TaskCase]:
    rng = random.Random("tasks 4.4")
    return [draw_case(rng) for _ in range(APPLICATIONS)]


def _histories() -> list[TaskCase]:
    rng = random.Random("tasks over time")
    return [case for _ in range(HISTORIES) for case in draw_history(rng)]


@pytest.mark.parametrize("cases", [_random_cases, _histories], ids=["random", "histories"])
def test_applications_get_the_assignments_of_kafka(cases: object) -> None:
    assert callable(cases)
    drawn: list[TaskCase] = cases()
    answers = ask_java((case.line() for case in drawn), program="Tasks.java")
    assert len(answers) == len(drawn)
    assert [case.line() for case, said in zip(drawn, answers, strict=True) if case.answer() != said] == []


@pytest.mark.skipif("MUSTER_FREEZE" not in os.environ, reason="only MUSTER_FREEZE=1 writes the sample")
def test_freeze_a_sample() -> None:
    drawn = [*_random_cases()[:FROZEN], *_histories()[:FROZEN]]
    answers = ask_java((case.line() for case in drawn), program="Tasks.java")
    rows = [
        json.dumps({"case": json.loads(case.line()), "answer": said}) + "\n"
        for case, said in zip(drawn, answers, strict=True)
    ]
    SAMPLE.write_bytes(gzip.compress("".join(rows).encode(), mtime=0))
