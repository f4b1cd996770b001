"""Sticky, the server's strategy for the tasks of a Kafka Streams application (KIP-1071).

A task is a subtopology and a partition number. Its active copy processes records. Its standby copies keep the task's
state in other processes. Active tasks stay with their members up to an equal share. Then members with a standby copy
get them. Last is the process with the least load for its number of members. Standby copies follow the same order; a
process has at most one copy of a task. Kafka: org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor.

Java's hash tables and queues decide between equal loads (`muster.assignors.java_order`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from muster.assignors.java_order import JavaQueue, JavaTable, capacity_for, sort_strings, string_order, string_spread

Task = tuple[str, int]
"""A task: its subtopology's id, and its partition number."""
Tasks = Mapping[str, Collection[int]]
"""Tasks: partition numbers by subtopology id."""
NO_TASKS: Final[Tasks] = MappingProxyType({})


class TaskMember(NamedTuple):
    """A member, with its present tasks."""

    member_id: str
    process_id: str
    active: Tasks = NO_TASKS
    standby: Tasks = NO_TASKS
    offsets: Mapping[str, Mapping[int, int]] = MappingProxyType({})
    """The sums of changelog offsets that the member reported, for tasks whose state is on its disk."""


class TaskCount(NamedTuple):
    """A subtopology: its number of tasks, and whether its tasks have state."""

    tasks: int
    is_stateful: bool


class Share(NamedTuple):
    """The tasks of one member. Numbers of partitions ascend."""

    active: Mapping[str, Sequence[int]]
    standby: Mapping[str, Sequence[int]]


class StickyTaskAssignor:
    """The strategy "sticky" of streams groups."""

    name: Final = "sticky"

    def assign(
        self, members: Sequence[TaskMember], subtopologies: Mapping[str, TaskCount], standby_replicas: int = 0
    ) -> dict[str, Share]:
        """The tasks of each member. `members` are in the order in which Kafka iterates over them.

        `standby_replicas` is the number of standby copies of each task with state, as far as processes suffice.
        """
        if not members:
            return {}
        by_id = {member.member_id: member for member in members}
        plan = _Plan([by_id[one] for one in string_order(by_id)], subtopologies, standby_replicas)
        plan.assign_active()
        if standby_replicas > 0:
            plan.assign_standby()
        return plan.shares()


class _Member:
    """A member while tasks are assigned."""

    __slots__ = ("active", "count", "member_id", "process", "standby")

    def __init__(self, member_id: str, process: _Process) -> None:
        self.member_id = member_id
        self.process = process
        self.active: list[Task] = []
        self.standby: list[Task] = []
        self.count = 0
        """The number of its tasks, with standby copies."""

    def take(self, task: Task, *, is_active: bool) -> None:
        """Take a task."""
        (self.active if is_active else self.standby).append(task)
        self.count += 1
        self.process.tasks.add(task)
        self.process.count += 1


class _Process:
    """A process, which runs one or more members, while tasks are assigned."""

    __slots__ = ("by_count", "count", "members", "tasks")

    def __init__(self) -> None:
        self.members: dict[str, _Member] = {}
        self.tasks: set[Task] = set()
        self.count = 0
        self.by_count: JavaQueue[_Member] | None = None
        """The members by their number of tasks, while each task goes to the first of them."""

    @property
    def load(self) -> float:
        """The number of tasks for each member."""
        return self.count / len(self.members)

    def give(self, task: Task, *, is_active: bool) -> _Member:
        """Give a task to the member with the fewest tasks, and return the member."""
        if len(self.members) == 1:
            (only,) = self.members.values()
            only.take(task, is_active=is_active)
            return only
        if self.by_count is None:
            ordered = [self.members[one] for one in string_order(self.members)]
            self.by_count = JavaQueue(ordered, key=lambda member: member.count)
        member = self.by_count.poll()
        member.take(task, is_active=is_active)
        self.by_count.add(member)
        return member


class _Quota:
    """The most tasks of one member. When a member reaches it, the other tasks are divided among the other members."""

    __slots__ = ("_members", "_tasks", "most")

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.most = _divided(tasks, members)

    def given(self, count: int) -> None:
        """Note that a member has `count` tasks now."""
        if count == self.most:
            self._members -= 1
            self._tasks -= count
            self.most = _divided(self._tasks, self._members)


def _divided(tasks: int, members: int) -> int:
    """The quotient, rounded up for positive and towards zero for negative numbers, as Java divides."""
    if not members:
        return 0
    quotient = abs(tasks) // members if tasks >= 0 else -(-tasks // members)
    return quotient + 1 if tasks > 0 and tasks % members else quotient


class _Plan:
    """The tasks of all members while they are assigned."""

    def __init__(self, members: Sequence[TaskMember], subtopologies: Mapping[str, TaskCount], replicas: int) -> None:
        counts = subtopologies.values()
        active = sum([one.tasks for one in counts])
        self._replicas = replicas
        self._quota_active = _Quota(active, len(members))
        self._quota = _Quota(active + replicas * sum([one.tasks for one in counts if one.is_stateful]), len(members))
        self._active = [(name, number) for name, one in subtopologies.items() for number in range(one.tasks)]
        self._stateful = [one for one in self._active if subtopologies[one[0]].is_stateful]
        self._subtopologies = {name: place for place, name in enumerate(sort_strings(subtopologies))}
        self._members = self._join(members)
        self._had_active = {
            task: self._members[member.member_id] for member in members for task in _tasks(member.active)
        }
        self._had_state = self._ranked(members)

    def _join(self, members: Sequence[TaskMember]) -> dict[str, _Member]:
        processes: dict[str, _Process] = {}
        table: JavaTable[str] = JavaTable(capacity_for(len(members)))
        made = {}
        for one in members:
            table.compute(one.process_id, string_spread(one.process_id))
            process = processes.setdefault(one.process_id, _Process())
            made[one.member_id] = process.members[one.member_id] = _Member(one.member_id, process)
        self._processes = [processes[process_id] for process_id in table.in_order()]
        return made

    def _ranked(self, members: Sequence[TaskMember]) -> dict[Task, list[_Member]]:
        """The members that have state of each task: first those with a standby copy, then by their offsets."""
        found: dict[Task, list[tuple[bool, int, _Member]]] = {}
        for one in members:
            mine = self._members[one.member_id]
            standby = set(_tasks(one.standby))
            offsets = {(name, number): sum_ for name, its in one.offsets.items() for number, sum_ in its.items()}
            for task in standby:
                found.setdefault(task, []).append((False, -offsets.get(task, 0), mine))
            for task, offset in offsets.items():
                if task not in standby:
                    found.setdefault(task, []).append((True, -offset, mine))
        return {task: [member for *_, member in sorted(rows, key=lambda row: row[:2])] for task, rows in found.items()}

    def _give(self, member: _Member, task: Task, *, is_active: bool) -> None:
        member.process.by_count = None
        member.take(task, is_active=is_active)
        self._count(member.count, is_active=is_active)

    def _count(self, count: int, *, is_active: bool) -> None:
        if is_active:
            self._quota_active.given(count)
        self._quota.given(count)

    def assign_active(self) -> None:
        """Assign each task to one member."""
        rank = self._subtopologies
        left = []
        for task in sorted(self._active, key=lambda one: (one[1], rank[one[0]])):
            owner = self._had_active.get(task)
            if owner is None or owner.count >= self._quota_active.most:
                left.append(task)
            else:
                self._give(owner, task, is_active=True)
        moved = []
        for task in left:
            owner = _least_loaded(self._had_state.get(task, ()))
            if owner is None or owner.count >= self._quota_active.most:
                moved.append(task)
            else:
                self._give(owner, task, is_active=True)
        by_load = JavaQueue(self._processes, key=_load)
        for task in sorted(moved, key=lambda one: (rank[one[0]], one[1])):
            process = by_load.poll()
            self._count(process.give(task, is_active=True).count, is_active=True)
            by_load.add(process)

    def assign_standby(self) -> None:
        """Assign the standby copies, after the active tasks."""
        rank = self._subtopologies
        left = []
        for task in sorted(self._stateful, key=lambda one: (-one[1], -rank[one[0]])):
            for given in range(self._replicas):
                owner = self._had_active.get(task)
                if owner is None or task in owner.process.tasks or owner.count >= self._quota.most:
                    others = [one for one in self._had_state.get(task, ()) if task not in one.process.tasks]
                    owner = _least_loaded(others)
                    if owner is None or owner.count >= self._quota.most:
                        left.append((task, self._replicas - given))
                        break
                self._give(owner, task, is_active=False)
        by_load = JavaQueue(self._processes, key=_load)
        for task, lacking in sorted(left, key=lambda row: (-rank[row[0][0]], -row[0][1])):
            for _ in range(lacking):
                if not self._give_to_a_process(by_load, task):
                    break

    def _give_to_a_process(self, by_load: JavaQueue[_Process], task: Task) -> bool:
        """Give a standby copy to the first process that has no copy. Returns whether there is such a process."""
        passed = []
        was_given = False
        while len(by_load) and not was_given:
            process = by_load.poll()
            passed.append(process)
            if task not in process.tasks:
                self._count(process.give(task, is_active=False).count, is_active=False)
                was_given = True
        for process in reversed(passed):
            by_load.add(process)
        return was_given

    def shares(self) -> dict[str, Share]:
        """The result."""
        return {
            one: Share(_by_subtopology(member.active), _by_subtopology(member.standby))
            for one, member in self._members.items()
        }


def _load(process: _Process) -> float:
    return process.load


def _tasks(tasks: Tasks) -> Iterable[Task]:
    return [(name, number) for name, numbers in tasks.items() for number in numbers]


def _least_loaded(members: Iterable[_Member]) -> _Member | None:
    """The first member, unless a later member has fewer tasks and a process with less load than all before it."""
    best: _Member | None = None
    for one in members:
        if best is None or (one.process.load < best.process.load and one.count < best.count):
            best = one
    return best


def _by_subtopology(tasks: Iterable[Task]) -> dict[str, list[int]]:
    made: dict[str, list[int]] = {}
    for name, number in sorted(tasks):
        made.setdefault(name, []).append(number)
    return made
