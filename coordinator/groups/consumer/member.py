"""One member of a consumer group, with the fields that Kafka keeps of it. Decides nothing."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Final, NamedTuple

from muster.coordinator.groups.common.events import Trigger
from muster.coordinator.groups.consumer.assignments import NOTHING, CurrentAssignment
from muster.coordinator.groups.consumer.states import STABLE
from muster.coordinator.state_machine.deadlines import Deadline, Due

SESSION: Final = "consumer session"
"""Kind of the deadline at which a silent member is fenced."""
REVOCATION: Final = "revocation"
"""Kind of the deadline by which a member must finish its pending revocation, or be fenced."""
JOIN: Final = "join of a classic member"
"""Kind of the deadline by which a classic member that was asked to join again must do so."""
SYNC: Final = "sync of a classic member"
"""Kind of the deadline by which a classic member that has joined must sync."""
LEAVING: Final = -1
"""The epoch by which a member says that it leaves. It also stands for a member that has left."""
AWAY: Final = -2
"""The epoch of a static member that will return within its session timeout."""
ANY_TIMEOUT: Final = -1
"""The rebalance timeout of a member that never sent one."""


class Classic(NamedTuple):
    """The fields that a member of the classic protocol has sent."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class Description(NamedTuple):
    """The fields that a member sends about itself: all fields of its record (ConsumerGroupMemberMetadataValue)."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    """Names that it subscribes to: distinct, ascending."""
    pattern: str | None
    """A regular expression for further topics. "" stands for none; older Kafkas wrote None."""
    rebalance_timeout_ms: int
    assignor: str | None
    classic: Classic | None


NO_PATTERN: Final = ""
"""The regular expression of a member that has sent none, as Kafka writes it."""
NOBODY: Final = Description(None, None, "", "", (), NO_PATTERN, ANY_TIMEOUT, None, None)
"""The description of a member that has sent nothing yet."""


class Position(NamedTuple):
    """The progress of a member towards its target: the fields of its ConsumerGroupCurrentMemberAssignmentValue."""

    epoch: int
    previous_epoch: int
    state: int
    assigned: CurrentAssignment
    revoking: CurrentAssignment
    """Its pending revocation: partitions that it was asked to give up, and may still have."""


START: Final = Position(0, 0, STABLE, NOTHING, NOTHING)


class ConsumerMember(Due):
    """One member. It is the deadline of its own session.

    `is_persisted`: its description was recorded. `timers`: its other deadlines by their kind; None when it has none.
    """

    __slots__ = ("at", "is_persisted", "member_id", "said", "timers")

    kind = SESSION

    def __init__(self, group_id: str, member_id: str) -> None:
        super().__init__(group_id)
        self.member_id = member_id
        self.said = NOBODY
        self.at = START
        self.is_persisted = False
        self.timers: dict[str, Deadline] | None = None

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Whether it owns all of the target of this epoch."""
        return self.at.state == STABLE and self.at.epoch == assignment_epoch


def bare_id(drawn_id: str) -> str:
    """The id of a new member, made of a UUID, as Kafka's Uuid writes it. The client id is no prefix."""
    try:
        drawn = bytes.fromhex(drawn_id.replace("-", ""))
    except ValueError:
        return drawn_id
    return urlsafe_b64encode(drawn).rstrip(b"=").decode()


def trigger_of(member_id: str, member: ConsumerMember, reason: str | None = None) -> Trigger:
    """A member as the cause of something."""
    said = member.said
    return Trigger(member_id, said.instance_id, said.client_id, said.client_host, reason)
