"""A member of a share group: its fields, its position and its deadline. This module decides nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from muster.coordinator.groups.common.events import MemberFacts, Trigger
from muster.coordinator.state_machine.deadlines import Due

Assigned = tuple[tuple[bytes, tuple[int, ...]], ...]
"""Partitions by topic id, both ascending. A topic whose partitions were all taken away stays, without partitions."""
NOTHING: Final[tuple[()]] = ()
SESSION: Final = "share session"
"""The kind of the deadline at which a silent member is fenced."""
LEAVE_GROUP_MEMBER_EPOCH: Final = -1
"""The epoch in the heartbeat of a member that leaves, and of a member that has left."""
STABLE: Final = 0
"""The only state of a member: it has its whole target at once, because partitions have no owner."""


def assigned(rows: Mapping[bytes, Collection[int]]) -> Assigned:
    """These partitions by topic id in the order of `Assigned`."""
    return tuple([(topic_id, tuple(sorted(rows[topic_id]))) for topic_id in sorted(rows)])


class Description(NamedTuple):
    """The fields that a member sends about itself: those of ShareGroupMemberMetadataValue."""

    rack_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    """The names of the topics that the member subscribes to: distinct and ascending."""


NOBODY: Final = Description(None, "", "", ())
"""The description of a member that has not sent any field yet."""


class Position(NamedTuple):
    """What a member has, with its epochs: the fields of ShareGroupCurrentMemberAssignmentValue."""

    epoch: int
    previous_epoch: int
    state: int
    assigned: Assigned


START: Final = Position(0, -1, STABLE, NOTHING)


class ShareMember(Due):
    """One member, which is also the deadline of its session."""

    __slots__ = ("description", "member_id", "position")

    kind = SESSION

    def __init__(self, group_id: str, member_id: str) -> None:
        super().__init__(group_id)
        self.member_id = member_id
        self.description = NOBODY
        self.position = START

    @property
    def trigger(self) -> Trigger:
        """The trigger of an event that this member caused."""
        return Trigger(self.member_id, None, self.description.client_id, self.description.client_host, None)

    def facts(self, session_timeout_ms: int) -> MemberFacts:
        """The member in an event."""
        description = self.description
        return MemberFacts(
            self.member_id, None, description.client_id, description.client_host, session_timeout_ms, -1, (),
            None, None, None, b"",
        )  # fmt: skip
