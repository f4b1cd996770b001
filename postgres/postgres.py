"""The `store.Store` in PostgreSQL: each request as its statements. `postgres_connection` has how they are executed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from muster.postgres import statements as sql
from muster.postgres.postgres_connection import PostgresConnection
from muster.postgres.store import (
    DEAD,
    LIVE,
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


class PostgresStore(PostgresConnection):
    """The store of one cluster in one database."""

    async def identity(self) -> Identity:
        """The ids of the cluster."""

        async def ask(_: Any) -> Identity:
            return self._identity

        return await self._ask(ask)

    # -- registrations

    async def register_node(
        self, holder: str, address: str, node_id: int | None, lease_ms: int
    ) -> NodeRegistration | None:

        async def ask(connection: Any) -> NodeRegistration | None:
            no = self._cluster_no
            await connection.execute(sql.OLD_MAIL, no)
            chosen = await connection.fetchval(sql.CHOOSE_NODE_ID, no, holder) if node_id is None else node_id
            # drawn in a statement of its own: a number that is not used does no harm
            epoch = await connection.fetchval(sql.NEW_EPOCH, no)
            row = await connection.fetchrow(sql.REGISTER, no, chosen, epoch, holder, address, lease_ms)
            return None if row is None else NodeRegistration(*row)

        return await self._ask(ask)

    async def unregister_node(self, node_id: int, epoch: int) -> None:

        async def ask(connection: Any) -> None:
            await connection.execute(
                "UPDATE muster_seats SET expires_at = clock_timestamp() "
                "WHERE cluster_no = $1 AND node_id = $2 AND epoch = $3",
                self._cluster_no, node_id, epoch,
            )  # fmt: skip

        await self._ask(ask)

    async def registrations(self) -> Sequence[NodeRegistration]:
        """All registrations, by node id."""

        async def ask(connection: Any) -> Sequence[NodeRegistration]:
            rows = await connection.fetch(
                f"SELECT {sql.REGISTRATION} FROM muster_seats WHERE cluster_no = $1 ORDER BY node_id", self._cluster_no
            )
            return [NodeRegistration(*row) for row in rows]

        return await self._ask(ask)

    # -- database writes

    async def commit(
        self,
        node_id: int,
        epoch: int,
        write_no: int,
        known: int,
        changes: Changes,
        lease_ms: int,
        *,
        after: int | None = None,
        barrier: int = 0,
    ) -> bool:
        """See `Store`. Changes that only append are one statement."""
        hold = (node_id, epoch, write_no, known, lease_ms, write_no - 1 if after is None else after, barrier)

        async def append(connection: Any) -> bool:
            found = await connection.fetchval(sql.APPEND, self._cluster_no, *hold, *_columns(changes.batches))
            return bool(found)

        async def all_of_it(connection: Any) -> bool:
            await self._prepare(connection, sql.WRITE_STATEMENTS)
            async with connection.transaction():
                if await self._prepared[sql.EXTEND_LEASE].fetchval(self._cluster_no, *hold) is None:
                    return False
                await self._change(epoch, changes)
                return True

        return await self._ask(append if changes.only_appends else all_of_it)

    async def barrier(self, node_id: int, epoch: int, number: int, *, after: int, write_no: int) -> bool:

        async def ask(connection: Any) -> bool:
            values = self._cluster_no, node_id, epoch, number, after, write_no
            return await connection.fetchval(sql.BARRIER, *values) is not None

        return await self._ask(ask)

    async def _change(self, epoch: int, changes: Changes) -> None:
        no = self._cluster_no

        async def run(statement: str, *values: Any) -> None:
            await self._prepared[statement].fetch(no, *values)

        if changes.new_logs:
            await run(sql.NEW_LOGS, *map(list, zip(*(row[:5] for row in changes.new_logs), strict=True)))
        if changes.new_segments:
            await run(sql.NEW_SEGMENTS, *map(list, zip(*(row[:4] for row in changes.new_segments), strict=True)))
        if changes.batches:
            await run(sql.NEW_BATCHES, epoch, *_columns(changes.batches))
        if changes.starts:
            await run(sql.STARTS, list(changes.starts), list(changes.starts.values()))
        if changes.live:
            await run(sql.STATE, changes.live, LIVE)
        if changes.dead:
            await run(sql.STATE, changes.dead, DEAD)
        if changes.dropped:
            await run(sql.DROP, changes.dropped)
        if changes.clean:
            await run(sql.CLEAN, list(changes.clean), list(changes.clean.values()))
        if changes.facts:
            await run(sql.FACTS, *map(list, zip(*changes.facts, strict=True)))
        if changes.checkpoints:
            await run(sql.CHECKPOINTS, *map(list, zip(*changes.checkpoints, strict=True)))

    async def purge(self, segment_no: int) -> bool:
        """See `Store`. A statement that runs late finds the segment dead, removed, or under another number."""

        async def ask(connection: Any) -> bool:
            no = self._cluster_no
            await connection.execute(sql.PURGE, no, segment_no)
            await connection.execute(sql.PURGE_SEGMENT, no, segment_no)
            left = await connection.fetchval(
                f"SELECT count(*) FROM muster_segments WHERE cluster_no = $1 AND segment_no = $2 AND state = {DEAD}",
                no, segment_no,
            )  # fmt: skip
            return not left

        return await self._ask(ask)

    # -- the metadata log

    async def metadata(self, since: int) -> Sequence[MetadataRow]:

        async def ask(connection: Any) -> Sequence[MetadataRow]:
            rows = await connection.fetch(
                sql.some(
                    "muster_metadata", "base_offset, next_offset, writer", "cluster_no = $1 AND base_offset >= $2"
                ),
                self._cluster_no, since,
            )  # fmt: skip
            return [MetadataRow(*row) for row in rows]

        return await self._ask(ask)

    async def write_metadata(
        self, row: MetadataRow, needing: Sequence[int] = (), dead: Mapping[int, int] | None = None
    ) -> bool:
        """See `Store`. A row that moves no leader is one statement."""

        async def write(connection: Any) -> bool:
            everybody = f"muster_{self._cluster_no}"
            self._owed[everybody] = None
            is_done = await connection.fetchval(sql.WRITE_METADATA, self._cluster_no, *row) is not None
            if is_done:
                await self._hint(connection)
            else:
                self._owed.pop(everybody, None)
            return is_done

        async def move(connection: Any) -> bool:
            await self._prepare(connection, sql.METADATA_STATEMENTS)
            no, prepared = self._cluster_no, self._prepared
            transaction = connection.transaction()
            await transaction.start()
            is_done = await prepared[sql.WRITE_METADATA].fetchval(no, *row) is not None
            for node_id, epoch in sorted((dead or {}).items()):
                is_done = is_done and await prepared[sql.IS_DEAD].fetchval(no, node_id, epoch) is not None
            if is_done:
                await prepared[sql.NEEDING].fetch(no, list(needing), row.next_offset)
                self._owed[f"muster_{no}"] = None
                await transaction.commit()
                await self._hint(connection)
            else:
                await transaction.rollback()
            return is_done

        return await self._ask(move if needing or dead else write)

    async def snapshot(self) -> Snapshot:
        return await self._ask(self._snapshot)

    async def _snapshot(self, connection: Any) -> Snapshot:
        return Snapshot(*await connection.fetchrow(sql.SNAPSHOT, self._cluster_no))

    async def snapshot_part(self, number: int, part: int) -> bytes | None:

        async def ask(connection: Any) -> bytes | None:
            found: bytes | None = await connection.fetchval(sql.SNAPSHOT_PART, self._cluster_no, number, part)
            return found

        return await self._ask(ask)

    async def begin_snapshot(self) -> int:

        async def ask(connection: Any) -> int:
            number: int = await connection.fetchval(sql.NEW_EPOCH, self._cluster_no)
            return number

        return await self._ask(ask)

    async def put_snapshot_part(self, node_id: int, epoch: int, number: int, part: int, data: bytes) -> bool:
        """See `Store`. A part that was put before is the same."""

        async def ask(connection: Any) -> bool:
            values = self._cluster_no, node_id, epoch, number, part, data
            return bool(await connection.fetchval(sql.PUT_SNAPSHOT_PART, *values))

        return await self._ask(ask)

    async def commit_snapshot(self, node_id: int, epoch: int, snapshot: Snapshot) -> bool:

        async def ask(connection: Any) -> bool:
            values = self._cluster_no, node_id, epoch, *snapshot
            return await connection.fetchval(sql.COMMIT_SNAPSHOT, *values) is not None

        return await self._ask(ask)

    async def shorten_metadata(self, kept_ms: int) -> bool:

        async def ask(connection: Any) -> bool:
            return bool(await connection.fetchval(sql.SHORTEN, self._cluster_no, kept_ms))

        return await self._ask(ask)

    # -- mail

    async def send(self, to: Sequence[tuple[int, Mail]]) -> None:

        async def ask(connection: Any) -> None:
            columns = [
                [node_id for node_id, _ in to],
                [mail.mail_id for _, mail in to],
                [mail.sender for _, mail in to],
                [mail.kind for _, mail in to],
                [mail.data for _, mail in to],
            ]
            self._owed |= {f"muster_{self._cluster_no}_{node_id}": None for node_id, _ in to}
            await connection.execute(sql.SEND, self._cluster_no, *columns)
            await self._hint(connection)

        await self._ask(ask)

    async def mail(self, node_id: int) -> Sequence[Mail]:

        async def ask(connection: Any) -> Sequence[Mail]:
            rows = await connection.fetch(sql.MAIL, self._cluster_no, node_id)
            return [Mail(*row[:4]) for row in sorted(rows, key=lambda row: row["sent_at"]) if row["counts"]]

        return await self._ask(ask)

    # -- contents of the logs

    async def logs(self) -> Sequence[LogRow]:
        """All logs, by number."""

        async def ask(connection: Any) -> Sequence[LogRow]:
            rows = await connection.fetch(f"{sql.LOGS} ORDER BY log_no", self._cluster_no)
            return [LogRow(*row) for row in rows]

        return await self._ask(ask)

    async def log(self, topic_id: bytes, partition: int) -> LogRow | None:

        async def ask(connection: Any) -> LogRow | None:
            row = await connection.fetchrow(
                f"{sql.LOGS} AND topic_id = $2 AND partition = $3", self._cluster_no, topic_id, partition
            )
            return None if row is None else LogRow(*row)

        return await self._ask(ask)

    async def segments(self, log_no: int) -> Sequence[SegmentRow]:

        async def ask(connection: Any) -> Sequence[SegmentRow]:
            return [SegmentRow(*row) for row in await connection.fetch(sql.SEGMENTS, self._cluster_no, log_no)]

        return await self._ask(ask)

    async def checkpoint(self, log_no: int) -> Checkpoint | None:

        async def ask(connection: Any) -> Checkpoint | None:
            row = await connection.fetchrow(sql.CHECKPOINT, self._cluster_no, log_no)
            return None if row is None else Checkpoint(*row)

        return await self._ask(ask)

    async def aborted(self, log_no: int, since: int) -> Sequence[tuple[int, bytes]]:

        async def ask(connection: Any) -> Sequence[tuple[int, bytes]]:
            return [tuple(row) for row in await connection.fetch(sql.ABORTED, self._cluster_no, log_no, since)]

        return await self._ask(ask)

    async def batches(self, segment_no: int, since: int) -> Sequence[BatchRow]:

        async def ask(connection: Any) -> Sequence[BatchRow]:
            rows = await connection.fetch(
                sql.some(
                    "muster_batches",
                    "segment_no, base_offset, next_offset",
                    "cluster_no = $1 AND segment_no = $2 AND base_offset >= $3",
                ),
                self._cluster_no, segment_no, since,
            )  # fmt: skip
            return [BatchRow(*row) for row in rows]

        return await self._ask(ask)


def _columns(rows: Sequence[BatchRow]) -> tuple[list[int], list[int], list[int], list[bytes]]:
    return (
        [row.segment_no for row in rows],
        [row.base_offset for row in rows],
        [row.next_offset for row in rows],
        [row.data for row in rows],
    )
