"""A streams group: members, epochs, targets, topology, and the process that runs each task. It decides nothing.

Kafka: StreamsGroup. The functions of `replay` set all persistent fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from muster.coordinator.groups.common.epoch_group import CommittingGroup
from muster.coordinator.groups.common.group import Partitions
from muster.coordinator.groups.common.state import State
from muster.coordinator.groups.streams.internal_topics import Configured
from muster.coordinator.groups.streams.member import Description, Position, StreamsMember
from muster.coordinator.groups.streams.records import record_keys
from muster.coordinator.groups.streams.task_owners import TaskOwners, lacking
from muster.coordinator.groups.streams.tasks import NO_EPOCHS, Tasks
from muster.coordinator.groups.streams.topology import NO_TOPOLOGY, Topology
from muster.coordinator.state_machine.deadlines import Due
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


class StreamsGroup(CommittingGroup[StreamsMember, Tasks]):
    """One streams group.

    `epoch` also grows when settings of the assignment change. `validated_epoch`: the epoch of the topology whose topics
    are right. `last_configs`: the settings of the last assignment. `descriptions` belong to a plugin of Kafka, and are
    only kept.

    Not persisted: `configured`, the topology with its partition counts. `offsets`: for each member, the sums of
    changelog offsets, and of their ends. `shutdown_by`: the member that asked for the end of the application.
    `endpoint_epoch` grows when an endpoint or its tasks change. `settling`: the facts for the history. `unready`: why
    the topics are not ready, and since when (monotonic ms), as far as the history has it. `delay`: the deadline of the
    first targets. `computing`: the request for targets that are being computed in the background.
    """

    __slots__ = (
        "computing", "configured", "delay", "descriptions", "endpoint_epoch", "last_configs", "offsets", "owners",
        "settling", "shutdown_by", "topology", "unready", "validated_epoch",
    )  # fmt: skip

    kind = STREAMS
    protocol_type = STREAMS

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.validated_epoch = NO_TOPOLOGY
        self.last_configs: Mapping[str, str] = {}
        self.descriptions = NO_DESCRIPTION, NO_DESCRIPTION
        self.topology: Topology | None = None
        self.owners = TaskOwners()
        self.configured: Configured | None = None
        self.offsets: dict[str, MemberOffsets] = {}
        self.shutdown_by: str | None = None
        self.endpoint_epoch = 0
        self.settling: Any = None
        self.unready: tuple[str, int] | None = None
        self.delay = InitialDelay(group_id)
        self.computing: Any = None

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
        return STABLE if all(member.is_reconciled_to(epoch) for member in self.members.values()) else RECONCILING

    # ---- changes, for the functions of `replay`

    def put_member(self, member_id: str) -> StreamsMember:
        """The member with this id, which is added if it is new. Kafka puts a new member into its table, then each."""
        member = self.members.get(member_id)
        if member is None:
            self.note_put()
            member = self.members[member_id] = StreamsMember(self.group_id, member_id)
        self.note_put()
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
        for held in (before.assigned, before.revoking):
            self.owners.remove(lacking(held, (position.assigned, position.revoking)), process_id)
        for held in (position.assigned, position.revoking):
            self.owners.add(held, process_id)
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

    def record_keys(self) -> list[Message]:
        """See `Group`. The keys are in the order in which Kafka deletes them."""
        return record_keys(self.group_id, self.member_ids())

    def has_since(self, member: StreamsMember, epoch: int, partitions: Partitions) -> bool:
        """See `CommittingGroup`. The member has a partition by the task that reads it."""
        if self.topology is None:
            return False
        of_source, position = self.topology.of_source, member.position
        for topic, _, number in partitions():
            name = of_source.get(topic, "")
            since = position.assigned.active.get(name, NO_EPOCHS).get(number)
            if since is None:
                since = position.revoking.active.get(name, NO_EPOCHS).get(number)
            if since is None or epoch < since:
                return False
        return True

    def subscribes_to(self, topic: str) -> bool:
        """Whether the application reads the topic, while it has members."""
        return bool(self.members) and self.topology is not None and topic in self.topology.of_source


def streams_group(state: State, group_id: str) -> StreamsGroup | None:
    """The streams group of that id. None when no such group exists."""
    group = state.groups.get(group_id)
    return group if isinstance(group, StreamsGroup) else None
