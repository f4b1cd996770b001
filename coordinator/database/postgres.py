"""The `store.Store` in PostgreSQL, by asyncpg; the only module that knows either.

One connection, which does one thing at a time. After any failure it is dropped: what it was doing may still be done,
which the number of the turn, and the place of a row of the metadata log, make harmless.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import asyncpg

from muster.coordinator.database import schema
from muster.coordinator.database import statements as sql
from muster.coordinator.database.store import (
    DEAD,
    LIVE,
    BatchRow,
    Changes,
    Checkpoint,
    Identity,
    LogRow,
    Mail,
    MetadataRow,
    Seat,
    SegmentRow,
    Snapshot,
    StoreAway,
    StoreRefused,
)

UNKNOWN: Final = (asyncpg.FeatureNotSupportedError, asyncpg.SyntaxOrAccessError)
"""What a database says that does not know a statement."""

T = TypeVar("T")


async def connect(url: str, timeout_s: float) -> Any:
    """A connection. Raises StoreAway or StoreRefused."""
    try:
        return await asyncpg.connect(url, timeout=timeout_s, command_timeout=timeout_s)
    except (
        asyncpg.InvalidAuthorizationSpecificationError,
        asyncpg.InvalidCatalogNameError,
        asyncpg.ClientConfigurationError,
        ValueError,
    ) as error:
        raise StoreRefused(f"the database refuses: {error}") from error
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        raise StoreAway(f"{error or type(error).__name__}") from error


def refusal(error: asyncpg.PostgresError) -> StoreRefused | None:
    """What no second try mends; None for all that may be over soon."""
    if isinstance(error, (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError)):
        return StoreRefused(
            "the database has no tables of Muster's, or those of another version: run `muster cluster init URL`, "
            "or `muster cluster upgrade URL`"
        )
    if isinstance(error, asyncpg.InsufficientPrivilegeError):
        return StoreRefused(f"the user of the database may not do what is needed: {error}")
    return None


class PostgresStore:
    """One cluster in one database."""

    def __init__(self, url: str, name: str, *, timeout_ms: int) -> None:
        """`name`: of the cluster; `timeout_ms`: how long one question may take."""
        self._url = url
        self._name = name
        self._timeout_s = timeout_ms / 1000
        self._connection: Any = None
        self._prepared: dict[str, Any] = {}
        self._is_listening = False
        self._heard: list[tuple[str, Callable[..., object]]] = []
        self._cluster_no = 0
        self._identity = Identity("", "")
        self._one_at_a_time = asyncio.Lock()
        self._hinted: tuple[int, Callable[[], object]] | None = None
        self._can_hint = True
        """Whether the database knows NOTIFY, which others that speak its protocol may not."""
        self._hears = False
        """Whether a hint was heard on this connection. One that takes LISTEN may do nothing about it."""
        self._owed: dict[str, None] = {}
        """Channels of hints that were not given yet, at what was written, or may have been."""

    async def close(self) -> None:
        """Hang up."""
        connection, self._connection = self._connection, None
        self._prepared = {}
        self._hears = False
        if connection is not None:
            connection.terminate()

    # -- hints

    def when_hinted(self, node_id: int, wake: Callable[[], object]) -> None:
        """See `Store`. Heard by LISTEN, said by NOTIFY."""
        self._hinted = node_id, wake
        self._is_listening = self._hears = False

    @property
    def hears(self) -> bool:
        """See `Store`."""
        return self._hears

    async def _listen(self, connection: Any) -> None:
        """Hear the hints of others, on this connection; the first one is one's own, and is for all that was written
        before this one listened.
        """
        self._is_listening = True
        if self._hinted is None or not self._can_hint:
            return
        node_id, wake = self._hinted

        def heard(*_: Any) -> None:
            self._hears = self._connection is connection
            wake()

        own = f"muster_{self._cluster_no}_{node_id}"
        try:
            while self._heard:
                await connection.remove_listener(*self._heard.pop())
            for channel in (f"muster_{self._cluster_no}", own):
                self._heard.append((channel, heard))
                await connection.add_listener(*self._heard[-1])
        except UNKNOWN:
            self._can_hint = False
        self._owed[own] = None

    async def _hint(self, connection: Any) -> None:
        """Tell others that there is something; those who do not hear it look by themselves."""
        channels, self._owed = self._owed, {}
        if channels and self._can_hint:
            try:
                await connection.execute("SELECT pg_notify(c, '') FROM unnest($1::text[]) AS c", list(channels))
            except UNKNOWN:
                self._can_hint = False
            except BaseException:
                self._owed |= channels
                raise

    # -- asking

    async def _open(self) -> Any:
        if self._connection is None:
            connection = await connect(self._url, self._timeout_s)
            try:
                # or else a node that stops in the middle of a turn, or is cut off there, would keep the row of its
                # seat locked, and nobody could take anything from it; and a statement that nobody waits for any more
                # would wait for that row, and be done in the end
                for limit in ("idle_in_transaction_session_timeout", "statement_timeout", "lock_timeout"):
                    await connection.execute(f"SET {limit} = {int(self._timeout_s * 1000)}")
                await self._look_up(connection)
            except BaseException:
                connection.terminate()
                raise
            self._connection = connection
            self._is_listening, self._heard = False, []
        if not self._is_listening:
            await self._listen(self._connection)
        await self._hint(self._connection)
        return self._connection

    async def _look_up(self, connection: Any) -> None:
        """Which cluster it is, and whether the tables are those that are known here."""
        version = await connection.fetchval("SELECT max(version) FROM muster_schema")
        if version != schema.NEWEST:
            what = "`muster cluster upgrade URL`" if (version or 0) < schema.NEWEST else "a newer Muster"
            raise StoreRefused(f"the tables are of version {version}, this Muster needs {schema.NEWEST}: use {what}")
        row = await connection.fetchrow(
            "SELECT cluster_no, cluster_id, directory_id FROM muster_clusters WHERE name = $1", self._name
        )
        if row is None:
            raise StoreRefused(
                f"there is no cluster {self._name!r} in the database: run `muster cluster init URL --name {self._name}`"
            )
        self._cluster_no = row["cluster_no"]
        self._identity = Identity(row["cluster_id"], row["directory_id"])

    async def _ask(self, question: Callable[[Any], Awaitable[T]]) -> T:
        async with self._one_at_a_time:
            return await self._ask_now(question)

    async def _ask_now(self, question: Callable[[Any], Awaitable[T]]) -> T:
        try:
            return await question(await self._open())
        except asyncpg.PostgresError as error:
            await self.close()
            raise refusal(error) or StoreAway(f"{type(error).__name__}: {error}") from error
        except (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
            # the last of them: the database has said that it hangs up, and not yet done so
            await self.close()
            raise StoreAway(str(error) or type(error).__name__) from error
        except BaseException:
            # cancelled, or a fault: nobody knows what the connection is at
            await self.close()
            raise

    async def identity(self) -> Identity:
        """Of the cluster."""

        async def ask(_: Any) -> Identity:
            return self._identity

        return await self._ask(ask)

    # -- seats

    async def take_seat(self, holder: str, address: str, node_id: int | None, lease_ms: int) -> Seat | None:
        """See `Store`."""

        async def ask(connection: Any) -> Seat | None:
            no = self._cluster_no
            await connection.execute(sql.OLD_MAIL, no)
            chosen = await connection.fetchval(sql.CHOOSE, no, holder) if node_id is None else node_id
            # drawn by itself: a number that is not used does no harm
            epoch = await connection.fetchval(sql.TERM, no)
            row = await connection.fetchrow(sql.SIT, no, chosen, epoch, holder, address, lease_ms)
            return None if row is None else Seat(*row)

        return await self._ask(ask)

    async def leave_seat(self, node_id: int, epoch: int) -> None:
        """See `Store`."""

        async def ask(connection: Any) -> None:
            await connection.execute(
                "UPDATE muster_seats SET expires_at = clock_timestamp() "
                "WHERE cluster_no = $1 AND node_id = $2 AND epoch = $3",
                self._cluster_no, node_id, epoch,
            )  # fmt: skip

        await self._ask(ask)

    async def seats(self) -> Sequence[Seat]:
        """All seats, by id."""

        async def ask(connection: Any) -> Sequence[Seat]:
            rows = await connection.fetch(
                f"SELECT {sql.SEAT} FROM muster_seats WHERE cluster_no = $1 ORDER BY node_id", self._cluster_no
            )
            return [Seat(*row) for row in rows]

        return await self._ask(ask)

    # -- turns

    async def commit(self, node_id: int, epoch: int, turn: int, known: int, changes: Changes, lease_ms: int) -> bool:
        """See `Store`. What only appends is one statement."""
        hold = (node_id, epoch, turn, known, lease_ms)

        async def append(connection: Any) -> bool:
            found = await connection.fetchval(sql.APPEND, self._cluster_no, *hold, *_columns(changes.batches))
            return bool(found)

        async def all_of_it(connection: Any) -> bool:
            await self._prepare(connection, sql.OF_A_TURN)
            async with connection.transaction():
                if await self._prepared[sql.HOLD].fetchval(self._cluster_no, *hold) is None:
                    return False
                await self._change(epoch, changes)
                return True

        return await self._ask(append if changes.only_appends else all_of_it)

    async def _prepare(self, connection: Any, statements: Sequence[str]) -> None:
        """Have the database know the statements of a transaction before it begins. Between the parts of a statement
        that it does not know yet a session is at work for the database, and not idle: if the node stopped there,
        nothing would end it.
        """
        for statement in statements:
            if statement not in self._prepared:
                self._prepared[statement] = await connection.prepare(statement)

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
        """See `Store`. A statement that nobody waits for any more finds the number dead, gone, or another one's."""

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
        """See `Store`."""

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
        """See `Store`. What moves nothing is one statement."""

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
            await self._prepare(connection, sql.OF_METADATA)
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
        """See `Store`."""
        return await self._ask(self._snapshot)

    async def _snapshot(self, connection: Any) -> Snapshot:
        return Snapshot(*await connection.fetchrow(sql.SNAPSHOT, self._cluster_no))

    async def snapshot_part(self, number: int, part: int) -> bytes | None:
        """See `Store`."""

        async def ask(connection: Any) -> bytes | None:
            found: bytes | None = await connection.fetchval(sql.SNAPSHOT_PART, self._cluster_no, number, part)
            return found

        return await self._ask(ask)

    async def begin_snapshot(self) -> int:
        """See `Store`."""

        async def ask(connection: Any) -> int:
            number: int = await connection.fetchval(sql.TERM, self._cluster_no)
            return number

        return await self._ask(ask)

    async def put_snapshot_part(self, node_id: int, epoch: int, number: int, part: int, data: bytes) -> bool:
        """See `Store`. A part that was put before is the same."""

        async def ask(connection: Any) -> bool:
            values = self._cluster_no, node_id, epoch, number, part, data
            return bool(await connection.fetchval(sql.PUT_SNAPSHOT_PART, *values))

        return await self._ask(ask)

    async def commit_snapshot(self, node_id: int, epoch: int, snapshot: Snapshot) -> bool:
        """See `Store`."""

        async def ask(connection: Any) -> bool:
            values = self._cluster_no, node_id, epoch, *snapshot
            return await connection.fetchval(sql.COMMIT_SNAPSHOT, *values) is not None

        return await self._ask(ask)

    async def shorten_metadata(self, kept_ms: int) -> bool:
        """See `Store`."""

        async def ask(connection: Any) -> bool:
            return bool(await connection.fetchval(sql.SHORTEN, self._cluster_no, kept_ms))

        return await self._ask(ask)

    # -- mail

    async def send(self, to: Sequence[tuple[int, Mail]]) -> None:
        """See `Store`."""

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
        """See `Store`."""

        async def ask(connection: Any) -> Sequence[Mail]:
            rows = await connection.fetch(sql.MAIL, self._cluster_no, node_id)
            return [Mail(*row[:4]) for row in sorted(rows, key=lambda row: row["sent_at"]) if row["counts"]]

        return await self._ask(ask)

    # -- what there is

    async def logs(self) -> Sequence[LogRow]:
        """All logs, by number."""

        async def ask(connection: Any) -> Sequence[LogRow]:
            rows = await connection.fetch(f"{sql.LOGS} ORDER BY log_no", self._cluster_no)
            return [LogRow(*row) for row in rows]

        return await self._ask(ask)

    async def log(self, topic_id: bytes, partition: int) -> LogRow | None:
        """See `Store`."""

        async def ask(connection: Any) -> LogRow | None:
            row = await connection.fetchrow(
                f"{sql.LOGS} AND topic_id = $2 AND partition = $3", self._cluster_no, topic_id, partition
            )
            return None if row is None else LogRow(*row)

        return await self._ask(ask)

    async def segments(self, log_no: int) -> Sequence[SegmentRow]:
        """See `Store`."""

        async def ask(connection: Any) -> Sequence[SegmentRow]:
            return [SegmentRow(*row) for row in await connection.fetch(sql.SEGMENTS, self._cluster_no, log_no)]

        return await self._ask(ask)

    async def checkpoint(self, log_no: int) -> Checkpoint | None:
        """See `Store`."""

        async def ask(connection: Any) -> Checkpoint | None:
            row = await connection.fetchrow(sql.CHECKPOINT, self._cluster_no, log_no)
            return None if row is None else Checkpoint(*row)

        return await self._ask(ask)

    async def aborted(self, log_no: int, since: int) -> Sequence[tuple[int, bytes]]:
        """See `Store`."""

        async def ask(connection: Any) -> Sequence[tuple[int, bytes]]:
            return [tuple(row) for row in await connection.fetch(sql.ABORTED, self._cluster_no, log_no, since)]

        return await self._ask(ask)

    async def batches(self, segment_no: int, since: int) -> Sequence[BatchRow]:
        """See `Store`."""

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
