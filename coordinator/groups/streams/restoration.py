"""Which tasks of a member still restore their state, by the offsets that the member reports. It decides nothing.

A member reports offsets when it joins, and then at most once in `streams.task.offset.interval.ms`. An active
task with state is restored when it runs (RUNS). A copy is restored if it is at most `streams.acceptable.recovery.lag`
behind. A task that the member had before this core was loaded is not followed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import MemberFacts
from muster.coordinator.groups.common.state import Step
from muster.coordinator.groups.streams.group import StreamsGroup
from muster.coordinator.groups.streams.internal_topics import Configured
from muster.coordinator.groups.streams.member import Position, StreamsMember

RUNS: Final = -2
"""The offset that a client reports for an active task that has its state (Kafka: Task.LATEST_OFFSET)."""
MAX_ROWS: Final = 100
"""How many tasks one event names."""
ACTIVE: Final = "active"
_ROLES: Final = (ACTIVE, "standby", "warmup")

Place = tuple[str, str, int]
"""The role of a task, its subtopology and its partition."""


class Restoring(NamedTuple):
    """A task that is not known to have its state. `since_ms`: when the member got it (monotonic)."""

    since_ms: int
    behind: int | None = None
    """How many records the task lacked in the first report that had both offsets. None before."""


def given(configured: Configured, member: StreamsMember, before: Position, mono_ms: int) -> None:
    """Note the tasks with state that a member has got in a new position, and forget those that it lost."""
    stateful = [name for name, one in configured.subtopologies.items() if one.changelogs]
    fresh = Restoring(mono_ms)
    for role, had, has in zip(_ROLES, before.assigned, member.position.assigned, strict=True):
        for name in stateful:
            old, new = set(had.get(name, ())), set(has.get(name, ()))
            for number in old - new:
                member.restoring.pop((role, name, number), None)
            member.restoring.update(dict.fromkeys([(role, name, number) for number in new - old], fresh))


def reported(step: Step, group: StreamsGroup, member: StreamsMember, facts: MemberFacts) -> None:
    """Compare the member's offsets with what was known. Report tasks that lack state, and tasks that are restored."""
    sums, ends = group.offsets.get(member.member_id, ({}, {}))
    most = step.state.configs.of_streams(group.group_id).acceptable_recovery_lag
    begun, done = [], []
    for place, one in [*member.restoring.items()]:
        behind = records_behind(sums, ends, place)
        if behind is None:
            continue
        if behind <= (0 if place[0] == ACTIVE else most):
            del member.restoring[place]
            if one.behind is not None:
                took_ms = step.now.mono_ms - one.since_ms
                done.append({**_row(place), "took_ms": took_ms, "behind": one.behind})
        elif one.behind is None:
            member.restoring[place] = one._replace(behind=behind)
            begun.append({**_row(place), "behind": behind})
    for kind, rows, order in ((events.TASKS_RESTORING, begun, "behind"), (events.TASKS_RESTORED, done, "took_ms")):
        if rows:
            rows.sort(key=lambda row: (-row[order], row["task"]))
            step.event(kind, group.group_id, member=facts, count=len(rows), tasks=rows[:MAX_ROWS])


def _row(place: Place) -> dict[str, Any]:
    role, name, number = place
    return {"task": f"{name}_{number}", "role": role}


def records_behind(
    sums: Mapping[str, Mapping[int, int]], ends: Mapping[str, Mapping[int, int]], place: Place
) -> int | None:
    """How many records of its changelogs the task lacks. None when the member has not reported that."""
    _, name, number = place
    sum_, end = (one.get(name, {}).get(number, -1) for one in (sums, ends))
    if sum_ == RUNS:
        return 0
    return None if sum_ < 0 or end < 0 else max(end - sum_, 0)
