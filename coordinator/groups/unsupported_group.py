"""An unsupported group (a share or streams group) is listed, and its records and offsets are kept.

Requests for classic groups are refused as Kafka does. Members of such a group cannot connect to this server, so it does
not change.
"""

from __future__ import annotations

from sys import intern
from typing import Any, Final

from muster.coordinator.groups.common.group import NEWEST_COMMIT, NOT_NOW, SINCE_COMMIT, Partitions
from muster.coordinator.groups.common.state import State, Step
from muster.coordinator.state_machine.deadlines import Deadlines
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message

SHARE: Final = "share"
STREAMS: Final = "streams"
EMPTY: Final = "Empty"
STABLE: Final = "Stable"
NOT_READY: Final = "NotReady"
"""A state that only streams groups have."""
_KINDS: Final = {"ShareGroup": SHARE, "StreamsGroup": STREAMS}

Row = tuple[Any, Any]
"""Key and value of a record."""


def prefix_of(key: Message) -> str | None:
    """The first part of the name of a record of such a group. None for other records."""
    # The name of the key's class decides: so a start need not import the messages of these records.
    name = type(key).__name__
    return next((prefix for prefix in _KINDS if name.startswith(prefix)), None)


def replay(state: State, key: Any, value: Message | None) -> None:
    """Replay a record of such a group. A record of any other type changes nothing."""
    prefix = prefix_of(key)
    if prefix is None:
        return
    group = state.groups.get(key.group_id)
    if not isinstance(group, UnsupportedGroup) or group.kind != _KINDS[prefix]:
        if value is None:
            return
        # A simple group may have been made for its offsets, which precede it in the log.
        group_id = intern(key.group_id)
        state.groups[group_id] = group = UnsupportedGroup(group_id, prefix)
    if not group.take(key, value):
        del state.groups[group.group_id]


def loaded(_: Step, group: UnsupportedGroup) -> None:
    """Derive the state of the group, when all records are replayed."""
    group.state = group.present_state()


class UnsupportedGroup:
    """One such group, with its records that are in force. Their names begin with `prefix`."""

    __slots__ = ("_prefix", "_rows", "group_id", "kind", "protocol_type", "state")

    def __init__(self, group_id: str, prefix: str) -> None:
        self.group_id = group_id
        self.state = EMPTY
        self.kind = self.protocol_type = _KINDS[prefix]
        self._prefix = prefix
        self._rows: dict[tuple[object, ...], Row] = {}

    def take(self, key: Message, value: Message | None) -> bool:
        """Replay one record. Returns whether the group still has records."""
        name = (type(key).__name__, *[getattr(key, field) for field in key.__slots__])
        if value is None:
            self._rows.pop(name, None)
        else:
            self._rows[name] = key, value
        return bool(self._rows)

    def record_keys(self) -> list[Message]:
        """See `Group`. The group's own record is the last."""
        own = f"{self._prefix}MetadataKey"
        return sorted([key for key, _ in self._rows.values()], key=lambda key: type(key).__name__ == own)

    def present_state(self) -> str:
        """The state that follows from its records, as Kafka derives it."""
        if not any(type(key).__name__ == f"{self._prefix}MemberMetadataKey" for key, _ in self._rows.values()):
            return EMPTY
        # A streams group is not ready until a heartbeat sends its topology.
        return NOT_READY if self.kind == STREAMS else STABLE

    # ---- checks

    def validate_commit(
        self,
        member_id: str,  # noqa: ARG002  # it has no members here
        instance_id: str | None,  # noqa: ARG002
        epoch: int,
        version: int = NEWEST_COMMIT,  # noqa: ARG002
        partitions: Partitions | None = None,  # noqa: ARG002
    ) -> int:
        """A commit is allowed only without a member epoch, while the group is Empty. A share group has no offsets."""
        if self.kind == SHARE:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return 0 if self.state == EMPTY and epoch < 0 else ErrorCode.UNKNOWN_MEMBER_ID

    def validate_transactional_commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        partitions: Partitions,  # noqa: ARG002
    ) -> int:
        """A commit is allowed when it names no member, and else as in `validate_commit`."""
        if self.kind != SHARE and epoch == -1 and not member_id and instance_id is None:
            return 0
        return self.validate_commit(member_id, instance_id, epoch)

    def validate_fetch(self, member_id: str | None, epoch: int) -> int:  # noqa: ARG002  # only a consumer group asks
        """Every client may read offsets."""
        return 0

    def has_committed(self, member_id: str, deadlines: Deadlines, mono_ms: int) -> None:
        """No session: the group has no members here."""

    def validate_offset_delete(self) -> int:
        """Offsets may always be deleted, but not those of subscribed topics."""
        return ErrorCode.GROUP_ID_NOT_FOUND if self.kind == SHARE else 0

    def deletion_error(self) -> int:
        """A group may be deleted while it is Empty. Only Kafka can delete the other state of a share group."""
        return 0 if self.state == EMPTY and self.kind != SHARE else ErrorCode.NON_EMPTY_GROUP

    def is_unused(self) -> bool:
        """Whether the group has no members, and no state outside these records."""
        return not self.deletion_error()

    def unused_since_ms(self) -> int:
        """Offsets of a group without members expire by their commit time. In other groups nothing expires."""
        return SINCE_COMMIT if self.is_unused() else NOT_NOW

    def subscribes_to(self, topic: str) -> bool:  # noqa: ARG002  # its members' subscriptions are not read
        """True: the group's members might subscribe to any topic."""
        return self.state != EMPTY
