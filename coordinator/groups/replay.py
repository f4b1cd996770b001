"""What each record of the offsets topic does to the state: one row for each type of record."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from sys import intern
from typing import Final

from muster.coordinator.groups import unsupported_group
from muster.coordinator.groups.classic import records as classic_records
from muster.coordinator.groups.classic.group import ClassicGroup
from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.committed_offsets import pack, position_of
from muster.coordinator.groups.common.events import Event
from muster.coordinator.groups.common.state import Replay, State
from muster.coordinator.groups.consumer import replay as consumer_replay
from muster.coordinator.state_machine.interface import EndTransaction, TransactionalBatch
from muster.protocol.message import Message
from muster.protocol.messages.group_records.group_metadata import GroupMetadataKey
from muster.protocol.messages.group_records.legacy_offset_commit import LegacyOffsetCommitKey, LegacyOffsetCommitValue
from muster.protocol.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue


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
OTHERS: Final = unsupported_group.replay
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
