"""An unsupported group (a streams group) is listed, and its records and offsets are kept.

Requests for classic groups are refused, as on Kafka. Members of such a group cannot connect to this server, so the
group does not change.
"""

from __future__ import annotations

from sys import intern
from typing import Any, Final

from muster.coordinator.groups.common.group import NEWEST_COMMIT, NOT_NOW, SINCE_COMMIT, Partitions
from muster.coordinator.groups.common.state import State, Step
from muster.coordinator.state_machine.deadlines import Deadlines
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message

STREAMS: Final = "streams"
EMPTY: Final = "Empty"
NOT_READY: Final = "NotReady"
"""The state of a group whose members have not sent their topology yet."""
_PREFIX: Final = "StreamsGroup"
"""The beginning of the names of the records' keys."""

Row = tuple[Any, Any]
"""Key and value of a record."""


def is_of_such_a_group(key: Message) -> bool:
    """Whether the key is of a record of a streams group."""
    # The name of the key's class is compared, so that a start need not import the messages of these records.
    return type(key).__name__.startswith(_PREFIX)


def replay(state: State, key: Any, value: Message | None) -> None:
    """Replay a record of such a group. A record of any other type changes nothing."""
    if not is_of_such_a_group(key):
        return
    group = state.groups.get(key.group_id)
    if not isinstance(group, UnsupportedGroup):
        if value is None:
            return
        # A simple group may exist, because the group's offsets precede this record in the log.
        group_id = intern(key.group_id)
        state.groups[group_id] = group = UnsupportedGroup(group_id)
    if not group.take(key, value):
        del state.groups[group.group_id]


def loaded(_: Step, group: UnsupportedGroup) -> None:
    """Set the state of the group, when all records are replayed."""
    group.state = group.present_state()


class UnsupportedGroup:
    """One unsupported group, with its records in force."""

    __slots__ = ("_rows", "group_id", "state")

    kind = STREAMS
    protocol_type = STREAMS

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state = EMPTY
        self._rows: dict[tuple[object, ...], Row] = {}

    def take(self, key: Message, value: Message | None) -> bool:
        """Replay one record. Returns whether the group has records now."""
        name = (type(key).__name__, *[getattr(key, field) for field in key.__slots__])
        if value is None:
            self._rows.pop(name, None)
        else:
            self._rows[name] = key, value
        return bool(self._rows)

    def record_keys(self) -> list[Message]:
        """See `Group`. The key of the group's own record is the last."""
        own = f"{_PREFIX}MetadataKey"
        return sorted([key for key, _ in self._rows.values()], key=lambda key: type(key).__name__ == own)

    def present_state(self) -> str:
        """The state that follows from the records, by Kafka's rules."""
        has_members = any(type(key).__name__ == f"{_PREFIX}MemberMetadataKey" for key, _ in self._rows.values())
        # The group is not ready until a heartbeat sends its topology.
        return NOT_READY if has_members else EMPTY

    # ---- checks

    def validate_commit(
        self,
        member_id: str,  # noqa: ARG002  # it has no members here
        instance_id: str | None,  # noqa: ARG002
        epoch: int,
        version: int = NEWEST_COMMIT,  # noqa: ARG002
        partitions: Partitions | None = None,  # noqa: ARG002
    ) -> int:
        """See `Group`. An Empty group allows commits without member epoch."""
        return 0 if self.state == EMPTY and epoch < 0 else ErrorCode.UNKNOWN_MEMBER_ID

    def validate_transactional_commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        partitions: Partitions,  # noqa: ARG002
    ) -> int:
        """See `Group`. A commit that names no member is allowed. Other commits are checked by `validate_commit`."""
        if epoch == -1 and not member_id and instance_id is None:
            return 0
        return self.validate_commit(member_id, instance_id, epoch)

    def validate_fetch(self, member_id: str | None, epoch: int) -> int:  # noqa: ARG002  # only a consumer group asks
        """Return 0: every client may read offsets."""
        return 0

    def has_committed(self, member_id: str, deadlines: Deadlines, mono_ms: int) -> None:
        """Do nothing: members of this group have no sessions on this server."""

    def validate_offset_delete(self) -> int:
        """See `Group`. Offsets may always be deleted, except offsets of subscribed topics."""
        return 0

    def deletion_error(self) -> int:
        """See `Group`. An Empty group may be deleted."""
        return 0 if self.state == EMPTY else ErrorCode.NON_EMPTY_GROUP

    def is_unused(self) -> bool:
        """Whether the group may be removed when it has no offsets."""
        return not self.deletion_error()

    def unused_since_ms(self) -> int:
        """See `Group`. Offsets of a group without members expire by commit time. In other groups no offset expires."""
        return SINCE_COMMIT if self.is_unused() else NOT_NOW

    def subscribes_to(self, topic: str) -> bool:  # noqa: ARG002  # its members' subscriptions are not read
        """See `Group`. A member, if the group has any, might subscribe to any topic."""
        return self.state != EMPTY
