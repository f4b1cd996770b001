"""The tasks of a streams group's members, as pure values. Kafka: TasksTuple, TasksTupleWithEpochs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

Numbers = frozenset[int]
"""Numbers of partitions."""
TaskSets = Mapping[str, Numbers]
"""Tasks: numbers of partitions by subtopology id."""
TaskEpochs = Mapping[str, Mapping[int, int]]
"""Active tasks of a member, by subtopology id and partition number: the epoch since which the member has the task."""
NONE: Final[Mapping[str, Any]] = MappingProxyType({})
NO_NUMBERS: Final[Numbers] = frozenset()
NO_EPOCHS: Final[Mapping[int, int]] = MappingProxyType({})


class Tasks(NamedTuple):
    """Tasks of one member: its target, or the tasks that it says it has."""

    active: TaskSets = NONE
    standby: TaskSets = NONE
    warmup: TaskSets = NONE

    def is_empty(self) -> bool:
        """Whether there is no task of any kind."""
        return not (self.active or self.standby or self.warmup)


class Held(NamedTuple):
    """Tasks that a member has, or has to give up."""

    active: TaskEpochs = NONE
    standby: TaskSets = NONE
    warmup: TaskSets = NONE

    def is_empty(self) -> bool:
        """Whether there is no task of any kind."""
        return not (self.active or self.standby or self.warmup)


NO_TASKS: Final = Tasks()
NOT_ANY: Final = Held()


def sets_of(rows: Iterable[Any]) -> TaskSets:
    """The tasks of the rows of a message. Each row has `subtopology_id` and `partitions`."""
    return {row.subtopology_id: frozenset(row.partitions) for row in rows}


def without_epochs(tasks: TaskEpochs) -> TaskSets:
    """Active tasks without the epochs."""
    return {name: frozenset(its) for name, its in tasks.items()}


def has_same_tasks(target: Tasks, held: Held) -> bool:
    """Whether a member has exactly the tasks of this target."""
    if target.standby != held.standby or target.warmup != held.warmup or target.active.keys() != held.active.keys():
        return False
    return all(its == held.active[name].keys() for name, its in target.active.items())


def has_any(tasks: Tasks, held: Held) -> bool:
    """Whether the two have a task of the same kind in common."""
    return any(
        name in theirs and not frozenset(theirs[name]).isdisjoint(its)
        for ours, theirs in zip(tasks, held, strict=True)
        for name, its in ours.items()
    )


def is_within(rows: Iterable[Any] | None, tasks: Mapping[str, Collection[int]]) -> bool:
    """Whether all tasks of a message's rows are among these. False when the message has no such field."""
    if rows is None:
        return False
    return all(
        row.subtopology_id in tasks and all(number in tasks[row.subtopology_id] for number in row.partitions)
        for row in rows
    )


def merged(one: Held, other: Held) -> Held:
    """The tasks of both."""
    active = {name: dict(its) for name, its in one.active.items()}
    for name, its in other.active.items():
        active.setdefault(name, {}).update(its)
    return Held(active, united(one.standby, other.standby), united(one.warmup, other.warmup))


def united(one: TaskSets, other: TaskSets) -> TaskSets:
    """The tasks of both."""
    return {name: one.get(name, NO_NUMBERS) | other.get(name, NO_NUMBERS) for name in {**one, **other}}
