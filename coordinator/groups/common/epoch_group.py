"""What groups with epochs have in common: consumer groups, share groups and streams groups.

These classes inherit neither from `Group` nor from ABC, because `isinstance` would then be slow for their objects.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from sys import intern
from typing import Final, Generic, Protocol, TypeVar

from muster.coordinator.groups.common import kafka_order
from muster.coordinator.groups.common.group import (
    MEMBER_EPOCHS_SINCE,
    NEWEST_COMMIT,
    SINCE_COMMIT,
    Group,
    Partitions,
)
from muster.coordinator.groups.common.image import TopicImage
from muster.coordinator.groups.common.state import State
from muster.coordinator.state_machine.deadlines import Deadlines
from muster.protocol.errors import ErrorCode

FIRST_EPOCH: Final = 1
FIRST_TARGET: Final = 1
"""The assignment epoch of a group that never had targets. No member gets anything in this epoch."""
NEVER_HASHED: Final = -1


class _Position(Protocol):
    @property
    def epoch(self) -> int: ...


class _Member(Protocol):
    @property
    def position(self) -> _Position: ...


MemberT = TypeVar("MemberT", bound=_Member)
TargetT = TypeVar("TargetT")


class _Made(Group, Protocol):
    """A group that its id makes."""

    def __init__(self, group_id: str) -> None: ...


GroupT = TypeVar("GroupT", bound=_Made)


class EpochGroup(Generic[MemberT, TargetT]):
    """A group whose members and targets have epochs.

    `epoch` grows when members, or what they have to share out, changes. `assignment_epoch` is the epoch of `targets`.
    `metadata_hash`: the hash of the group's topics when `epoch` was reached.

    Not persisted: `hashed_version` and `hashed_topics`, the topics that the hash was compared with. `slots`: the size
    of the hash table in which Kafka has the members.
    """

    __slots__ = (
        "assignment_epoch", "assignment_ms", "epoch", "group_id", "hashed_topics", "hashed_version", "members",
        "metadata_hash", "slots", "targets",
    )  # fmt: skip

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = FIRST_TARGET
        self.assignment_ms = 0
        self.members: dict[str, MemberT] = {}
        self.targets: dict[str, TargetT] = {}
        self.hashed_version = NEVER_HASHED
        self.hashed_topics: Mapping[str, TopicImage] | None = None
        self.slots = kafka_order.LEAST_SLOTS

    def note_put(self) -> None:
        """Note that Kafka puts a member, new or not, into its table of members, which may grow."""
        self.slots = kafka_order.slots_after(self.slots, len(self.members))

    def assignment_reached(self, epoch: int, timestamp_ms: int) -> None:
        """Note that the targets are those of this epoch."""
        self.assignment_epoch = epoch
        self.assignment_ms = timestamp_ms

    def member_ids(self) -> list[str]:
        """The ids of all members, in the order in which Kafka iterates over them."""
        return kafka_order.timeline(self.members, self.slots)

    def deletion_error(self) -> int:
        """See `Group`. A group without members may be deleted."""
        return ErrorCode.NON_EMPTY_GROUP if self.members else 0


class CommittingGroup(EpochGroup[MemberT, TargetT]):
    """A group with epochs whose members commit offsets. `static_ids`: the member ids, by instance id."""

    __slots__ = ("static_ids",)

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.static_ids: dict[str, str] = {}

    def static_member(self, instance_id: str) -> MemberT | None:
        """The member with this instance id."""
        member_id = self.static_ids.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def is_classic(self, member: MemberT) -> bool:  # noqa: ARG002  # of most types of groups none
        """Whether the member has a generation in place of an epoch."""
        return False

    @abstractmethod
    def has_since(self, member: MemberT, epoch: int, partitions: Partitions) -> bool:
        """Whether the member got these partitions in this epoch or before, and has not given them up."""

    def validate_commit(
        self,
        member_id: str,
        instance_id: str | None,  # noqa: ARG002  # Kafka does not look at it here
        epoch: int,
        version: int = NEWEST_COMMIT,
        partitions: Partitions | None = None,
    ) -> int:
        """See `Group`. A member may also commit in an earlier epoch (KIP-1251), if it got the partitions by then and
        kept them. Otherwise the error is STALE_MEMBER_EPOCH or ILLEGAL_GENERATION.
        """
        member = self.members.get(member_id)
        if member is None:
            return 0 if epoch < 0 and not self.members else ErrorCode.UNKNOWN_MEMBER_ID
        if version < MEMBER_EPOCHS_SINCE and not self.is_classic(member):
            return ErrorCode.UNSUPPORTED_VERSION
        own = member.position.epoch
        if epoch == own:
            return 0
        if epoch < own and partitions is not None and self.has_since(member, epoch, partitions):
            return 0
        return self._stale(member)

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
        return 0 if epoch == member.position.epoch else self._stale(member)

    def _stale(self, member: MemberT) -> int:
        return ErrorCode.ILLEGAL_GENERATION if self.is_classic(member) else ErrorCode.STALE_MEMBER_EPOCH

    def has_committed(self, member_id: str, deadlines: Deadlines, mono_ms: int) -> None:
        """Do nothing: in a group with epochs a commit does not renew the session."""

    def validate_offset_delete(self) -> int:
        """Return 0: offsets may always be deleted, except offsets of subscribed topics."""
        return 0

    def is_unused(self) -> bool:
        """Whether the group has no members."""
        return not self.members

    def unused_since_ms(self) -> int:
        """SINCE_COMMIT: in every state each offset counts as unused since its commit."""
        return SINCE_COMMIT


def present(state: State, kind: type[GroupT], name: str) -> GroupT:
    """The group of this name and type. It replaces a group of another type, which may exist because of its offsets."""
    group = state.groups.get(name)
    if isinstance(group, kind):
        return group
    group_id = intern(name)
    made = state.groups[group_id] = kind(group_id)
    return made
