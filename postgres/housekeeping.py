"""The work that the node with the lowest live id does from time to time for all nodes. The node removes logs of deleted
topics that no node led. The node writes snapshots of the metadata log, and removes the rows before them.

A snapshot is the content of the log up to an offset, so all nodes write the same snapshot. Two nodes that write a
snapshot do no harm. A snapshot counts when the database has all its parts. Rows before its end are removed when every
registered node must have read them.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from muster.coordinator.system.clock import Clock
from muster.coordinator.topics.metadata_snapshot import PART_RECORDS, MetadataSnapshot
from muster.postgres.database_writer import DatabaseWriter
from muster.postgres.figures import ClusterFigures
from muster.postgres.settings import ClusterSettings
from muster.postgres.shared_metadata_log import SharedMetadataLog
from muster.postgres.store import NO_SNAPSHOT, NodeRegistration, Snapshot, Store, StoreAway, StoreRefused
from muster.postgres.tasks import cancel_all

CLEAN_MS: Final = 60_000
"""How often the node looks for logs of deleted topics."""
DROPPED_AT_ONCE: Final = 100
"""The most logs that are removed at one time."""
CHECK_MS: Final = 2_000
"""How often the node checks whether a snapshot is due, or rows have to be removed."""
SHORTENED_AT_ONCE: Final = 20
"""The most statements that remove rows at one time."""
LEASES_KEPT: Final = 2
"""For how many leases rows stay. `Membership` ensures that a node has read all rows that are older than its lease."""

log = structlog.get_logger("muster.cluster")


class Housekeeping:
    """See the module. `part_records`: how many records a part of a snapshot has."""

    def __init__(
        self,
        registration: NodeRegistration,
        store: Store,
        writer: DatabaseWriter,
        shared_log: SharedMetadataLog,
        clock: Clock,
        settings: ClusterSettings,
        figures: ClusterFigures,
    ) -> None:
        """`store`: another connection than that of the database writes."""
        self._registration = registration
        self._store = store
        self._writer = writer
        self._metadata_log = shared_log
        self._clock = clock
        self._settings = settings
        self._figures = figures
        self.part_records = PART_RECORDS
        self._clean_ms = self._check_ms = 0
        self._end_offset = shared_log.began_at
        """The end offset of the newest snapshot that this node knows."""
        self._bytes_then = 0
        """The bytes of the log that this node had read when the newest snapshot was written."""
        self._since_ms = clock.mono_ms()
        self._is_short = False
        """Whether all rows before the snapshot, and all older snapshots, are removed."""
        self._writing: asyncio.Task[None] | None = None

    async def check(self) -> None:
        """Do what is due. Raises StoreAway or StoreRefused."""
        now_ms = self._clock.mono_ms()
        if now_ms >= self._clean_ms:
            self._clean_ms = now_ms + CLEAN_MS
            await self._clean()
        if now_ms >= self._check_ms and self._writing is None:
            self._check_ms = now_ms + CHECK_MS
            await self._check_log()

    async def _clean(self) -> None:
        deleted = self._metadata_log.topics.state.deleted
        deleted_logs = [row for row in await self._store.logs() if row.topic_id in deleted] if deleted else []
        for row in deleted_logs[:DROPPED_AT_ONCE]:
            self._writer.pending.drop(row, await self._store.segments(row.log_no))

    # -- the metadata log

    async def _check_log(self) -> None:
        if not self._is_short or self._is_due():
            self._note_snapshot(await self._store.snapshot(), self._metadata_log.bytes_read)
        for _ in range(0 if self._is_short else SHORTENED_AT_ONCE):
            self._is_short = await self._store.shorten_metadata(LEASES_KEPT * self._settings.broker_session_timeout_ms)
            if self._is_short:
                break
        if self._is_short and self._is_due():
            self._writing = asyncio.get_running_loop().create_task(self._write())

    def _note_snapshot(self, found: Snapshot, bytes_then: int) -> None:
        if found == NO_SNAPSHOT:
            self._is_short = True
        elif found.end_offset > self._end_offset:
            self._end_offset, self._bytes_then, self._since_ms = found.end_offset, bytes_then, self._clock.mono_ms()
            self._is_short = False

    def _is_due(self) -> bool:
        topics, settings = self._metadata_log.topics, self._settings
        if topics.state.version <= self._end_offset or topics.metadata_log.unknown:
            return False  # this node cannot write records of unknown types: a node of a newer version does
        if self._metadata_log.bytes_read - self._bytes_then >= settings.metadata_log_max_record_bytes_between_snapshots:
            return True
        every_ms = settings.metadata_log_max_snapshot_interval_ms
        return every_ms > 0 and self._clock.mono_ms() - self._since_ms >= every_ms

    async def _write(self) -> None:
        """Write a snapshot of the present state, in parts. After a failure a later check tries again."""
        try:
            await self._write_parts()
        except (StoreAway, StoreRefused) as error:
            log.warning("no snapshot of the metadata log could be written", reason=str(error), what="it is tried again")
        # a bug: this node gives up its registration, and another node writes the snapshot
        except Exception as error:
            log.error(
                "no snapshot of the metadata log could be written, because of a bug in the server", exc_info=error
            )
            self._writer.failed(f"a snapshot of the metadata log could not be written: {error}")
        finally:
            self._writing = None

    async def _write_parts(self) -> None:
        node_id, epoch, now = self._registration.node_id, self._registration.epoch, self._clock.now()
        number = await self._store.begin_snapshot()
        snapshot = MetadataSnapshot(self._metadata_log.topics.state)
        bytes_then, count, size = self._metadata_log.bytes_read, 0, 0
        for part in snapshot.parts(now.wall_ms, self.part_records):
            if not await self._store.put_snapshot_part(node_id, epoch, number, count, part):
                return
            count, size = count + 1, size + len(part)
        whole = Snapshot(number, snapshot.end_offset, count)
        if not await self._store.commit_snapshot(node_id, epoch, whole):
            return
        self._note_snapshot(whole, bytes_then)
        self._figures.snapshots += 1
        log.info("the metadata log has a snapshot", end_offset=whole.end_offset, parts=count, bytes=size,
                 took_ms=self._clock.mono_ms() - now.mono_ms)  # fmt: skip

    async def stop(self) -> None:
        """Write no further snapshot."""
        if self._writing is not None:
            await cancel_all([self._writing])
