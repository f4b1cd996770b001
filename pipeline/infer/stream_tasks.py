"""The history of a streams group (KIP-1071), from its records: its tasks and its topologies. Pure.

`as_partitions` turns the records into those of a KIP-848 group. Members own the partitions that their active tasks
read. So `epochs` finds epochs, rebalances and owners of a streams group too. `follow` finds what only streams
groups have: tasks with their roles, and topologies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, NamedTuple

from muster.coordinator.groups.streams import member as states
from muster.pipeline.infer.epoch_image import AWAY, CURRENT, EPOCH, MEMBER, OWES, STABLE, TARGET, TARGET_EPOCH, Record

TOPOLOGY: Final = 23
"""The key type of the record with the topology of a streams group (StreamsGroupTopology)."""
OF_STREAMS_GROUPS: Final[Mapping[int, int]] = {
    17: EPOCH, 19: MEMBER, 20: TARGET_EPOCH, 21: TARGET, 22: CURRENT, TOPOLOGY: TOPOLOGY,
}  # fmt: skip
"""The key types of a streams group's records, and the types with the same meaning."""
_WAITS: Final = 2
"""The state of a KIP-848 member that waits for partitions of others (UNRELEASED_PARTITIONS)."""
_STATES: Final[Mapping[int, int]] = {states.STABLE: STABLE, states.UNREVOKED_TASKS: OWES}

ACTIVE: Final = "active"
STANDBY: Final = "standby"
WARMUP: Final = "warmup"
ROLES: Final[Mapping[str, str]] = {ACTIVE: "activeTasks", STANDBY: "standbyTasks", WARMUP: "warmupTasks"}
"""The roles of a task, and the fields of a member's position that have them."""

ROLE_CHANGED: Final = "role_changed"
GIVEN_UP: Final = "given_up"
MEMBER_GONE: Final = "member_gone"
"""How a member's time with a task in one role ended. It has another role of the task, or it had to give the task up, or
it left or died.
"""


class Topology(NamedTuple):
    """The topics of an application, by subtopology."""

    epoch: int
    sources: Mapping[str, tuple[str, ...]]
    """The topics that each subtopology reads: its source topics, then its repartition topics."""
    source_topics: tuple[str, ...]
    internal_topics: tuple[str, ...]

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Topology:
        """The topology in a record's value."""
        sources: dict[str, tuple[str, ...]] = {}
        external: set[str] = set()
        internal: set[str] = set()
        for row in value["subtopologies"]:
            read = [topic["name"] for topic in row.get("repartitionSourceTopics") or ()]
            sources[row["subtopologyId"]] = (*row["sourceTopics"], *read)
            external.update(row["sourceTopics"])
            internal.update(read, [topic["name"] for topic in row.get("stateChangelogTopics") or ()])
        return cls(value["epoch"], sources, tuple(sorted(external)), tuple(sorted(internal)))

    def topics_of(self, subtopology: str) -> tuple[str, ...]:
        """The topics that a subtopology reads. Without known names, the subtopology itself stands for them."""
        return self.sources.get(subtopology) or (f"subtopology {subtopology}",)


NO_TOPOLOGY: Final = Topology(-1, {}, (), ())


def as_partitions(records: Iterable[Record]) -> Iterator[Record]:
    """The records in the form of a KIP-848 group's records.

    A task reads the partition of its number in each topic of its subtopology. The log does not say how many partitions
    source topics have.
    """
    topology = NO_TOPOLOGY
    for _, some in groupby(records, lambda one: one.at_ms):
        batch = list(some)
        # the records of a new member come before the topology that it brings
        for one in batch:
            if one.key_type == TOPOLOGY:
                topology = NO_TOPOLOGY if one.value is None else Topology.of(one.value)
        read = sorted({topic for topics in topology.sources.values() for topic in topics})
        for one in batch:
            if one.key_type == MEMBER and one.value is not None:
                yield one._replace(value={**one.value, "subscribedTopicNames": read})
            elif one.key_type == CURRENT and one.value is not None:
                yield one._replace(value=_position(one.value, topology))
            elif one.key_type != TOPOLOGY:
                yield one


def _position(value: Mapping[str, Any], topology: Topology) -> Mapping[str, Any]:
    numbers: dict[str, set[int]] = {}
    for task in value["activeTasks"]:
        for topic in topology.topics_of(task["subtopologyId"]):
            numbers.setdefault(topic, set()).update(task["partitions"])
    assigned = [{"topicId": topic, "partitions": sorted(its)} for topic, its in sorted(numbers.items())]
    return {
        "memberEpoch": value["memberEpoch"],
        "state": _STATES.get(value["state"], _WAITS),
        "assignedPartitions": assigned,
    }


class Worker(NamedTuple):
    """A member of a streams group: one thread of an instance."""

    member_id: str
    instance_id: str | None
    client_id: str | None
    host: str | None
    process_id: str | None
    """The id of the instance. All of its threads have the same one."""


Task = tuple[str, int]
"""A subtopology and the number of a partition."""


class TaskHold(NamedTuple):
    """A time in which a member had a task in one role."""

    subtopology: str
    partition: int
    role: str
    worker: Worker
    start_ms: int
    end_ms: int | None
    """When the member had to give the task up, left, or got another role. None: it still has the task in this role."""
    ended: str | None
    """How it ended: ROLE_CHANGED, GIVEN_UP, MEMBER_GONE. None: it has not ended."""
    unowned_ms: int | None
    """How long nobody had the task before, if the role is ACTIVE. It is None if nobody had the task before, or if the
    group was empty between.
    """
    first_epoch: int
    last_epoch: int


class Readiness(NamedTuple):
    """A time in which the topics of a topology were as they have to be, or were not."""

    topology: Topology
    is_ready: bool
    from_ms: int
    until_ms: int | None
    """When this changed, or when the group had no member any more. None: it still holds."""


@dataclass(slots=True)
class _Held:
    worker: Worker
    start_ms: int
    first_epoch: int
    unowned_ms: int | None


@dataclass(slots=True)
class _Group:
    """A streams group while its records are read."""

    topology: Topology = NO_TOPOLOGY
    epoch: int = 0
    values: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """The value of each member's record."""
    held: dict[tuple[str, Task, str], _Held] = field(default_factory=dict)
    """The tasks by member id, task and role."""
    free_ms: dict[Task, int] = field(default_factory=dict)
    """Since when nobody has each active task."""
    ready: Readiness | None = None

    def apply(self, record: Record) -> Iterator[TaskHold | Readiness]:
        """Read a record. Yields the times that it ends."""
        kind, value = record.key_type, record.value
        if kind == TOPOLOGY:
            self.topology = NO_TOPOLOGY if value is None else Topology.of(value)
        elif kind == EPOCH and value is not None:
            self.epoch = value["epoch"]
            if self.topology.epoch >= 0 and self.values:
                is_ready = value.get("validatedTopologyEpoch", NO_TOPOLOGY.epoch) == self.topology.epoch
                yield from self._be(Readiness(self.topology, is_ready, record.at_ms, None))
        elif kind == MEMBER and value is not None:
            self.values[record.key] = value
        elif kind == MEMBER:
            self.values.pop(record.key, None)
        elif kind == CURRENT and (value is None or value["memberEpoch"] != AWAY):
            # a static member that is away keeps its tasks, because it may return
            roles = {} if value is None else _roles(value)
            yield from self._give_up(record.key, roles, record.at_ms, is_gone=value is None)
            self._take(record.key, roles, record.at_ms)

    def rest(self, at_ms: int) -> Iterator[Readiness]:
        """Forget what only matters while the group has members, after all records of one time."""
        if not self.values:
            self.free_ms.clear()
            if self.ready is not None:
                yield self.ready._replace(until_ms=at_ms)
                self.ready = None

    def _be(self, now: Readiness) -> Iterator[Readiness]:
        known = self.ready
        if known is not None and known[:2] == now[:2]:
            return
        if known is not None:
            yield known._replace(until_ms=now.from_ms)
        self.ready = now

    def _give_up(self, member_id: str, roles: Mapping[Task, str], at_ms: int, *, is_gone: bool) -> Iterator[TaskHold]:
        mine = [key for key in self.held if key[0] == member_id and roles.get(key[1]) != key[2]]
        for key in mine:
            _, task, role = key
            ended = ROLE_CHANGED if task in roles else MEMBER_GONE if is_gone else GIVEN_UP
            if role == ACTIVE:
                self.free_ms[task] = at_ms
            yield self._hold(key, at_ms, ended)
            del self.held[key]

    def _take(self, member_id: str, roles: Mapping[Task, str], at_ms: int) -> None:
        worker = self._worker(member_id)
        for task, role in roles.items():
            known = self.held.get((member_id, task, role))
            if known is None:
                free_ms = self.free_ms.pop(task, None) if role == ACTIVE else None
                unowned_ms = None if free_ms is None else at_ms - free_ms
                self.held[member_id, task, role] = _Held(worker, at_ms, self.epoch, unowned_ms)

    def _worker(self, member_id: str) -> Worker:
        value = self.values.get(member_id, {})
        names = (value.get(name) for name in ("instanceId", "clientId", "clientHost", "processId"))
        return Worker(member_id, *names)

    def _hold(self, key: tuple[str, Task, str], at_ms: int | None, ended: str | None) -> TaskHold:
        one = self.held[key]
        _, (subtopology, partition), role = key
        return TaskHold(
            subtopology, partition, role, one.worker, one.start_ms, at_ms, ended, one.unowned_ms, one.first_epoch,
            self.epoch,
        )  # fmt: skip

    def end(self) -> Iterator[TaskHold | Readiness]:
        """Yield the rest at the end of the log."""
        yield from (self._hold(key, None, None) for key in self.held)
        if self.ready is not None:
            yield self.ready


def _roles(value: Mapping[str, Any]) -> dict[Task, str]:
    return {
        (row["subtopologyId"], number): role
        for role, name in ROLES.items()
        for row in value.get(name) or ()
        for number in row["partitions"]
    }


def follow(records: Iterable[Record]) -> Iterator[TaskHold | Readiness]:
    """The times of tasks and of topologies, in the order in which they ended. Those that have not ended come last."""
    group = _Group()
    for at_ms, batch in groupby(records, lambda one: one.at_ms):
        for one in batch:
            yield from group.apply(one)
        # a static member that returns under another id is gone for a moment
        yield from group.rest(at_ms)
    yield from group.end()
