"""The `store.Store` in PostgreSQL, by asyncpg; the only module that knows either.

One connection for turns and questions; a second one, for as long as it takes, reads what a new holder of the office
needs. After any failure the connection is dropped: what it was doing may still be done, which the number of the turn
makes harmless.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

import asyncpg

from muster.coordinator.database import schema
from muster.coordinator.database.store import (
    DEAD,
    LIVE,
    BatchRow,
    Changes,
    Identity,
    LogRow,
    Office,
    SegmentRow,
    StoreAway,
    StoreRefused,
)

FETCHED_ROWS: Final = 64
"""Rows that are read at once: each has 256 KB at most, or one batch."""
PURGED_ROWS: Final = 64
"""Rows that one statement removes: 16 MB, which takes far less than a lease lasts."""
NODE_KEPT_S: Final = 60
"""A node that has not been seen for so long is forgotten."""

T = TypeVar("T")

_HOLD: Final = (
    "UPDATE muster_offices SET turn = $3, expires_at = clock_timestamp() + $4::bigint * interval '1 millisecond' "
    "WHERE cluster_no = $1 AND epoch = $2 AND turn = $3::bigint - 1 RETURNING cluster_no"
)
_APPEND: Final = (
    f"WITH office AS ({_HOLD}), put AS (INSERT INTO muster_batches "
    "(cluster_no, segment_no, base_offset, next_offset, epoch, data) "
    "SELECT office.cluster_no, b.segment_no, b.base_offset, b.next_offset, $2, b.data FROM office, "
    "unnest($5::bigint[], $6::bigint[], $7::bigint[], $8::bytea[]) "
    "AS b (segment_no, base_offset, next_offset, data)) SELECT count(*) FROM office"
)
_OFFICE: Final = (
    "SELECT epoch, turn, holder, address, "
    "(extract(epoch FROM expires_at - clock_timestamp()) * 1000)::bigint AS remaining_ms "
    "FROM muster_offices WHERE cluster_no = $1"
)
_ACQUIRE: Final = (
    "UPDATE muster_offices SET epoch = epoch + 1, turn = 0, holder = $2, address = $3, "
    "expires_at = clock_timestamp() + $4::bigint * interval '1 millisecond' "
    "WHERE cluster_no = $1 AND (expires_at <= clock_timestamp() OR holder = $2)"
)
_SEEN: Final = (
    "INSERT INTO muster_nodes (cluster_no, holder, address, seen_at) VALUES ($1, $2, $3, clock_timestamp()) "
    "ON CONFLICT (cluster_no, holder) DO UPDATE SET address = excluded.address, seen_at = excluded.seen_at"
)
_FORGET: Final = (
    f"DELETE FROM muster_nodes WHERE cluster_no = $1 AND seen_at < clock_timestamp() - interval '{NODE_KEPT_S} seconds'"
)
_PURGE: Final = (
    "DELETE FROM muster_batches WHERE cluster_no = $1 AND segment_no = $2 "
    f"AND EXISTS (SELECT 1 FROM muster_segments WHERE cluster_no = $1 AND segment_no = $2 AND state = {DEAD}) "
    "AND base_offset IN (SELECT base_offset FROM muster_batches WHERE cluster_no = $1 AND segment_no = $2 "
    f"ORDER BY base_offset LIMIT {PURGED_ROWS})"
)
_PURGE_SEGMENT: Final = (
    f"DELETE FROM muster_segments WHERE cluster_no = $1 AND segment_no = $2 AND state = {DEAD} "
    "AND NOT EXISTS (SELECT 1 FROM muster_batches WHERE cluster_no = $1 AND segment_no = $2)"
)
_NEW_LOGS: Final = (
    "INSERT INTO muster_logs (cluster_no, log_no, topic, partition, topic_id, start_offset) "
    "SELECT $1, * FROM unnest($2::bigint[], $3::text[], $4::integer[], $5::bytea[], $6::bigint[])"
)
_NEW_SEGMENTS: Final = (
    "INSERT INTO muster_segments (cluster_no, segment_no, log_no, base_offset, state) "
    "SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::smallint[])"
)
_NEW_BATCHES: Final = (
    "INSERT INTO muster_batches (cluster_no, segment_no, base_offset, next_offset, data, epoch) "
    "SELECT $1, b.*, $2 FROM unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::bytea[]) AS b"
)
_STARTS: Final = (
    "UPDATE muster_logs SET start_offset = s.start_offset "
    "FROM unnest($2::bigint[], $3::bigint[]) AS s (log_no, start_offset) "
    "WHERE muster_logs.cluster_no = $1 AND muster_logs.log_no = s.log_no"
)
_STATE: Final = "UPDATE muster_segments SET state = $3 WHERE cluster_no = $1 AND segment_no = ANY($2::bigint[])"
_DROP: Final = "DELETE FROM muster_logs WHERE cluster_no = $1 AND log_no = ANY($2::bigint[])"
_OF_A_TURN: Final = (_HOLD, _NEW_LOGS, _NEW_SEGMENTS, _NEW_BATCHES, _STARTS, _STATE, _DROP)
"""What a turn of several statements may need."""


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
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
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
        self._cluster_no = 0
        self._identity = Identity("", "")

    async def close(self) -> None:
        """Hang up."""
        connection, self._connection = self._connection, None
        self._prepared = {}
        if connection is not None:
            connection.terminate()

    # -- asking

    async def _open(self) -> Any:
        if self._connection is None:
            connection = await connect(self._url, self._timeout_s)
            try:
                # or else a node that stops in the middle of a turn, or is cut off there, would keep the row of the
                # office locked, and nobody could follow it; and a statement that nobody waits for any more would wait
                # for that row, and take it in the end
                for limit in ("idle_in_transaction_session_timeout", "statement_timeout", "lock_timeout"):
                    await connection.execute(f"SET {limit} = {int(self._timeout_s * 1000)}")
                await self._look_up(connection)
            except BaseException:
                connection.terminate()
                raise
            self._connection = connection
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
        try:
            return await question(await self._open())
        except asyncpg.PostgresError as error:
            await self.close()
            raise refusal(error) or StoreAway(f"{type(error).__name__}: {error}") from error
        except (OSError, asyncpg.InterfaceError) as error:
            await self.close()
            raise StoreAway(str(error) or type(error).__name__) from error
        except BaseException:
            # cancelled, or a fault: nobody knows what the connection is at
            await self.close()
            raise

    # -- the office

    async def identity(self) -> Identity:
        """Of the cluster."""

        async def ask(_: Any) -> Identity:
            return self._identity

        return await self._ask(ask)

    async def acquire(self, holder: str, address: str, lease_ms: int) -> Office:
        """See `Store`."""

        async def ask(connection: Any) -> Office:
            no = self._cluster_no
            await connection.execute(_ACQUIRE, no, holder, address, lease_ms)
            await connection.execute(_SEEN, no, holder, address)
            await connection.execute(_FORGET, no)
            return Office(*await connection.fetchrow(_OFFICE, no))

        return await self._ask(ask)

    async def release(self, holder: str, epoch: int) -> None:
        """See `Store`."""

        async def ask(connection: Any) -> None:
            no = self._cluster_no
            await connection.execute(
                "UPDATE muster_offices SET expires_at = clock_timestamp() "
                "WHERE cluster_no = $1 AND holder = $2 AND epoch = $3",
                no, holder, epoch,
            )  # fmt: skip
            await connection.execute("DELETE FROM muster_nodes WHERE cluster_no = $1 AND holder = $2", no, holder)

        await self._ask(ask)

    async def office(self) -> Office:
        """Who holds it."""

        async def ask(connection: Any) -> Office:
            return Office(*await connection.fetchrow(_OFFICE, self._cluster_no))

        return await self._ask(ask)

    # -- turns

    async def commit(self, epoch: int, turn: int, changes: Changes, lease_ms: int) -> bool:
        """See `Store`. What only appends is one statement."""

        async def append(connection: Any) -> bool:
            found = await connection.fetchval(
                _APPEND, self._cluster_no, epoch, turn, lease_ms, *_columns(changes.batches)
            )
            return bool(found)

        async def all_of_it(connection: Any) -> bool:
            await self._prepare(connection)
            async with connection.transaction():
                if await self._prepared[_HOLD].fetchval(self._cluster_no, epoch, turn, lease_ms) is None:
                    return False
                await self._change(epoch, changes)
                return True

        return await self._ask(append if changes.only_appends else all_of_it)

    async def _prepare(self, connection: Any) -> None:
        """Have the database know the statements of a turn before it begins. Between the parts of a statement that it
        does not know yet a session is at work for the database, and not idle: if the node stopped there, nothing would
        end it.
        """
        for statement in _OF_A_TURN:
            if statement not in self._prepared:
                self._prepared[statement] = await connection.prepare(statement)

    async def _change(self, epoch: int, changes: Changes) -> None:
        no = self._cluster_no

        async def run(statement: str, *values: Any) -> None:
            await self._prepared[statement].fetch(no, *values)

        if changes.new_logs:
            await run(_NEW_LOGS, *map(list, zip(*changes.new_logs, strict=True)))
        if changes.new_segments:
            await run(_NEW_SEGMENTS, *map(list, zip(*changes.new_segments, strict=True)))
        if changes.batches:
            await run(_NEW_BATCHES, epoch, *_columns(changes.batches))
        if changes.starts:
            await run(_STARTS, list(changes.starts), list(changes.starts.values()))
        if changes.live:
            await run(_STATE, changes.live, LIVE)
        if changes.dead:
            await run(_STATE, changes.dead, DEAD)
        if changes.dropped:
            await run(_DROP, changes.dropped)

    async def purge(self, segment_no: int) -> bool:
        """See `Store`. A statement that nobody waits for any more finds the number dead, gone, or another one's."""

        async def ask(connection: Any) -> bool:
            no = self._cluster_no
            await connection.execute(_PURGE, no, segment_no)
            await connection.execute(_PURGE_SEGMENT, no, segment_no)
            left = await connection.fetchval(
                f"SELECT count(*) FROM muster_segments WHERE cluster_no = $1 AND segment_no = $2 AND state = {DEAD}",
                no, segment_no,
            )  # fmt: skip
            return not left

        return await self._ask(ask)

    # -- what there is

    async def logs(self) -> Sequence[LogRow]:
        """All logs, by number."""

        async def ask(connection: Any) -> Sequence[LogRow]:
            rows = await connection.fetch(
                "SELECT log_no, topic, partition, topic_id, start_offset FROM muster_logs WHERE cluster_no = $1 "
                "ORDER BY log_no",
                self._cluster_no,
            )
            return [LogRow(*row) for row in rows]

        return await self._ask(ask)

    async def segments(self) -> Sequence[SegmentRow]:
        """All segments of any state, by log and base offset."""

        async def ask(connection: Any) -> Sequence[SegmentRow]:
            rows = await connection.fetch(
                "SELECT segment_no, log_no, base_offset, state FROM muster_segments WHERE cluster_no = $1 "
                "ORDER BY log_no, base_offset, segment_no",
                self._cluster_no,
            )
            return [SegmentRow(*row) for row in rows]

        return await self._ask(ask)

    async def batches(self) -> AsyncIterator[Sequence[BatchRow]]:
        """The batches of all live segments, some at a time, by segment and offset: on a connection of its own, for
        turns go on meanwhile.
        """
        await self._ask(_nothing)  # which cluster it is
        connection = await connect(self._url, self._timeout_s)
        try:
            async with connection.transaction():
                cursor = await connection.cursor(
                    "SELECT b.segment_no, b.base_offset, b.next_offset, b.data FROM muster_batches b "
                    "JOIN muster_segments s ON s.cluster_no = b.cluster_no AND s.segment_no = b.segment_no "
                    f"WHERE b.cluster_no = $1 AND s.state = {LIVE} ORDER BY b.segment_no, b.base_offset",
                    self._cluster_no,
                )
                while rows := await cursor.fetch(FETCHED_ROWS):
                    yield [BatchRow(*row) for row in rows]
        except asyncpg.PostgresError as error:
            raise refusal(error) or StoreAway(f"{type(error).__name__}: {error}") from error
        except (OSError, asyncpg.InterfaceError) as error:
            raise StoreAway(str(error) or type(error).__name__) from error
        finally:
            connection.terminate()


async def _nothing(_: Any) -> None:
    """Only be connected."""


def _columns(rows: Sequence[BatchRow]) -> tuple[list[int], list[int], list[int], list[bytes]]:
    return (
        [row.segment_no for row in rows],
        [row.base_offset for row in rows],
        [row.next_offset for row in rows],
        [row.data for row in rows],
    )
