"""The processes that have each task of a streams group. It decides nothing. One member may have thousands of tasks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from muster.coordinator.groups.streams.tasks import NOT_ANY, Held, Tasks

_Numbers = Mapping[str, Collection[int]]
_NOBODY: Final[Mapping[int, str]] = {}


class TaskOwners:
    """The processes that have each task, or have not given it up yet, by subtopology id and partition number.

    Copies of a task may have several processes.
    """

    __slots__ = ("active", "standby", "warmup")

    def __init__(self) -> None:
        self.active: dict[str, dict[int, str]] = {}
        self.standby: dict[str, dict[int, set[str]]] = {}
        self.warmup: dict[str, dict[int, set[str]]] = {}

    def add(self, held: Held, process_id: str) -> None:
        """Note that the process has these tasks."""
        for name, epochs in held.active.items():
            self.active.setdefault(name, {}).update(dict.fromkeys(epochs, process_id))
        for tasks, owners in ((held.standby, self.standby), (held.warmup, self.warmup)):
            for name, numbers in tasks.items():
                its = owners.setdefault(name, {})
                for number in numbers:
                    its.setdefault(number, set()).add(process_id)

    def remove(self, held: Held | Tasks, process_id: str) -> None:
        """Note that the process has given up these tasks. A task that another process has since stays with it."""
        for name, numbers in held.active.items():
            mine = self.active.get(name, {})
            for number in numbers:
                if mine.get(number) == process_id:
                    del mine[number]
            if not mine:
                self.active.pop(name, None)
        for tasks, owners in ((held.standby, self.standby), (held.warmup, self.warmup)):
            for name, numbers in tasks.items():
                its = owners.get(name, {})
                _discard(its, numbers, process_id)
                if not its:
                    owners.pop(name, None)

    def has_active(self, name: str, numbers: Collection[int]) -> set[int]:
        """Those of a subtopology's tasks that a process has as active tasks."""
        return set(self.active.get(name, _NOBODY).keys() & numbers)

    def runs(self, name: str, numbers: Collection[int], process_id: str) -> set[int]:
        """Those of a subtopology's tasks that this process has as active tasks."""
        its = self.active.get(name, _NOBODY)
        return {number for number in numbers if its.get(number) == process_id}


def _discard(its: dict[int, set[str]], numbers: Collection[int], process_id: str) -> None:
    for number in numbers:
        processes = its.get(number)
        if processes is not None:
            processes.discard(process_id)
            if not processes:
                del its[number]


def process_copies(
    owners: Mapping[str, Mapping[int, Collection[str]]], name: str, numbers: Collection[int], process_id: str
) -> set[int]:
    """The tasks of a subtopology that this process has copies of. `owners`: as in `TaskOwners`."""
    its = owners.get(name)
    return {number for number in numbers if process_id in its.get(number, ())} if its else set()


def lacking(held: Held, others: Sequence[Held]) -> Tasks:
    """The tasks that none of the others has in the same role."""
    if held is NOT_ANY:
        return Tasks()
    return Tasks(*[_lacking(its, [one[kind] for one in others]) for kind, its in enumerate(held)])


def _lacking(tasks: _Numbers, others: Sequence[_Numbers]) -> dict[str, frozenset[int]]:
    made = {}
    for name, numbers in tasks.items():
        left = frozenset(numbers).difference(*[one.get(name, ()) for one in others])
        if left:
            made[name] = left
    return made
