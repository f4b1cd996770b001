"""A group of a type that is not served here (consumer groups of KIP-848, share and streams groups), as a log that Kafka
wrote tells of it: shown, and never taken for another. Its members cannot come here, so it stays as it is: its records
are kept, its offsets can be read, and what a classic group may be asked is refused as Kafka refuses it.
"""

from __future__ import annotations

from typing import Any, Final

from muster.coordinator.groups.classic.states import EMPTY, STABLE
from muster.coordinator.groups.common.group import NOT_NOW, SINCE_COMMIT, Group
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message

CONSUMER: Final = "consumer"
SHARE: Final = "share"
STREAMS: Final = "streams"
ASSIGNING: Final = "Assigning"
RECONCILING: Final = "Reconciling"
NOT_READY: Final = "NotReady"
"""States that classic groups do not have."""
_KINDS: Final = {"ConsumerGroup": CONSUMER, "ShareGroup": SHARE, "StreamsGroup": STREAMS}
_IS_STABLE: Final = 0
"""The `state` of a member's current assignment when it has reconciled (MemberState.STABLE)."""

Row = tuple[Any, Any]
"""Key and value of a record."""


def kind_of(key: Message) -> str | None:
    """The type of group that a record with this key belongs to; None: to none of these."""
    # by names: what is here once in a hundred logs is not to be imported at every start
    name = type(key).__name__
    return next((kind for prefix, kind in _KINDS.items() if name.startswith(prefix)), None)


class ForeignGroup(Group):
    """One such group, of type `kind`: its records that are in force."""

    __slots__ = ("_rows", "kind")

    def __init__(self, group_id: str, kind: str) -> None:
        super().__init__(group_id, EMPTY)
        self.kind = self.protocol_type = kind
        self._rows: dict[tuple[object, ...], Row] = {}

    def take(self, key: Message, value: Message | None) -> bool:
        """Take over one record; whether there are any left."""
        name = (type(key).__name__, *[getattr(key, field) for field in key.__slots__])
        if value is None:
            self._rows.pop(name, None)
        else:
            self._rows[name] = key, value
        return bool(self._rows)

    def record_keys(self) -> list[Message]:
        """See `Group`; the group's own record is the last."""
        own = f"{self._prefix}MetadataKey"
        return sorted([key for key, _ in self._rows.values()], key=lambda key: type(key).__name__ == own)

    def reload(self) -> None:
        """All records are replayed: as Kafka tells the state from them."""
        members = self._of("MemberMetadata")
        if not members:
            self.state = EMPTY
        elif self.kind == STREAMS:
            self.state = NOT_READY  # until a heartbeat brings its topology
        elif self.kind == SHARE:
            self.state = STABLE
        else:
            self.state = self._state_of(members)

    def _state_of(self, members: list[Row]) -> str:
        epoch = max((value.epoch for _, value in self._of("Metadata")), default=0)
        target = max((value.assignment_epoch for _, value in self._of("TargetAssignmentMetadata")), default=0)
        if epoch > target:
            return ASSIGNING
        there = {key.member_id: value for key, value in self._of("CurrentMemberAssignment")}
        current = [there.get(key.member_id) for key, _ in members]
        reconciled = all(one and (one.state, one.member_epoch) == (_IS_STABLE, target) for one in current)
        return STABLE if reconciled else RECONCILING

    @property
    def _prefix(self) -> str:
        return next(prefix for prefix, kind in _KINDS.items() if kind == self.kind)

    def _of(self, what: str) -> list[Row]:
        name = f"{self._prefix}{what}Key"
        return [row for row in self._rows.values() if type(row[0]).__name__ == name]

    @property
    def may_become_classic(self) -> bool:
        """A JoinGroup turns it into a classic one, as on Kafka: it has neither members nor a state elsewhere."""
        return self.state == EMPTY and self.kind != SHARE

    # ---- checks

    def validate_commit(self, member_id: str, instance_id: str | None, epoch: int) -> int:  # noqa: ARG002  # nobody here is a member
        """Only who uses an Empty group for its offsets may; a share group has none."""
        if self.kind == SHARE:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return 0 if self.state == EMPTY and epoch < 0 else ErrorCode.UNKNOWN_MEMBER_ID

    def validate_offset_delete(self) -> int:
        """Always, but for topics that are subscribed to."""
        return ErrorCode.GROUP_ID_NOT_FOUND if self.kind == SHARE else 0

    def validate_delete(self) -> int:
        """While it is Empty. A share group has a state in another topic, which only Kafka can delete with it."""
        return 0 if self.may_become_classic else ErrorCode.NON_EMPTY_GROUP

    def is_of_no_use(self) -> bool:
        """No members, and nothing elsewhere."""
        return self.may_become_classic

    def unused_since_ms(self) -> int:
        """Since they were committed, when there are no members; else nothing expires, since nobody can commit here."""
        return SINCE_COMMIT if self.may_become_classic else NOT_NOW

    def subscribes_to(self, topic: str) -> bool:
        """By name, or by a regular expression that was resolved; of other types' members anything might be."""
        if self.kind != CONSUMER:
            return self.state != EMPTY
        members = [value for _, value in self._of("MemberMetadata")]
        resolved = {key.regular_expression: value.topics for key, value in self._of("RegularExpression")}
        return any(
            topic in one.subscribed_topic_names
            or (one.subscribed_topic_regex and topic in resolved.get(one.subscribed_topic_regex, (topic,)))
            for one in members
        )
