"""A share group: members, epochs, targets, and how far the states of its partitions are set up. It decides nothing.

Kafka: ShareGroup, ModernGroup. The functions of `replay` set all persistent fields. A share group has no committed
offsets. The state of each partition is kept elsewhere; the group creates and deletes it (`states`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any, Final

from muster.coordinator.groups.common.epoch_group import EpochGroup
from muster.coordinator.groups.common.group import NEWEST_COMMIT, NOT_NOW, Partitions
from muster.coordinator.groups.common.state import State
from muster.coordinator.groups.share.member import Assigned, Description, ShareMember
from muster.coordinator.groups.share.records import record_keys
from muster.coordinator.groups.share.states import States
from muster.coordinator.state_machine.deadlines import Deadlines
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message

SHARE: Final = "share"
EMPTY: Final = "Empty"
STABLE: Final = "Stable"
NOT_QUIET: Final = -1


class ShareGroup(EpochGroup[ShareMember, Assigned]):
    """One share group.

    `epoch` also grows when more partitions are assignable. `names` counts the members that subscribe to each topic.
    `states`: None if the group has no such record.

    Not persisted: `states_ms`, when `states` was set or loaded (wall ms). `quiet_version`: while topics are those of
    this image, heartbeats without news change nothing; or NOT_QUIET. `settling`: the facts for the history until all
    members have their targets.
    """

    __slots__ = ("names", "quiet_version", "settling", "states", "states_ms")

    kind = SHARE
    protocol_type = SHARE

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.names: Counter[str] = Counter()
        self.states: States | None = None
        self.states_ms = 0
        self.quiet_version = NOT_QUIET
        self.settling: Any = None

    @property
    def state(self) -> str:
        """The state, as in ListGroups."""
        return STABLE if self.members else EMPTY

    # ---- changes, for the functions of `replay`

    def put_member(self, member_id: str) -> ShareMember:
        """The member with this id, which is added if it is new. Kafka puts a new member into its table, then each."""
        member = self.members.get(member_id)
        if member is None:
            self.note_put()
            member = self.members[member_id] = ShareMember(self.group_id, member_id)
        self.note_put()
        return member

    def describe_member(self, member: ShareMember, description: Description) -> None:
        """Set the description of a member."""
        self._count(member.description.topics, -1)
        member.description = description
        self._count(description.topics, 1)

    def remove_member(self, member_id: str) -> ShareMember | None:
        """Remove a member, if it exists."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member.description.topics, -1)
        return member

    def _count(self, topics: Collection[str], one: int) -> None:
        names = self.names
        for name in topics:
            names[name] += one
            if not names[name]:
                del names[name]

    # ---- questions of other modules

    def record_keys(self) -> list[Message]:
        """See `Group`. The keys are in the order in which Kafka deletes them."""
        return record_keys(self.group_id, self.member_ids())

    # ---- checks

    def validate_commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        version: int = NEWEST_COMMIT,
        partitions: Partitions | None = None,
    ) -> int:
        """See `Group`. A share group has no committed offsets."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def validate_transactional_commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        partitions: Partitions,
    ) -> int:
        """See `Group`. A share group has no committed offsets."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def validate_fetch(self, member_id: str | None, epoch: int) -> int:
        """Return 0: every client may read the offsets, and finds none."""
        return 0

    def has_committed(self, member_id: str, deadlines: Deadlines, mono_ms: int) -> None:
        """Do nothing: members of a share group do not commit offsets."""

    def validate_offset_delete(self) -> int:
        """See `Group`. A share group has no committed offsets."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def is_unused(self) -> bool:
        """Return False: a share group without members stays until it is deleted."""
        return False

    def unused_since_ms(self) -> int:
        """See `Group`. No offset expires, because there is none."""
        return NOT_NOW

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member subscribes to the topic."""
        return topic in self.names


def share_group(state: State, group_id: str) -> ShareGroup | None:
    """The share group of that id. None when no such group exists."""
    group = state.groups.get(group_id)
    return group if isinstance(group, ShareGroup) else None
