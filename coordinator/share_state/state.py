"""The states of the share partitions of one partition of __share_group_state. This module decides nothing.

Records change the states in one way, live and in replay (`States.evolve`). The rules are those of Kafka's
ShareCoordinatorShard. A snapshot replaces the state; an update is merged into it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from muster.coordinator.share.in_flight import Row
from muster.coordinator.share_state.combine import combined, merge
from muster.coordinator.share_state.persister import UNKNOWN, StateKey
from muster.coordinator.share_state.rows import Rows
from muster.coordinator.state_machine.interface import Decoded, Record
from muster.protocol.message import Message
from muster.protocol.messages.share_records import share_snapshot, share_update
from muster.protocol.messages.share_records.share_snapshot import ShareSnapshotKey, ShareSnapshotValue
from muster.protocol.messages.share_records.share_update import ShareUpdateKey, ShareUpdateValue

NO_EPOCH: Final = -1


@dataclass(slots=True)
class LogPosition(Message):
    """A place in the log, between records: the offset of the next record."""

    offset: int


class PartitionState:
    """The state of one share partition."""

    __slots__ = (
        "created_ms", "done_count", "leader_epoch", "least_leader_epoch", "least_state_epoch", "rows",
        "snapshot_epoch", "snapshot_offset", "start_offset", "state_epoch", "updates", "written_ms",
    )  # fmt: skip

    def __init__(self) -> None:
        self.snapshot_epoch = self.state_epoch = self.leader_epoch = 0
        self.start_offset = self.done_count = UNKNOWN
        self.rows = Rows()
        self.created_ms = self.written_ms = 0
        """When a request has caused the newest snapshot, and when that snapshot was written (wall ms)."""
        self.least_leader_epoch = self.least_state_epoch = NO_EPOCH
        """The highest epochs in records: requests with lower epochs are refused."""
        self.updates = 0
        """The updates since the snapshot that was written because of their number."""
        self.snapshot_offset = NO_EPOCH
        """The offset of the newest snapshot in the log. NO_EPOCH means that the log has only updates."""

    def take_snapshot(self, value: ShareSnapshotValue, offset: int, updates_per_snapshot: int) -> None:
        """Take over a snapshot at `offset`."""
        self.snapshot_epoch, self.snapshot_offset = value.snapshot_epoch, offset
        self.state_epoch, self.leader_epoch = value.state_epoch, value.leader_epoch
        self.least_state_epoch = max(self.least_state_epoch, value.state_epoch)
        self.least_leader_epoch = max(self.least_leader_epoch, value.leader_epoch)
        self.start_offset, self.done_count = value.start_offset, value.delivery_complete_count
        self.rows = Rows(combined(_rows(value.state_batches), UNKNOWN))
        self.created_ms, self.written_ms = value.create_timestamp, value.write_timestamp
        if self.updates >= updates_per_snapshot:
            self.updates = 0

    def take_update(self, value: ShareUpdateValue, *, is_first: bool) -> None:
        """Merge an update. `is_first`: the log does not have the snapshot before."""
        if is_first:
            self.snapshot_epoch = value.snapshot_epoch
        if is_first or value.start_offset != UNKNOWN:
            self.start_offset = value.start_offset
        if is_first or value.leader_epoch != NO_EPOCH:
            self.leader_epoch = value.leader_epoch
        self.least_leader_epoch = max(self.least_leader_epoch, value.leader_epoch)
        self.done_count = value.delivery_complete_count
        merge(self.rows, _rows(value.state_batches), self.start_offset)
        self.updates += 1


def _rows(batches: Iterable[Any]) -> list[Row]:
    return [
        Row(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
        for one in batches
        if one.first_offset <= one.last_offset
    ]


class States:
    """The share partitions by key. `next_offset`: the offset of the next record in the log."""

    __slots__ = ("next_offset", "partitions", "updates_per_snapshot")

    def __init__(self, updates_per_snapshot: int) -> None:
        self.updates_per_snapshot = updates_per_snapshot
        self.partitions: dict[StateKey, PartitionState] = {}
        self.next_offset = 0

    def evolve(self, key: Message, value: Message | None) -> None:
        """Replay one record, or go to a place in the log. Records of other types change nothing."""
        if type(key) is LogPosition:
            self.next_offset = key.offset
            return
        offset = self.next_offset
        self.next_offset += 1
        if type(key) is ShareSnapshotKey:
            partition = StateKey(key.group_id, key.topic_id, key.partition)
            if type(value) is ShareSnapshotValue:
                state = self.partitions.get(partition)
                if state is None:
                    state = self.partitions[partition] = PartitionState()
                state.take_snapshot(value, offset, self.updates_per_snapshot)
            else:
                self.partitions.pop(partition, None)
        elif type(key) is ShareUpdateKey and type(value) is ShareUpdateValue:
            partition = StateKey(key.group_id, key.topic_id, key.partition)
            known = self.partitions.get(partition)
            state = self.partitions[partition] = known or PartitionState()
            state.take_update(value, is_first=known is None)

    def replay(self, records: Iterable[Decoded]) -> int:
        """`evolve` for records of the log, and places in the log. Returns the number of both."""
        count = 0
        for key, value in records:
            self.evolve(key, value)
            count += 1
        return count

    def redundant_before(self) -> int:
        """The offset before which no record is needed; 0 if all records are needed."""
        return max(min((one.snapshot_offset for one in self.partitions.values()), default=0), 0)


VALUE_VERSION: Final = 0


def snapshot_record(
    key: StateKey,
    *,
    snapshot_epoch: int,
    state_epoch: int,
    leader_epoch: int,
    start_offset: int,
    done_count: int,
    created_ms: int,
    written_ms: int,
    rows: Iterable[Row] = (),
) -> Record:
    """A ShareSnapshot. For the arguments see `PartitionState`."""
    value = ShareSnapshotValue(
        snapshot_epoch,
        state_epoch,
        leader_epoch,
        start_offset,
        done_count,
        created_ms,
        written_ms,
        [share_snapshot.StateBatch(*row) for row in rows],
    )
    return Record(ShareSnapshotKey(*key), value, VALUE_VERSION)


def update_record(
    key: StateKey, *, snapshot_epoch: int, leader_epoch: int, start_offset: int, done_count: int, rows: Iterable[Row]
) -> Record:
    """A ShareUpdate. For the arguments see `PartitionState`."""
    batches = [share_update.StateBatch(*row) for row in rows]
    value = ShareUpdateValue(snapshot_epoch, leader_epoch, start_offset, done_count, batches)
    return Record(ShareUpdateKey(*key), value, VALUE_VERSION)


def tombstone(key: StateKey) -> Record:
    """The record that deletes a state."""
    return Record(ShareSnapshotKey(*key), None, VALUE_VERSION)
