"""A connection to PostgreSQL by asyncpg, which does one thing at a time, and the hints that it carries.

After any failure the connection is dropped. PostgreSQL may still execute its last statement. This execution is
harmless: a database write has its number, and a row of the metadata log its offset. An answer with the warning that no
standby may have the write counts as a failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

import asyncpg

from muster.postgres import schema
from muster.postgres.store import Identity, StoreAway, StoreRefused

NOT_REPLICATED: Final = "syncrep.c"
"""The source file of PostgreSQL's warning that a transaction did not wait for the synchronous standbys. The text of the
warning is in the language of the server.
"""
UNKNOWN: Final = (asyncpg.FeatureNotSupportedError, asyncpg.SyntaxOrAccessError)
"""The errors of a database that does not know a statement."""

T = TypeVar("T")


async def connect(url: str, timeout_s: float) -> Any:
    """Open a connection. Raises StoreAway or StoreRefused."""
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
    """The error for failures that a second attempt cannot end; None for failures that may end soon."""
    if isinstance(error, (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError)):
        return StoreRefused(
            "the database has no Muster tables, or those of another version: run `muster cluster init URL`, "
            "or `muster cluster upgrade URL`"
        )
    if isinstance(error, asyncpg.InsufficientPrivilegeError):
        return StoreRefused(f"the user of the database may not do what is needed: {error}")
    return None


def when_not_replicated(connection: Any, warned: Callable[[str], object]) -> None:
    """Call `warned` with PostgreSQL's warning that it answered a write without waiting for its standbys. The warning
    arrives before the answer.
    """

    def heard(_: object, message: Any) -> None:
        if message.as_dict().get("server_source_filename") == NOT_REPLICATED:
            warned(str(message))

    connection.add_log_listener(heard)


class PostgresConnection:
    """A connection to one cluster in one database."""

    def __init__(self, url: str, name: str, *, timeout_ms: int) -> None:
        """`name`: the cluster's name; `timeout_ms`: how long one request may take."""
        self._url = url
        self._name = name
        self._timeout_s = timeout_ms / 1000
        self._connection: Any = None
        self.session = 0
        self._warning = ""
        """Why the answer to the present request does not prove durability."""
        self._prepared: dict[str, Any] = {}
        self._is_listening = False
        self._heard: list[tuple[str, Callable[..., object]]] = []
        self._cluster_no = 0
        self._identity = Identity("", "")
        self._one_at_a_time = asyncio.Lock()
        self._hinted: tuple[int, Callable[[], object]] | None = None
        self._can_hint = True
        """Whether the database knows NOTIFY. Other servers with PostgreSQL's protocol may not know NOTIFY."""
        self.hears = False
        """Whether this connection has received a hint. A server that accepts LISTEN may do nothing with it."""
        self._owed: dict[str, None] = {}
        """Channels whose hints are still to be sent, for rows that were written or may have been written."""

    async def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        self._prepared = {}
        self.hears = False
        if connection is not None:
            connection.terminate()

    def _warned(self, warning: str) -> None:
        self._warning = warning

    # -- hints

    def when_hinted(self, node_id: int, wake: Callable[[], object]) -> None:
        """See `Store`. Hints are received by LISTEN, and sent by NOTIFY."""
        self._hinted = node_id, wake
        self._is_listening = self.hears = False

    async def _listen(self, connection: Any) -> None:
        """Receive the hints of other nodes on this connection. The node sends the first hint itself. This hint stands
        for all rows that were written before the LISTEN.
        """
        self._is_listening = True
        if self._hinted is None or not self._can_hint:
            return
        node_id, wake = self._hinted

        def heard(*_: Any) -> None:
            self.hears = self._connection is connection
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
        """Send hints to other nodes. Nodes that receive no hint look by themselves."""
        channels, self._owed = self._owed, {}
        if channels and self._can_hint:
            try:
                await connection.execute("SELECT pg_notify(c, '') FROM unnest($1::text[]) AS c", list(channels))
            except UNKNOWN:
                self._can_hint = False
            except BaseException:
                self._owed |= channels
                raise

    # -- requests

    async def _open(self) -> Any:
        if self._connection is None:
            connection = await connect(self._url, self._timeout_s)
            try:
                # A node may stop, or lose its connection, in the middle of a database write. Without these settings
                # PostgreSQL would keep the row of its registration locked, so no node could take anything from it. A
                # statement that nobody waits for any more would also wait for that row, and be executed in the end.
                for limit in ("idle_in_transaction_session_timeout", "statement_timeout", "lock_timeout"):
                    await connection.execute(f"SET {limit} = {int(self._timeout_s * 1000)}")
                await self._look_up(connection)
            except BaseException:
                connection.terminate()
                raise
            when_not_replicated(connection, self._warned)
            self._connection = connection
            self.session += 1
            self._is_listening, self._heard = False, []
        if not self._is_listening:
            await self._listen(self._connection)
        await self._hint(self._connection)
        return self._connection

    async def _look_up(self, connection: Any) -> None:
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

    async def _rows(self, statement: str, *values: Any) -> list[Any]:
        """The rows that one statement about this cluster returns. The cluster's number is its first parameter."""
        return await self._ask(lambda connection: connection.fetch(statement, self._cluster_no, *values))

    async def _row(self, statement: str, *values: Any) -> Any:
        """The first row that the statement returns, or None."""
        return await self._ask(lambda connection: connection.fetchrow(statement, self._cluster_no, *values))

    async def _value(self, statement: str, *values: Any) -> Any:
        """The first value of the first row, or None."""
        return await self._ask(lambda connection: connection.fetchval(statement, self._cluster_no, *values))

    async def _ask(self, question: Callable[[Any], Awaitable[T]]) -> T:
        async with self._one_at_a_time:
            return await self._ask_now(question)

    async def _ask_now(self, question: Callable[[Any], Awaitable[T]]) -> T:
        try:
            connection = await self._open()
            self._warning = ""
            answer = await question(connection)
            if self._warning:
                await self.close()
                raise StoreAway(self._warning)
            return answer
        except asyncpg.PostgresError as error:
            await self.close()
            raise refusal(error) or StoreAway(f"{type(error).__name__}: {error}") from error
        except (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
            # The last of the messages: the database has announced that it closes the connection, and has not done so
            # yet.
            await self.close()
            raise StoreAway(str(error) or type(error).__name__) from error
        except BaseException:
            # The request was cancelled, or failed because of a bug: the state of the connection is unknown.
            await self.close()
            raise

    async def _prepare(self, connection: Any, statements: Sequence[str]) -> None:
        """Prepare the statements of a transaction before it begins. Between the parts of an unknown statement, the
        database counts a session as active, not as idle. If the node stopped there, no time-out would end the session.
        """
        for statement in statements:
            if statement not in self._prepared:
                self._prepared[statement] = await connection.prepare(statement)
