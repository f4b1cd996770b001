"""One step of a member towards its target. Pure functions. Kafka: CurrentAssignmentBuilder of streams groups.

A member gives up tasks before it gets a new epoch. It gets a task when no other member has the task any more. Its
process must not have a copy of the task in another member. A copy that becomes the active task, or the reverse, stays
with its member: only its role changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from muster.assignors.sticky_tasks import Task
from muster.coordinator.groups.common.refusal import Refused
from muster.coordinator.groups.streams.member import (
    STABLE,
    UNKNOWN,
    UNRELEASED_TASKS,
    UNREVOKED_TASKS,
    Position,
)
from muster.coordinator.groups.streams.task_owners import TaskOwners, process_copies
from muster.coordinator.groups.streams.tasks import (
    NO_NUMBERS,
    NOT_ANY,
    Held,
    Tasks,
    TaskSets,
    has_any,
    merged,
    without_epochs,
)
from muster.protocol.errors import ErrorCode

Sets = dict[str, set[int]]
"""Tasks that are being computed: numbers of partitions by subtopology id."""


class Goal(NamedTuple):
    """What a member is to reach, and what the tasks of all processes are now."""

    process_id: str
    epoch: int
    target: Tasks
    owners: TaskOwners
    owned: Tasks | None
    """The tasks that the member says it has. None: the heartbeat does not say it."""


def next_position(position: Position, goal: Goal) -> Position:
    """The position after this step. Raises Refused when the member's state is unknown and it still has tasks."""
    if position.state == STABLE:
        return position if position.epoch == goal.epoch else _computed(position, position.epoch, goal)
    if position.state == UNREVOKED_TASKS:
        if _has_not_released(position.revoking, goal):
            return position
        return _computed(position, position.epoch + 1, goal)
    if position.state == UNKNOWN:
        if goal.owned is None or not goal.owned.is_empty():
            raise Refused(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin.",
            )
        return _computed(position, goal.epoch, goal)
    return _computed(position, position.epoch, goal)


def _has_not_released(revoking: Held, goal: Goal) -> bool:
    return goal.owned is None or has_any(goal.owned, revoking)


class _Difference(NamedTuple):
    """Tasks of one kind: those that the member keeps, gives up and gets, and whether it waits for others."""

    kept: Sets
    revoked: Sets
    gained: Sets
    waits: bool


def _difference(
    current: Mapping[str, frozenset[int]], target: TaskSets, held_elsewhere: Callable[[str, Collection[int]], set[int]]
) -> _Difference:
    kept, revoked, gained, waits = Sets(), Sets(), Sets(), False
    for name in {**target, **current}:
        has, wants = current.get(name, NO_NUMBERS), target.get(name, NO_NUMBERS)
        lacks = wants - has
        free = lacks - held_elsewhere(name, lacks) if lacks else lacks
        waits |= len(free) < len(lacks)
        for made, numbers in ((kept, has & wants), (revoked, has - wants), (gained, free)):
            if numbers:
                made[name] = set(numbers)
    return _Difference(kept, revoked, gained, waits)


def _computed(position: Position, epoch: int, goal: Goal) -> Position:
    held = position.assigned
    held_active, held_standby, held_warmup = _holders(held, goal)
    had_active = without_epochs(held.active)
    active = _difference(had_active, goal.target.active, held_active)
    standby = _difference(held.standby, goal.target.standby, held_standby)
    warmup = _difference(held.warmup, goal.target.warmup, held_warmup)
    _take_roles(had_active, standby, None)
    _take_roles(held.standby, warmup, standby)
    _take_roles(held.warmup, standby, warmup)
    for copies, change in ((held.standby, standby), (held.warmup, warmup)):
        for name, number in _promoted(copies, goal.target):
            _discard(change.revoked, name, number)
    revoked = Held(
        {name: {one: held.active[name][one] for one in its} for name, its in active.revoked.items()},
        _frozen(standby.revoked),
        _frozen(warmup.revoked),
    )
    must_revoke = not revoked.is_empty() and _has_not_released(revoked, goal)
    for copies, change in ((held.standby, standby), (held.warmup, warmup)):
        for name, number in _promoted(copies, goal.target):
            # A copy stays until the member gets the active task.
            if must_revoke or number not in active.gained.get(name, ()):
                change.kept.setdefault(name, set()).add(number)
    kept = Held(
        {name: {one: held.active[name][one] for one in its} for name, its in active.kept.items()},
        _frozen(standby.kept),
        _frozen(warmup.kept),
    )
    gained = Held(
        {name: dict.fromkeys(its, goal.epoch) for name, its in active.gained.items()},
        _frozen(standby.gained),
        _frozen(warmup.gained),
    )
    if must_revoke:
        return Position(epoch, position.epoch, UNREVOKED_TASKS, kept, revoked)
    state = UNRELEASED_TASKS if active.waits or standby.waits or warmup.waits else STABLE
    return Position(goal.epoch, position.epoch, state, merged(kept, gained), NOT_ANY)


_Elsewhere = Callable[[str, Collection[int]], set[int]]
"""Which tasks of a subtopology are still held elsewhere."""


def _holders(held: Held, goal: Goal) -> tuple[_Elsewhere, _Elsewhere, _Elsewhere]:
    """For each kind of task: which of the tasks that the member is to get are still held elsewhere."""
    owners, process_id = goal.owners, goal.process_id

    def other_standby(name: str, numbers: Collection[int]) -> set[int]:
        return process_copies(owners.standby, name, numbers, process_id).difference(held.standby.get(name, ()))

    def other_warmup(name: str, numbers: Collection[int]) -> set[int]:
        return process_copies(owners.warmup, name, numbers, process_id).difference(held.warmup.get(name, ()))

    def held_active(name: str, numbers: Collection[int]) -> set[int]:
        return owners.has_active(name, numbers) | other_standby(name, numbers) | other_warmup(name, numbers)

    def held_standby(name: str, numbers: Collection[int]) -> set[int]:
        runs_elsewhere = owners.runs(name, numbers, process_id).difference(held.active.get(name, ()))
        mine = process_copies(owners.standby, name, numbers, process_id)
        return runs_elsewhere | mine | other_warmup(name, numbers)

    def held_warmup(name: str, numbers: Collection[int]) -> set[int]:
        mine = process_copies(owners.warmup, name, numbers, process_id)
        return owners.runs(name, numbers, process_id) | other_standby(name, numbers) | mine

    return held_active, held_standby, held_warmup


def _take_roles(had: TaskSets, into: _Difference, out_of: _Difference | None) -> None:
    """Give the member the new role of tasks that it had in another role, at once."""
    for name, numbers in had.items():
        for number in sorted(numbers.intersection(into.gained.get(name, ()))):
            _discard(into.gained, name, number)
            into.kept.setdefault(name, set()).add(number)
            if out_of is not None:
                _discard(out_of.revoked, name, number)


def _promoted(copies: TaskSets, target: Tasks) -> list[Task]:
    """The copies that are to become active tasks."""
    return [(name, one) for name, its in copies.items() for one in sorted(its & target.active.get(name, NO_NUMBERS))]


def _discard(sets: Sets, name: str, number: int) -> None:
    numbers = sets.get(name)
    if numbers is not None and number in numbers:
        numbers.discard(number)
        if not numbers:
            del sets[name]


def _frozen(sets: Sets) -> dict[str, frozenset[int]]:
    return {name: frozenset(its) for name, its in sets.items()}
