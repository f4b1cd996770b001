"""Random cases for the assignor of tasks, and histories of an application whose threads join, end and restore state."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muster.assignors.sticky_tasks import Share, StickyTaskAssignor, TaskCount, TaskMember, Tasks

Answer = list[list[dict[str, list[int]]]]
"""For each member its active and its standby tasks."""


@dataclass(frozen=True)
class TaskCase:
    """One call of the assignor."""

    members: Sequence[TaskMember]
    subtopologies: Mapping[str, TaskCount]
    replicas: int

    def line(self) -> str:
        """The case as a line for tests/conformance/Tasks.java."""
        members = [
            [one.member_id, one.process_id, _rows(one.active), _rows(one.standby), dict(one.offsets)]
            for one in self.members
        ]
        return json.dumps({"members": members, "subtopologies": self.subtopologies, "replicas": self.replicas})

    def answer(self) -> Answer:
        """What Muster's assignor answers."""
        made = StickyTaskAssignor().assign(self.members, self.subtopologies, self.replicas)
        return [[dict(share.active), dict(share.standby)] for share in (made[one.member_id] for one in self.members)]


def read_case(row: Any) -> TaskCase:
    """The case of a parsed line."""
    members = [
        TaskMember(*its, {name: {int(number): sum_ for number, sum_ in rows.items()} for name, rows in offsets.items()})
        for *its, offsets in row["members"]
    ]
    return TaskCase(members, {name: TaskCount(*one) for name, one in row["subtopologies"].items()}, row["replicas"])


def _rows(tasks: Tasks) -> dict[str, list[int]]:
    return {name: sorted(numbers) for name, numbers in tasks.items()}


def draw_subtopologies(rng: random.Random) -> dict[str, TaskCount]:
    """Up to 15 subtopologies, most with few tasks."""
    sizes = rng.choice([(1, 4), (1, 20), (5, 60)])
    return {str(name): TaskCount(rng.randint(*sizes), rng.random() < 0.6) for name in range(rng.randint(1, 15))}


def draw_case(rng: random.Random) -> TaskCase:
    """Members with any tasks, also tasks that several members have or that do not exist any more."""
    subtopologies = draw_subtopologies(rng)
    tasks = [(name, number) for name, one in subtopologies.items() for number in range(one.tasks)]
    tasks.append(("gone", 3))
    processes = [f"{rng.getrandbits(64):016x}" for _ in range(rng.randint(1, 12))]
    members = []
    for _ in range(rng.randint(1, rng.choice([3, 12, 40]))):
        active, standby, kept = (_some(rng, tasks) for _ in range(3))
        offsets = {name: {one: rng.choice([0, rng.randrange(1_000)]) for one in its} for name, its in kept.items()}
        members.append(TaskMember(f"{rng.getrandbits(96):024x}", rng.choice(processes), active, standby, offsets))
    return TaskCase(members, subtopologies, rng.choice([0, 0, 1, 1, 2, 3]))


def _some(rng: random.Random, tasks: Sequence[tuple[str, int]]) -> dict[str, list[int]]:
    if rng.random() < 0.3:
        return {}
    made: dict[str, list[int]] = {}
    for name, number in sorted(rng.sample(tasks, rng.randint(0, min(len(tasks), 12)))):
        made.setdefault(name, []).append(number)
    return made


def draw_history(rng: random.Random) -> list[TaskCase]:
    """An application from its first assignment on; each call starts from the assignment of the call before."""
    subtopologies, replicas = draw_subtopologies(rng), rng.randint(0, 2)
    members = [_thread(rng, number) for number in range(rng.randint(1, 10))]
    calls = []
    for number in range(rng.randint(3, 7)):
        case = TaskCase(members, subtopologies, replicas)
        calls.append(case)
        made = StickyTaskAssignor().assign(members, subtopologies, replicas)
        members = [_with_share(rng, one, made[one.member_id]) for one in members]
        if len(members) > 1 and rng.random() < 0.5:
            members.pop(rng.randrange(len(members)))
        if rng.random() < 0.6:
            members.append(_thread(rng, 100 + number))
    return calls


def _thread(rng: random.Random, number: int) -> TaskMember:
    return TaskMember(f"thread-{number}-{rng.getrandbits(32):08x}", f"process-{rng.randint(1, 4)}")


def _with_share(rng: random.Random, member: TaskMember, share: Share) -> TaskMember:
    offsets = {name: {one: rng.randrange(100) for one in its} for name, its in share.standby.items()}
    return member._replace(active=share.active, standby=share.standby, offsets=offsets if rng.random() < 0.7 else {})
