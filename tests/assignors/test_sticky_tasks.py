"""The tasks of the members of a streams group."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.assignors.sticky_tasks import StickyTaskAssignor, TaskCount, TaskMember
from tests.assignors.task_cases import draw_case, draw_history, read_case

SAMPLE = Path(__file__).with_name("tasks-4.4.jsonl.gz")
TWO_TASKS = {"0": TaskCount(2, is_stateful=True)}


def test_recorded_applications_get_the_assignments_of_kafka() -> None:
    """tests/conformance/test_sticky_tasks_with_java.py wrote these answers of Kafka 4.4's own class."""
    rows = [json.loads(line) for line in gzip.decompress(SAMPLE.read_bytes()).decode().splitlines()]
    assert len(rows) >= 80
    for row in rows:
        assert read_case(row["case"]).answer() == row["answer"], row["case"]


def test_without_members_nobody_has_tasks() -> None:
    assert StickyTaskAssignor().assign([], TWO_TASKS) == {}


@given(st.integers(0, 2**32))
def test_each_task_is_active_once_and_no_process_has_two_copies(seed: int) -> None:
    case = draw_case(random.Random(seed))
    made = StickyTaskAssignor().assign(case.members, case.subtopologies, case.replicas)
    active = Counter((name, one) for share in made.values() for name, its in share.active.items() for one in its)
    assert active == {(name, one): 1 for name, its in case.subtopologies.items() for one in range(its.tasks)}
    process_of = {member.member_id: member.process_id for member in case.members}
    copies: Counter[tuple[str, str, int]] = Counter()
    for member_id, share in made.items():
        for tasks in share:
            copies.update((process_of[member_id], name, one) for name, its in tasks.items() for one in its)
    assert not copies or max(copies.values()) == 1
    standby = Counter((name, one) for share in made.values() for name, its in share.standby.items() for one in its)
    replicas = min(case.replicas, len(set(process_of.values())) - 1)
    stateful = {(name, one) for name, its in case.subtopologies.items() if its.is_stateful for one in range(its.tasks)}
    assert standby == (dict.fromkeys(stateful, replicas) if replicas else {})


@given(st.integers(0, 2**32))
def test_an_assignment_that_nothing_disturbs_stays(seed: int) -> None:
    """Standby copies may still move, as on Kafka: they are placed after the active tasks."""
    case = draw_history(random.Random(seed))[0]
    made = StickyTaskAssignor().assign(case.members, case.subtopologies)
    members = [one._replace(active=made[one.member_id].active) for one in case.members]
    again = StickyTaskAssignor().assign(members, case.subtopologies)
    assert {one: share.active for one, share in again.items()} == {one: share.active for one, share in made.items()}


@pytest.mark.parametrize("offset", [0, 50])
def test_a_member_with_more_restored_state_gets_the_task(offset: int) -> None:
    has = TaskMember("a", "one", offsets={"0": {0: offset + 1, 1: 0}})
    other = TaskMember("b", "two", offsets={"0": {0: offset, 1: 0}})
    made = StickyTaskAssignor().assign([other, has], TWO_TASKS)
    assert made["a"].active == {"0": [0]}
    assert made["b"].active == {"0": [1]}
