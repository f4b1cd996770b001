"""The answers of Kafka 4.4's own classes to some groups, without Java (tests/conformance/test_assignors.py wrote
them).
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from muster.assignors.simple import SimpleAssignor
from tests.assignors.cases import answer, as_recorded, read_case
from tests.assignors.histories import ASSIGNORS

SAMPLE = Path(__file__).with_name("kafka-4.4.jsonl.gz")


@pytest.mark.parametrize("strategy", ASSIGNORS)
def test_recorded_groups_get_the_assignments_of_kafka(strategy: str) -> None:
    compared = 0
    for line in gzip.decompress(SAMPLE.read_bytes()).decode().splitlines():
        row = json.loads(line)
        if row["case"]["strategy"] == strategy:
            case = read_case(json.dumps(row["case"]))
            made = answer(case, ASSIGNORS[strategy].assign(case.members, case.topics))
            assert as_recorded(case, made) == as_recorded(case, row["answer"]), line
            compared += 1
    assert compared >= 80


def test_recorded_share_groups_get_the_assignments_of_kafka() -> None:
    compared = 0
    for line in gzip.decompress(SAMPLE.read_bytes()).decode().splitlines():
        row = json.loads(line)
        if row["case"]["strategy"] == "simple":
            case = read_case(json.dumps(row["case"]))
            found = SimpleAssignor().assign(case.members, case.topics, case.assignable)
            assert answer(case, found) == row["answer"], line
            compared += 1
    assert compared >= 80
