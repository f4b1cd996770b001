"""A member of a streams group: its fields, its position and its deadlines. This module decides nothing.

Kafka: StreamsGroupMember, MemberState of streams groups.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from muster.coordinator.groups.common.events import MemberFacts, Trigger
from muster.coordinator.groups.streams.tasks import NOT_ANY, Held
from muster.coordinator.groups.streams.topology import NO_TOPOLOGY
from muster.coordinator.state_machine.deadlines import Due

SESSION: Final = "streams session"
"""The kind of the deadline at which a silent member is fenced."""
REVOCATION: Final = "streams revocation"
"""The kind of the deadline at which a member is fenced that has not given up tasks."""
LEAVE_GROUP_MEMBER_EPOCH: Final = -1
LEAVE_GROUP_STATIC_MEMBER_EPOCH: Final = -2
"""The epoch in the heartbeat of a static member that leaves and will return."""

STABLE: Final = 1
"""The member has its tasks, and reconciles to a new target."""
UNREVOKED_TASKS: Final = 2
"""The member has to give up tasks before it gets a new epoch."""
UNRELEASED_TASKS: Final = 3
"""The member waits for tasks that other members, or its own process, have not given up yet."""
UNKNOWN: Final = 127
"""A state that a later Kafka wrote."""


class Description(NamedTuple):
    """The fields that a member sends about itself: those of StreamsGroupMemberMetadataValue."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = NO_TOPOLOGY
    process_id: str = ""
    endpoint: tuple[str, int] | None = None
    """Host and port at which other instances can query the member's state (application.server)."""
    client_tags: tuple[tuple[str, str], ...] = ()
    """Keys and values, ascending by key."""


NOBODY: Final = Description()
"""The description of a member that has not sent any field yet."""


class Position(NamedTuple):
    """The tasks of a member, with its epochs: the fields of StreamsGroupCurrentMemberAssignmentValue."""

    epoch: int = 0
    previous_epoch: int = 0
    state: int = STABLE
    assigned: Held = NOT_ANY
    revoking: Held = NOT_ANY
    """The tasks that the member has to give up."""


START: Final = Position()


class RevocationTimer(Due):
    """The deadline of a member that has to give up tasks in an epoch."""

    __slots__ = ("epoch", "member_id")

    kind = REVOCATION

    def __init__(self, group_id: str, member_id: str) -> None:
        super().__init__(group_id)
        self.member_id = member_id
        self.epoch = 0


class StreamsMember(Due):
    """One member, which is also the deadline of its session. `restoring` is kept by `restoration`."""

    __slots__ = ("description", "member_id", "position", "restoring", "revocation")

    kind = SESSION

    def __init__(self, group_id: str, member_id: str) -> None:
        super().__init__(group_id)
        self.member_id = member_id
        self.description = NOBODY
        self.position = START
        self.restoring: dict[Any, Any] = {}
        self.revocation = RevocationTimer(group_id, member_id)

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether the member has reached the targets of this epoch."""
        return self.position.state == STABLE and self.position.epoch == epoch

    @property
    def trigger(self) -> Trigger:
        """The trigger of an event that this member caused."""
        its = self.description
        return Trigger(self.member_id, its.instance_id, its.client_id, its.client_host, None)

    def facts(self, session_timeout_ms: int) -> MemberFacts:
        """The member in an event."""
        its = self.description
        return MemberFacts(
            self.member_id, its.instance_id, its.client_id, its.client_host, session_timeout_ms,
            its.rebalance_timeout_ms, (), None, None, None, b"",
        )  # fmt: skip
