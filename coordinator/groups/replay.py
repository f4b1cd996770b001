"""What each record of the offsets topic does to the state: one row for each type of record.

An unsupported group (a share or streams group) is listed, and its records and offsets are kept. Requests for classic
groups are refused as Kafka does. Its members cannot connect to this server, so it does not change.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from sys import intern
from typing import Any, Final

from muster.coordinator.groups.classic import records as classic_records
from muster.coordinator.groups.classic.group import ClassicGroup
from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.committed_offsets import pack, position_of
from muster.coordinator.groups.common.events import Event
from muster.coordinator.groups.common.group import NEWEST_COMMIT, NOT_NOW, SINCE_COMMIT, Partitions
from muster.coordinator.groups.common.state import Replay, State, Step
from muster.coordinator.groups.consumer import replay as consumer_replay
from muster.coordinator.state_machine.deadlines import Deadlines
from muster.coordinator.state_machine.interface import EndTransaction, TransactionalBatch
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.group_records.group_metadata import GroupMetadataKey
from muster.protocol.messages.group_records.legacy_offset_commit import LegacyOffsetCommitKey, LegacyOffsetCommitValue
from muster.protocol.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue

SHARE: Final = "share"
STREAMS: Final = "streams"
EMPTY: Final = "Empty"
STABLE: Final = "Stable"
NOT_READY: Final = "NotReady"
"""The states of these groups. The last one is no state of a classic group."""
_KINDS: Final = {"ShareGroup": SHARE, "StreamsGroup": STREAMS}

Row = tuple[Any, Any]
"""Key and value of a record."""


def prefix_of(key: Message) -> str | None:
    """The first part of the name of a record of such a group. None for other records."""
    # By name: the messages of these records are rare, and need not be imported at every start.
    name = type(key).__name__
    return next((prefix for prefix in _KINDS if name.startswith(prefix)), None)


def replay_unsupported(state: State, key: Any, value: Message | None) -> None:
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


def load_unsupported(_: Step, group: UnsupportedGroup) -> None:
    """All records are replayed: the state follows from them."""
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
        """Replay one record. Returns whether any records are left."""
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
        """A commit is allowed for no particular member, or as in `validate_commit`."""
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

    def validate_delete(self) -> int:
        """A group may be deleted while it is Empty. Only Kafka can delete the other state of a share group."""
        return 0 if self.state == EMPTY and self.kind != SHARE else ErrorCode.NON_EMPTY_GROUP

    def is_unused(self) -> bool:
        """Whether the group has no members, and no state elsewhere."""
        return not self.validate_delete()

    def unused_since_ms(self) -> int:
        """Offsets of a group without members expire by their commit time. In other groups nothing expires."""
        return SINCE_COMMIT if self.is_unused() else NOT_NOW

    def subscribes_to(self, topic: str) -> bool:  # noqa: ARG002  # its members' subscriptions are not read
        """Its members might subscribe to any topic."""
        return self.state != EMPTY


def _offset(state: State, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
    if value is None:
        state.offsets.discard(key.group, key.topic, key.partition)
        return
    state.offsets.put(key.group, key.topic, key.partition, pack(value))
    if key.group not in state.groups:
        _simple_group(state, key.group, value)


def _simple_group(state: State, name: str, value: OffsetCommitValue) -> None:
    """Create the group of offsets without a group record."""
    group_id = intern(name)
    state.groups[group_id] = ClassicGroup(group_id, value.commit_timestamp)


def _legacy_offset(state: State, key: LegacyOffsetCommitKey, value: LegacyOffsetCommitValue | None) -> None:
    modern = None if value is None else OffsetCommitValue(value.offset, -1, value.metadata, value.commit_timestamp)
    _offset(state, OffsetCommitKey(key.group, key.topic, key.partition), modern)


RECORDS: Final[Mapping[type[Message], Replay]] = {
    OffsetCommitKey: _offset,
    LegacyOffsetCommitKey: _legacy_offset,
    GroupMetadataKey: classic_records.replay,
    **consumer_replay.RECORDS,
}
"""The functions by the type of the key."""
OTHERS: Final = replay_unsupported
"""For records of all other types: those of unsupported groups are kept, all others change nothing."""
ENDED_IN_A_STEP: Final = 1_000
"""Offsets of a transaction that ends without a pause: some 2 ms."""


def transactional(state: State, batch: TransactionalBatch) -> int:
    """Replay records of an open transaction. Returns their number. Only its offsets wait for its end."""
    state.offsets.pending.begin(batch.producer_id, batch.producer_epoch, batch.timestamp_ms)
    for key, value in batch.records:
        if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
            state.offsets.put_pending(batch.producer_id, key.group, key.topic, key.partition, value)
            if key.group not in state.groups:
                _simple_group(state, key.group, value)
        else:
            state.evolve(key, value)
    return len(batch.records)


def end_transaction(state: State, end: EndTransaction) -> Generator[None, None, Sequence[Event]]:
    """End the transaction of a producer, in steps. Returns the events of its groups."""
    newest_ms = state.offsets.pending.newest_ms(end.producer_id)
    groups: dict[str, dict[str, dict[int, int]]] = {}
    ended = state.offsets.end_transaction(end.producer_id, is_committed=end.is_committed)
    for count, ((group_id, (topic, partition)), packed) in enumerate(ended, 1):
        offset, _ = position_of(packed)
        groups.setdefault(group_id, {}).setdefault(topic, {})[partition] = offset
        if count % ENDED_IN_A_STEP == 0:
            yield None
    kind = events.TRANSACTION_COMMITTED if end.is_committed else events.TRANSACTION_ABORTED
    return [
        Event(
            kind,
            group_id,
            {
                "producer_id": end.producer_id,
                "producer_epoch": end.producer_epoch,
                "offsets": offsets,
                "since_ms": newest_ms,
            },
        )
        for group_id, offsets in groups.items()
    ]
