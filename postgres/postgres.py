"""The `store.Store` in PostgreSQL: each request as its statements. `postgres_connection` executes the statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from muster.postgres import statements as sql
from muster.postgres import store
from muster.postgres.postgres_connection import PostgresConnection


class PostgresStore(PostgresConnection):
    """The store of one cluster in one database."""

    async def identity(self) -> store.Identity:
        async def ask(_: Any) -> store.Identity:
            return self._identity

        return await self._ask(ask)

    # -- registrations

    async def register_node(
        self, holder: str, address: str, node_id: int | None, lease_ms: int
    ) -> store.NodeRegistration | None:
        async def ask(connection: Any) -> store.NodeRegistration | None:
            no = self._cluster_no
            await connection.execute(sql.OLD_MAIL, no)
            chosen = await connection.fetchval(sql.CHOOSE_NODE_ID, no, holder) if node_id is None else node_id
            # the number is drawn in a statement of its own: an unused number does no harm
            epoch = await connection.fetchval(sql.NEW_EPOCH, no)
            row = await connection.fetchrow(sql.REGISTER, no, chosen, epoch, holder, address, lease_ms)
            return None if row is None else store.NodeRegistration(*row)

        return await self._ask(ask)

    async def unregister_node(self, node_id: int, epoch: int) -> None:
        await self._rows(sql.UNREGISTER, node_id, epoch)

    async def registrations(self) -> Sequence[store.NodeRegistration]:
        return [store.NodeRegistration(*row) for row in await self._rows(sql.REGISTRATIONS)]

    # -- database writes

    async def commit(
        self,
        node_id: int,
        epoch: int,
        write_no: int,
        known: int,
        changes: store.Changes,
        lease_ms: int,
        *,
        after: int | None = None,
        barrier: int = 0,
    ) -> bool:
        """See `Store`. Changes that only append are one statement."""
        hold = (node_id, epoch, write_no, known, lease_ms, write_no - 1 if after is None else after, barrier)
        if changes.only_appends:
            return bool(await self._value(sql.APPEND, *hold, *_columns(changes.batches, 4)))

        async def ask(connection: Any) -> bool:
            await self._prepare(connection, sql.WRITE_STATEMENTS)
            async with connection.transaction():
                if await self._prepared[sql.EXTEND_LEASE].fetchval(self._cluster_no, *hold) is None:
                    return False
                await self._change(epoch, changes)
                return True

        return await self._ask(ask)

    async def barrier(self, node_id: int, epoch: int, number: int, *, after: int, write_no: int) -> bool:
        return await self._value(sql.BARRIER, node_id, epoch, number, after, write_no) is not None

    async def _change(self, epoch: int, changes: store.Changes) -> None:
        no = self._cluster_no

        async def run(statement: str, *values: Any) -> None:
            await self._prepared[statement].fetch(no, *values)

        if changes.new_logs:
            await run(sql.NEW_LOGS, *_columns(changes.new_logs, 5))
        if changes.new_segments:
            await run(sql.NEW_SEGMENTS, *_columns(changes.new_segments, 4))
        if changes.batches:
            await run(sql.NEW_BATCHES, epoch, *_columns(changes.batches, 4))
        if changes.starts:
            await run(sql.STARTS, list(changes.starts), list(changes.starts.values()))
        if changes.live:
            await run(sql.STATE, changes.live, store.LIVE)
        if changes.dead:
            await run(sql.STATE, changes.dead, store.DEAD)
        if changes.dropped:
            await run(sql.DROP, changes.dropped)
        if changes.clean:
            await run(sql.CLEAN, list(changes.clean), list(changes.clean.values()))
        if changes.facts:
            await run(sql.FACTS, *_columns(changes.facts, 6))
        if changes.checkpoints:
            await run(sql.CHECKPOINTS, *_columns(changes.checkpoints, 4))

    async def purge(self, segment_no: int) -> bool:
        """See `Store`. A statement that runs late finds the segment dead, removed, or under another number."""

        async def ask(connection: Any) -> bool:
            no = self._cluster_no
            await connection.execute(sql.PURGE, no, segment_no)
            await connection.execute(sql.PURGE_SEGMENT, no, segment_no)
            return not await connection.fetchval(sql.IS_LEFT, no, segment_no)

        return await self._ask(ask)

    # -- the metadata log

    async def metadata(self, since: int) -> Sequence[store.MetadataRow]:
        return [store.MetadataRow(*row) for row in await self._rows(sql.METADATA, since)]

    async def write_metadata(
        self, row: store.MetadataRow, needing: Sequence[int] = (), dead: Mapping[int, int] | None = None
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

    async def snapshot(self) -> store.Snapshot:
        return store.Snapshot(*await self._row(sql.SNAPSHOT))

    async def snapshot_part(self, number: int, part: int) -> bytes | None:
        found: bytes | None = await self._value(sql.SNAPSHOT_PART, number, part)
        return found

    async def begin_snapshot(self) -> int:
        return int(await self._value(sql.NEW_EPOCH))

    async def put_snapshot_part(self, node_id: int, epoch: int, number: int, part: int, data: bytes) -> bool:
        """See `Store`. A part that was put before is the same."""
        return bool(await self._value(sql.PUT_SNAPSHOT_PART, node_id, epoch, number, part, data))

    async def commit_snapshot(self, node_id: int, epoch: int, snapshot: store.Snapshot) -> bool:
        return await self._value(sql.COMMIT_SNAPSHOT, node_id, epoch, *snapshot) is not None

    async def shorten_metadata(self, kept_ms: int) -> bool:
        return bool(await self._value(sql.SHORTEN, kept_ms))

    # -- messages between nodes

    async def send(self, to: Sequence[tuple[int, store.Mail]]) -> None:
        async def ask(connection: Any) -> None:
            self._owed |= {f"muster_{self._cluster_no}_{node_id}": None for node_id, _ in to}
            rows = [(node_id, *mail) for node_id, mail in to]
            await connection.execute(sql.SEND, self._cluster_no, *_columns(rows, 5))
            await self._hint(connection)

        await self._ask(ask)

    async def mail(self, node_id: int) -> Sequence[store.Mail]:
        rows = await self._rows(sql.MAIL, node_id)
        return [store.Mail(*row[:4]) for row in sorted(rows, key=lambda row: row["sent_at"]) if row["counts"]]

    # -- contents of the logs

    async def logs(self) -> Sequence[store.LogRow]:
        return [store.LogRow(*row) for row in await self._rows(f"{sql.LOGS} ORDER BY log_no")]

    async def log(self, topic_id: bytes, partition: int) -> store.LogRow | None:
        row = await self._row(f"{sql.LOGS} AND topic_id = $2 AND partition = $3", topic_id, partition)
        return None if row is None else store.LogRow(*row)

    async def ends(self) -> Sequence[tuple[str, int, int, int]]:
        return [tuple(row) for row in await self._rows(sql.ENDS)]

    async def segments(self, log_no: int) -> Sequence[store.SegmentRow]:
        return [store.SegmentRow(*row) for row in await self._rows(sql.SEGMENTS, log_no)]

    async def checkpoint(self, log_no: int) -> store.Checkpoint | None:
        row = await self._row(sql.CHECKPOINT, log_no)
        return None if row is None else store.Checkpoint(*row)

    async def aborted(self, log_no: int, since: int) -> Sequence[tuple[int, bytes]]:
        return [tuple(row) for row in await self._rows(sql.ABORTED, log_no, since)]

    async def batches(self, segment_no: int, since: int) -> Sequence[store.BatchRow]:
        return [store.BatchRow(*row) for row in await self._rows(sql.BATCHES, segment_no, since)]


def _columns(rows: Sequence[tuple[Any, ...]], count: int) -> list[list[Any]]:
    """The first `count` columns of rows, as statements take them."""
    return [[row[place] for row in rows] for place in range(count)]
