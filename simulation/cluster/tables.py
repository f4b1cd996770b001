"""The database of a cluster, in memory.

`Tables` do the same as the SQL of `postgres.postgres`, each call at once and as a whole. They may have a synchronous
standby. While the standby is cut off, no write is answered. If the session of a write ends, readers can see the write
all the same. The write is lost when the standby is promoted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, Final

from muster.postgres.store import (
    DEAD,
    LIVE,
    MAIL_COUNTS_MS,
    NO_SNAPSHOT,
    BatchRow,
    Changes,
    Checkpoint,
    Identity,
    LogRow,
    Mail,
    MetadataRow,
    NodeRegistration,
    SegmentRow,
    Snapshot,
)
from muster.virtual.world import World

FETCHED_ROWS: Final = 5
PURGED_ROWS: Final = 2
SHORTENED_ROWS: Final = 3

_REPLICATED: Final = (
    "terms", "rows", "log", "snapshot", "snapshot_ms", "snapshot_parts", "sent_ms", "logs", "segments_by_no",
    "rows_of", "aborted", "checkpoints",
)  # fmt: skip


def _nobody() -> None:
    pass


class Tables:
    """The tables of the database, and the operations on them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.identity = Identity("cluster-of-the-simulation", "AAAAAAAAAAAAAAAAAAAAAQ")
        self.terms = 0
        self.rows: dict[int, NodeRegistration] = {}
        """The node registrations. Here `remaining_ms` is the time at which the lease ends."""
        self.log: dict[int, MetadataRow] = {}
        self.snapshot = NO_SNAPSHOT
        self.snapshot_ms = 0
        self.snapshot_parts: dict[tuple[int, int], bytes] = {}
        """The parts of snapshots, by the number of the snapshot and of the part."""
        self.snapshots = self.shortened = 0
        """The number of snapshots, and the number of removed rows of the metadata log."""
        self.boxes: dict[int, list[Mail]] = {}
        self.sent_ms: dict[tuple[int, str], int] = {}
        self.logs: dict[int, LogRow] = {}
        self.segments_by_no: dict[int, SegmentRow] = {}
        self.rows_of: dict[tuple[int, int], BatchRow] = {}
        self.aborted: dict[int, bytes] = {}
        """The aborted transactions of each segment, by the segment's number."""
        self.checkpoints: dict[int, Checkpoint] = {}
        """The checkpoint of each log, by the log's number."""
        self.is_down = False
        """Whether the database is down and answers nobody."""
        self.servers = 1
        """The number of servers that have been the primary."""
        self.unreplicated = 0
        """The number of writes that readers could see, and that a promotion lost."""
        self._standby: dict[str, Any] | None = None
        """The tables of the standby while it is cut off; None while it is not."""
        self._visible = 0
        self._waiting: list[Callable[[], object]] = []
        """The writes that wait for the standby."""
        self.hinted: dict[int, Callable[[], object]] = {}
        """The callbacks for hints, by node id."""

    # -- the standby

    @property
    def waits_for_standby(self) -> bool:
        return self._standby is not None

    def cut_standby(self) -> None:
        """Cut the standby off: from now on it gets no writes."""
        if self._standby is None:
            self._visible = 0
            self._standby = {name: copy(getattr(self, name)) for name in _REPLICATED}
            self._standby["boxes"] = {node_id: list(box) for node_id, box in self.boxes.items()}

    def wait(self, write: Callable[[], object]) -> None:
        self._waiting.append(write)

    def saw(self) -> None:
        """Count a write whose session has ended, but which readers can see."""
        self._visible += 1

    def join_standby(self) -> None:
        self._standby = None
        waiting, self._waiting = self._waiting, []
        for write in waiting:
            write()

    def promote_standby(self) -> None:
        """Lose the primary, with all writes that the standby does not have."""
        if self._standby is not None:
            for name, value in self._standby.items():
                setattr(self, name, value)
            self._standby = None
            self._waiting.clear()
            self.unreplicated += self._visible
        self.servers += 1

    # -- registrations

    def registrations(self) -> list[NodeRegistration]:
        now_ms = self._world.ms
        return [one._replace(remaining_ms=one.remaining_ms - now_ms) for _, one in sorted(self.rows.items())]

    def register_node(self, holder: str, address: str, node_id: int | None, lease_ms: int) -> NodeRegistration | None:
        now_ms = self._world.ms
        if node_id is None:
            own = [one.node_id for one in self.rows.values() if one.holder == holder]
            free = [one.node_id for one in self.rows.values() if one.remaining_ms <= now_ms]
            node_id = min(own or free, default=max(self.rows, default=0) + 1)
        self.terms += 1
        registration = self.rows.get(node_id)
        if registration is not None and registration.remaining_ms > now_ms and registration.holder != holder:
            return None
        needs = 0 if registration is None else registration.needs
        taken = NodeRegistration(node_id, self.terms, 0, needs, holder, address, now_ms + lease_ms, 0)
        self.rows[node_id] = taken
        return taken._replace(remaining_ms=lease_ms)

    def unregister_node(self, node_id: int, epoch: int) -> None:
        registration = self.rows.get(node_id)
        if registration is not None and registration.epoch == epoch:
            self.rows[node_id] = registration._replace(remaining_ms=self._world.ms)

    # -- the metadata log

    def metadata(self, since: int) -> list[MetadataRow]:
        return [row for offset, row in sorted(self.log.items()) if offset >= since][:FETCHED_ROWS]

    def write_metadata(self, row: MetadataRow, needing: Sequence[int], dead: Mapping[int, int]) -> bool:
        if row.base_offset in self.log or row.base_offset < self.snapshot.end_offset:
            return False
        if row.base_offset != max((one.next_offset for one in self.log.values()), default=0):
            raise AssertionError(f"there is a gap before {row.base_offset}")
        registrations, now_ms = self.rows, self._world.ms
        for node_id, epoch in dead.items():
            if registrations[node_id].epoch != epoch or registrations[node_id].remaining_ms > now_ms:
                return False
        for node_id in dead:
            registrations[node_id] = registrations[node_id]._replace(epoch=0)
        for node_id in needing:
            if node_id in registrations:
                registrations[node_id] = registrations[node_id]._replace(needs=row.next_offset)
        self.log[row.base_offset] = row
        for hint in self.hinted.values():
            hint()
        return True

    def begin_snapshot(self) -> int:
        self.terms += 1
        return self.terms

    def put_snapshot_part(self, node_id: int, epoch: int, number: int, part: int, data: bytes) -> bool:
        registration = self.rows.get(node_id)
        if registration is None or registration.epoch != epoch:
            return False
        if self.snapshot_parts.setdefault((number, part), data) != data:
            raise AssertionError(f"part {part} of snapshot {number} was another one")
        return True

    def commit_snapshot(self, node_id: int, epoch: int, snapshot: Snapshot) -> bool:
        registration, now = self.rows.get(node_id), self.snapshot
        parts = sum(number == snapshot.number for number, _ in self.snapshot_parts)
        if registration is None or registration.epoch != epoch or parts != snapshot.parts:
            return False
        if snapshot.number <= now.number or snapshot.end_offset <= now.end_offset:
            return False
        self.snapshot, self.snapshot_ms = snapshot, self._world.ms
        self.snapshots += 1
        return True

    def shorten_metadata(self, kept_ms: int) -> bool:
        snapshot = self.snapshot
        if snapshot == NO_SNAPSHOT or self.snapshot_ms >= self._world.ms - kept_ms:
            return False
        rows = [offset for offset, row in sorted(self.log.items()) if row.next_offset < snapshot.end_offset]
        parts = [key for key in sorted(self.snapshot_parts) if key[0] < snapshot.number]
        for offset in rows[:SHORTENED_ROWS]:
            del self.log[offset]
            self.shortened += 1
        for key in parts[:SHORTENED_ROWS]:
            del self.snapshot_parts[key]
        return max(len(rows), len(parts)) < SHORTENED_ROWS

    # -- messages between nodes

    def send(self, to: Sequence[tuple[int, Mail]]) -> None:
        for node_id, mail in to:
            box = self.boxes.setdefault(node_id, [])
            if mail.mail_id not in [one.mail_id for one in box]:
                box.append(mail)
                self.sent_ms[node_id, mail.mail_id] = self._world.ms
            self.hinted.get(node_id, _nobody)()

    def mail(self, node_id: int) -> list[Mail]:
        since_ms = self._world.ms - MAIL_COUNTS_MS
        return [mail for mail in self.boxes.pop(node_id, []) if self.sent_ms.pop((node_id, mail.mail_id)) > since_ms]

    # -- logs

    def barrier(self, node_id: int, epoch: int, number: int, after: int, write_no: int) -> bool:
        row = self.rows.get(node_id)
        if row is None or row.epoch != epoch or not after <= row.barrier < number or row.write_no < write_no:
            return False
        self.rows[node_id] = row._replace(barrier=number)
        return True

    def commit(
        self,
        node_id: int,
        epoch: int,
        write_no: int,
        known: int,
        changes: Changes,
        lease_ms: int,
        after: int | None = None,
        barrier: int = 0,
    ) -> bool:
        own, after = self.rows.get(node_id), write_no - 1 if after is None else after
        if own is None or (own.epoch, own.write_no) != (epoch, after) or own.needs > known or own.barrier < barrier:
            return False
        self.rows[node_id] = own._replace(write_no=write_no, remaining_ms=self._world.ms + lease_ms)
        for log in changes.new_logs:
            if log.log_no in self.logs:
                raise AssertionError(f"log {log.log_no} is there")
            self.logs[log.log_no] = log
        for segment in changes.new_segments:
            if segment.segment_no in self.segments_by_no:
                raise AssertionError(f"segment {segment.segment_no} is there")
            self.segments_by_no[segment.segment_no] = segment
        for batch in changes.batches:
            key = batch.segment_no, batch.base_offset
            if key in self.rows_of:
                raise AssertionError(f"a row at {key} is there")
            self.rows_of[key] = batch
        for log_no, start_offset in changes.starts.items():
            if log_no in self.logs:
                self.logs[log_no] = self.logs[log_no]._replace(start_offset=start_offset)
        for state, numbers in ((LIVE, changes.live), (DEAD, changes.dead)):
            for number in numbers:
                if number in self.segments_by_no:
                    self.segments_by_no[number] = self.segments_by_no[number]._replace(state=state)
        for log_no in changes.dropped:
            self.logs.pop(log_no, None)
            self.checkpoints.pop(log_no, None)
        self._note(changes)
        return True

    def _note(self, changes: Changes) -> None:
        """Store the facts of segments, and the checkpoints of logs."""
        for log_no, clean_offset in changes.clean.items():
            if log_no in self.logs:
                self.logs[log_no] = self.logs[log_no]._replace(clean_offset=clean_offset)
        for facts in changes.facts:
            if facts.segment_no in self.segments_by_no:
                self.segments_by_no[facts.segment_no] = self.segments_by_no[facts.segment_no]._replace(
                    size=facts.size,
                    first_timestamp=facts.first_timestamp,
                    max_timestamp=facts.max_timestamp,
                    max_timestamp_offset=facts.max_timestamp_offset,
                    aborted_bytes=len(facts.aborted),
                )
                self.aborted[facts.segment_no] = facts.aborted
        for checkpoint in changes.checkpoints:
            if checkpoint.log_no in self.logs:
                self.checkpoints[checkpoint.log_no] = checkpoint

    def purge(self, segment_no: int) -> bool:
        segment = self.segments_by_no.get(segment_no)
        if segment is None or segment.state != DEAD:
            return True
        keys = sorted(key for key in self.rows_of if key[0] == segment_no)
        for key in keys[:PURGED_ROWS]:
            del self.rows_of[key]
        if len(keys) <= PURGED_ROWS:
            del self.segments_by_no[segment_no]
            self.aborted.pop(segment_no, None)
        return len(keys) <= PURGED_ROWS

    def log_of(self, topic_id: bytes, partition: int) -> LogRow | None:
        rows = [row for row in self.logs.values() if (row.topic_id, row.partition) == (topic_id, partition)]
        if len(rows) > 1:
            raise AssertionError(f"a partition has two logs: {rows}")
        return rows[0] if rows else None

    def ends(self) -> list[tuple[str, int, int, int]]:
        found = []
        for log in self.logs.values():
            live = [row for row in self.segments(log.log_no) if row.state == LIVE]
            if live:
                ends = [row.next_offset for (number, _), row in self.rows_of.items() if number == live[-1].segment_no]
                found.append((log.topic, log.partition, log.start_offset, max(ends, default=live[-1].base_offset)))
        return found

    def segments(self, log_no: int) -> list[SegmentRow]:
        found = [row for row in self.segments_by_no.values() if row.log_no == log_no]
        return sorted(found, key=lambda row: (row.base_offset, row.segment_no))

    def aborted_of(self, log_no: int, since: int) -> list[tuple[int, bytes]]:
        live = [row for row in self.segments(log_no) if row.state == LIVE and row.base_offset >= since]
        found = [(row.base_offset, self.aborted[row.segment_no]) for row in live if row.aborted_bytes]
        return found[:FETCHED_ROWS]

    def batches(self, segment_no: int, since: int) -> list[BatchRow]:
        rows = [row for key, row in sorted(self.rows_of.items()) if key[0] == segment_no and key[1] >= since]
        return rows[:FETCHED_ROWS]
