"""A streams group: members, epochs, targets, topology, and the process that runs each task. It decides nothing.

Kafka: StreamsGroup. The functions of `replay` set all persistent fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from muster.assignors.sticky_tasks import Task
from muster.coordinator.groups.common import kafka_order
from muster.coordinator.groups.common.group import MEMBER_EPOCHS_SINCE, NEWEST_COMMIT, SINCE_COMMIT, Partitions
from muster.coordinator.groups.common.image import TopicImage
from muster.coordinator.groups.common.state import State
from muster.coordinator.groups.streams.internal_topics import Configured
from muster.coordinator.groups.streams.member import Description, Position, StreamsMember
from muster.coordinator.groups.streams.records import record_keys
from muster.coordinator.groups.streams.tasks import NO_EPOCHS, Held, Tasks
from muster.coordinator.groups.streams.topology import NO_TOPOLOGY, Topology
from muster.coordinator.state_machine.deadlines import Deadlines, Due
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message

STREAMS: Final = "streams"
EMPTY: Final = "Empty"
NOT_READY: Final = "NotReady"
"""The topology is not there, or its topics are missing or wrong."""
ASSIGNING: Final = "Assigning"
"""The group has a new epoch, but no targets of this epoch."""
RECONCILING: Final = "Reconciling"
"""Members have not reached their targets."""
STABLE: Final = "Stable"
FIRST_EPOCH: Final = 1
FIRST_TARGET: Final = 1
"""The assignment epoch of a group that never had targets."""
NEVER_HASHED: Final = -1
MemberOffsets = tuple[Mapping[str, Mapping[int, int]], Mapping[str, Mapping[int, int]]]
"""The sums of changelog offsets of a member's tasks, and the sums of the ends of these changelogs."""
NO_DESCRIPTION: Final = -1
"""The topology epoch of a description when there is none."""
INITIAL_DELAY: Final = "streams initial delay"
"""The kind of the deadline at which a new group gets its first targets."""


class InitialDelay(Due):
    """The deadline at which a new group gets its first targets."""

    __slots__ = ()

    kind = INITIAL_DELAY


class TaskOwners:
    """The processes that have each task, or have not given it up yet. Copies may have several processes."""

    __slots__ = ("active", "standby", "warmup")

    def __init__(self) -> None:
        self.active: dict[Task, str] = {}
        self.standby: dict[Task, set[str]] = {}
        self.warmup: dict[Task, set[str]] = {}

    def add(self, held: Held, process_id: str) -> None:
        """Note that the process has these tasks."""
        for task in _tasks(held.active):
            self.active[task] = process_id
        for tasks, owners in ((held.standby, self.standby), (held.warmup, self.warmup)):
            for task in _tasks(tasks):
                owners.setdefault(task, set()).add(process_id)

    def remove(self, held: Held, process_id: str) -> None:
        """Note that the process has given up these tasks. A task that another process has since stays with it."""
        for task in _tasks(held.active):
            if self.active.get(task) == process_id:
                del self.active[task]
        for tasks, owners in ((held.standby, self.standby), (held.warmup, self.warmup)):
            for task in _tasks(tasks):
                processes = owners.get(task)
                if processes is not None:
                    processes.discard(process_id)
                    if not processes:
                        del owners[task]


def _tasks(tasks: Mapping[str, Iterable[int]]) -> Iterable[Task]:
    return [(name, number) for name, numbers in tasks.items() for number in numbers]


class StreamsGroup:
    """One streams group.

    `epoch` grows when members, topics or settings of the assignment change. `assignment_epoch` is the epoch of
    `targets`. `metadata_hash`: the hash of the topology's topics when `epoch` was reached. `validated_epoch`: the
    epoch of the topology whose topics are right. `last_configs`: the settings of the last assignment. `descriptions`
    belong to a plugin of Kafka, and are only kept.

    Not persisted: `hashed_version` and `hashed_topics`, the topics that the hash was compared with. `configured`: the
    topology with its partition counts. `offsets`: for each member, the sums of changelog offsets, and of their ends.
    `shutdown_by`: the member that asked for the end of the application. `endpoint_epoch` grows when an endpoint or its
    tasks change. `slots`: the size of the hash table in which Kafka has the members. `settling`: the facts for the
    history. `delay`: the deadline of the first targets.
    """

    __slots__ = (
        "assignment_epoch", "assignment_ms", "configured", "delay", "descriptions", "endpoint_epoch", "epoch",
        "group_id", "hashed_topics", "hashed_version", "last_configs", "members", "metadata_hash", "offsets", "owners",
        "settling", "shutdown_by", "slots", "static_ids", "targets", "topology", "validated_epoch",
    )  # fmt: skip

    kind = STREAMS
    protocol_type = STREAMS

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.validated_epoch = NO_TOPOLOGY
        self.last_configs: Mapping[str, str] = {}
        self.descriptions = NO_DESCRIPTION, NO_DESCRIPTION
        self.assignment_epoch = FIRST_TARGET
        self.assignment_ms = 0
        self.topology: Topology | None = None
        self.members: dict[str, StreamsMember] = {}
        self.static_ids: dict[str, str] = {}
        self.targets: dict[str, Tasks] = {}
        self.owners = TaskOwners()
        self.configured: Configured | None = None
        self.offsets: dict[str, MemberOffsets] = {}
        self.shutdown_by: str | None = None
        self.endpoint_epoch = 0
        self.hashed_version = NEVER_HASHED
        self.hashed_topics: Mapping[str, TopicImage] | None = None
        self.settling: Any = None
        self.slots = kafka_order.LEAST_SLOTS
        self.delay = InitialDelay(group_id)

    @property
    def state(self) -> str:
        """The state, as in ListGroups."""
        if not self.members:
            return EMPTY
        if self.topology is None or self.topology.epoch != self.validated_epoch:
            return NOT_READY
        if self.epoch > self.assignment_epoch:
            return ASSIGNING
        epoch = self.assignment_epoch
        return STABLE if all(member.is_reconciled(epoch) for member in self.members.values()) else RECONCILING

    # ---- changes, for the functions of `replay`

    def put_member(self, member_id: str) -> StreamsMember:
        """The member with this id, which is added if it is new. Kafka puts a new member into its table, then each."""
        member = self.members.get(member_id)
        if member is None:
            self.slots = kafka_order.slots_after(self.slots, len(self.members))
            member = self.members[member_id] = StreamsMember(self.group_id, member_id)
        self.slots = kafka_order.slots_after(self.slots, len(self.members))
        return member

    def describe_member(self, member: StreamsMember, description: Description) -> None:
        """Set the description of a member."""
        position, before = member.position, member.description
        for held in (position.assigned, position.revoking):
            self.owners.remove(held, before.process_id)
            self.owners.add(held, description.process_id)
        if before.instance_id is not None:
            self.static_ids.pop(before.instance_id, None)
        if description.instance_id is not None:
            self.static_ids[description.instance_id] = member.member_id
        member.description = description

    def move_member(self, member: StreamsMember, position: Position) -> None:
        """Set the position of a member."""
        process_id, before = member.description.process_id, member.position
        self.owners.remove(before.assigned, process_id)
        self.owners.remove(before.revoking, process_id)
        self.owners.add(position.assigned, process_id)
        self.owners.add(position.revoking, process_id)
        member.position = position

    def remove_member(self, member_id: str) -> StreamsMember | None:
        """Remove a member, if it exists."""
        member = self.members.pop(member_id, None)
        if member is not None:
            process_id, position = member.description.process_id, member.position
            self.owners.remove(position.assigned, process_id)
            self.owners.remove(position.revoking, process_id)
            if member.description.instance_id is not None:
                self.static_ids.pop(member.description.instance_id, None)
            self.offsets.pop(member_id, None)
            if not self.members:
                self.shutdown_by = None
        return member

    # ---- questions of other modules

    def static_member(self, instance_id: str) -> StreamsMember | None:
        """The static member with this instance id."""
        member_id = self.static_ids.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def member_ids(self) -> list[str]:
        """The ids of all members, in the order in which Kafka iterates over them."""
        return kafka_order.timeline(self.members, self.slots)

    def record_keys(self) -> list[Message]:
        """See `Group`. The keys are in the order in which Kafka deletes them."""
        return record_keys(self.group_id, self.member_ids())

    # ---- checks

    def validate_commit(
        self,
        member_id: str,
        instance_id: str | None,  # noqa: ARG002  # Kafka does not look at it here
        epoch: int,
        version: int = NEWEST_COMMIT,
        partitions: Partitions | None = None,
    ) -> int:
        """See `Group`. A member may also commit in an earlier epoch, if it had the tasks by then and kept them."""
        if epoch < 0 and not self.members:
            return 0
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if version < MEMBER_EPOCHS_SINCE:
            return ErrorCode.UNSUPPORTED_VERSION
        if epoch == member.position.epoch:
            return 0
        if epoch > member.position.epoch or partitions is None or self.topology is None:
            return ErrorCode.STALE_MEMBER_EPOCH
        return self._late_commit(member, epoch, partitions)

    def _late_commit(self, member: StreamsMember, epoch: int, partitions: Partitions) -> int:
        assert self.topology is not None
        of_source, position = self.topology.of_source, member.position
        for topic, _, number in partitions():
            name = of_source.get(topic, "")
            since = position.assigned.active.get(name, NO_EPOCHS).get(number)
            if since is None:
                since = position.revoking.active.get(name, NO_EPOCHS).get(number)
            if since is None or epoch < since:
                return ErrorCode.STALE_MEMBER_EPOCH
        return 0

    def validate_transactional_commit(
        self, member_id: str, instance_id: str | None, epoch: int, partitions: Partitions
    ) -> int:
        """See `Group`. A commit without a member is allowed too."""
        if epoch == -1 and not member_id and instance_id is None:
            return 0
        return self.validate_commit(member_id, instance_id, epoch, partitions=partitions)

    def validate_fetch(self, member_id: str | None, epoch: int) -> int:
        """See `Group`. OffsetFetch names a member and an epoch from version 9 on."""
        if member_id is None and epoch < 0:
            return 0
        if member_id is None:
            return ErrorCode.UNKNOWN_SERVER_ERROR  # Kafka fails when it looks up the null id
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return 0 if epoch == member.position.epoch else ErrorCode.STALE_MEMBER_EPOCH

    def has_committed(self, member_id: str, deadlines: Deadlines, mono_ms: int) -> None:
        """Do nothing: in a streams group a commit does not renew the session."""

    def validate_offset_delete(self) -> int:
        """Return 0: offsets may always be deleted, except offsets of subscribed topics."""
        return 0

    def deletion_error(self) -> int:
        """See `Group`. A group without members may be deleted."""
        return ErrorCode.NON_EMPTY_GROUP if self.members else 0

    def is_unused(self) -> bool:
        """Whether the group has no members."""
        return not self.members

    def unused_since_ms(self) -> int:
        """SINCE_COMMIT: in every state each offset counts as unused since its commit."""
        return SINCE_COMMIT

    def subscribes_to(self, topic: str) -> bool:
        """Whether the application reads the topic, while it has members."""
        return bool(self.members) and self.topology is not None and topic in self.topology.of_source


def streams_group(state: State, group_id: str) -> StreamsGroup | None:
    """The streams group of that id. None when no such group exists."""
    group = state.groups.get(group_id)
    return group if isinstance(group, StreamsGroup) else None
