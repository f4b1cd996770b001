"""The tasks of Streams groups as brokers describe them: copies, and tasks that lack state. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from muster.coordinator.history.words import plural, ranges

MAX_NAMED: Final = 5
"""How many tasks of a member one sentence names."""


def tasks(rows: Iterable[Any]) -> dict[str, list[int]]:
    """The numbers of tasks by subtopology."""
    return {one.subtopology_id: sorted(one.partitions) for one in rows}


def lacking(member: Any) -> list[dict[str, Any]]:
    """The tasks that lack state by the last offsets that the member reported, the ones that lack most first.

    Members report no end for an active task that runs.
    """
    sums, ends = (
        {(row.subtopology_id, row.partition): row.offset for row in rows}
        for rows in (member.task_offsets or (), member.task_end_offsets or ())
    )
    has = member.assignment
    found = []
    for role, rows in (("active", has.active_tasks), ("standby", has.standby_tasks), ("warmup", has.warmup_tasks)):
        for row in rows:
            for number in row.partitions:
                offset, end = (one.get((row.subtopology_id, number), -1) for one in (sums, ends))
                if offset >= 0 and end > offset:
                    found.append({"task": f"{row.subtopology_id}_{number}", "role": role, "behind": end - offset})
    return sorted(found, key=lambda one: (-one["behind"], one["task"]))


def task_lines(members: Iterable[Any]) -> Iterator[str]:
    """Sentences about the copies of tasks that members keep, and about tasks that lack state."""
    for one in members:
        for kind, copies in (("standby", one.standby), ("warm-up", one.warmup)):
            if copies:
                named = " ".join(f"{name}:{ranges(copies[name])}" for name in sorted(copies))
                yield f"{one.member} keeps {kind} copies of tasks {named}"
        if one.lacks:
            rows = [
                f"the {row['role']} task {row['task']} ({plural(row['behind'], 'record')} behind)"
                for row in one.lacks[:MAX_NAMED]
            ]
            more = f" and {len(one.lacks) - MAX_NAMED} more" if len(one.lacks) > MAX_NAMED else ""
            yield f"{one.member} restores {', '.join(rows)}{more}, as it last reported"
