"""Answers that Kafka's Java classes gave to histories of groups (frozen), and rules that hold in every history."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

from muster.assignors.connect.work import Task, from_rows
from muster.protocol.connect import decode_assignment, decode_worker_state
from tests.assignors.connect.histories import draw, play

SAMPLE = Path(__file__).parent / "java_answers.jsonl.gz"


def test_recorded_histories_get_the_assignments_of_java() -> None:
    with gzip.open(SAMPLE, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    assert len(rows) >= 80
    for number, row in enumerate(rows):
        assert play(row["history"]) == row["java"], f"history {number}"


@pytest.mark.parametrize("seed", range(40))
def test_no_rebalance_starts_work_twice_or_loses_it(seed: int) -> None:
    history, answers = draw(seed)
    for row, answer in zip(history["rounds"], answers, strict=True):
        if row["protocol"] == "default" or not answer["owners"]:
            continue
        wanted = {Task(name) for name in row["configured"]} | {
            Task(name, number) for name, count in row["configured"].items() for number in range(count)
        }
        held, running = {}, {}
        for member, metadata in row["members"]:
            _, state = decode_worker_state(bytes.fromhex(metadata))
            held[member] = set(from_rows(state.assignment.assigned)) if state.assignment else set()
        for member in held:
            _, assignment = decode_assignment(bytes.fromhex(answer["assignments"][member]))
            assigned, revoked = set(from_rows(assignment.assigned)), set(from_rows(assignment.revoked))
            assert assigned <= wanted
            assert not assigned & set().union(*held.values()), "to be started while somebody runs it"
            running[member] = held[member] - revoked | assigned
        started = [item for member in running for item in running[member]]
        assert len(started) == len(set(started)), "runs twice after the round"


def test_the_order_of_workers_and_connectors_does_not_matter() -> None:
    history, answers = draw(7)
    rng = random.Random(0)
    for row in history["rounds"]:
        rng.shuffle(row["members"])
        row["configured"] = dict(sorted(row["configured"].items(), reverse=True))
    again = play(history)
    assert again == answers
