"""`muster cluster init | upgrade | status`: the tables are made, brought to a version, and described."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, TypeVar

import asyncpg

from muster.postgres import schema
from muster.postgres.postgres_connection import connect, refusal, when_not_replicated
from muster.postgres.store import DEAD, LIVE, Identity, StoreAway, StoreRefused
from muster.postgres.url import warnings as url_warnings

TIMEOUT_S: Final = 30.0

T = TypeVar("T")


class NodeStatus(NamedTuple):
    """The status of one node."""

    node_id: int
    address: str
    epoch: int
    lease_ms: int
    """The remaining time of its lease; negative when the lease is over."""


class ClusterStatus(NamedTuple):
    """The status of one cluster."""

    name: str
    cluster_id: str
    metadata_offset: int
    """The end of the metadata log."""
    logs: int
    segments: int
    dead_segments: int
    rows: int
    bytes: int
    nodes: tuple[NodeStatus, ...]


class Status(NamedTuple):
    """The status of a database."""

    server: str
    version: int
    """The version of the tables; 0 without tables."""
    clusters: tuple[ClusterStatus, ...]
    warnings: tuple[str, ...]


async def _with(url: str, what: Callable[[Any], Awaitable[T]]) -> T:
    connection = await connect(url, TIMEOUT_S)
    warnings_heard: list[str] = []
    when_not_replicated(connection, warnings_heard.append)
    try:
        found = await what(connection)
        if warnings_heard:
            raise StoreAway(f"{warnings_heard[0]}; run the command again")
        return found
    except asyncpg.PostgresError as error:
        raise refusal(error) or StoreAway(f"{type(error).__name__}: {error}") from error
    except (OSError, asyncpg.InterfaceError) as error:
        raise StoreAway(str(error) or type(error).__name__) from error
    finally:
        await connection.close()


async def _version(connection: Any) -> int:
    """The version of the tables; 0 without tables."""
    if await connection.fetchval("SELECT to_regclass('muster_schema')") is None:
        return 0
    return await connection.fetchval("SELECT max(version) FROM muster_schema") or 0


async def _prove(connection: Any) -> None:
    """Write something: when the write is answered, the rows that were visible before are durable (`lease`)."""
    await connection.execute("UPDATE muster_schema SET about = about")


async def _migrate(connection: Any, version: int) -> list[schema.Migration]:
    if version > schema.NEWEST:
        raise StoreRefused(
            f"the tables are of version {version}, and this Muster knows them up to {schema.NEWEST}: use a newer one"
        )
    done = []
    for migration in schema.missing(version):
        async with connection.transaction():
            await connection.execute(schema.VERSIONS_TABLE)
            # if two processes do this at the same time, the second process fails here, and its statements are undone
            await connection.execute(
                "INSERT INTO muster_schema (version, about, applied_at) VALUES ($1, $2, clock_timestamp())",
                migration.version, migration.about,
            )  # fmt: skip
            for statement in migration.statements:
                await connection.execute(statement)
        done.append(migration)
    return done


async def init(url: str, name: str, identity: Identity) -> tuple[list[schema.Migration], str, bool]:
    """Make missing tables and the cluster. Returns the migrations that were done, the id of the cluster, and whether it
    is new. Raises StoreAway or StoreRefused.
    """

    async def work(connection: Any) -> tuple[list[schema.Migration], str, bool]:
        done = await _migrate(connection, await _version(connection))
        async with connection.transaction():
            made = await connection.fetchval(
                "INSERT INTO muster_clusters (cluster_no, name, cluster_id, directory_id, created_at) "
                "SELECT coalesce(max(cluster_no), 0) + 1, $1, $2, $3, clock_timestamp() FROM muster_clusters "
                "ON CONFLICT (name) DO NOTHING RETURNING cluster_no",
                name, *identity,
            )  # fmt: skip
        cluster_id = await connection.fetchval("SELECT cluster_id FROM muster_clusters WHERE name = $1", name)
        await _prove(connection)
        return done, cluster_id, made is not None

    return await _with(url, work)


async def upgrade(url: str) -> list[schema.Migration]:
    """Bring the tables to the newest version, and return the done migrations. Raises StoreAway or StoreRefused."""

    async def work(connection: Any) -> list[schema.Migration]:
        version = await _version(connection)
        if version == 0:
            raise StoreRefused("the database has no Muster tables: run `muster cluster init URL`")
        done = await _migrate(connection, version)
        await _prove(connection)
        return done

    return await _with(url, work)


async def status(url: str) -> Status:
    """The status of the database. Raises StoreAway or StoreRefused."""

    async def work(connection: Any) -> Status:
        version = await _version(connection)
        clusters = await _clusters(connection) if version == schema.NEWEST else ()
        warnings_found = (*await _warnings(connection), *url_warnings(url))
        return Status(await connection.fetchval("SHOW server_version"), version, clusters, warnings_found)

    return await _with(url, work)


async def _clusters(connection: Any) -> tuple[ClusterStatus, ...]:
    rows = await connection.fetch(
        "SELECT cluster_no, name, cluster_id, (SELECT coalesce(max(next_offset), 0) FROM muster_metadata m "
        "WHERE m.cluster_no = muster_clusters.cluster_no) AS metadata_offset FROM muster_clusters ORDER BY name"
    )
    return tuple([await _cluster(connection, row) for row in rows])


async def _cluster(connection: Any, row: Any) -> ClusterStatus:
    no = row["cluster_no"]
    logs = await connection.fetchval("SELECT count(*) FROM muster_logs WHERE cluster_no = $1", no)
    count = "SELECT count(*) FROM muster_segments WHERE cluster_no = $1 AND state = $2"
    live, dead = await connection.fetchval(count, no, LIVE), await connection.fetchval(count, no, DEAD)
    size = await connection.fetchrow(
        "SELECT count(*) AS rows, coalesce(sum(length(data)), 0)::bigint AS bytes FROM muster_batches "
        "WHERE cluster_no = $1",
        no,
    )
    nodes = await connection.fetch(
        "SELECT node_id, address, epoch, (extract(epoch FROM expires_at - clock_timestamp()) * 1000)::bigint "
        "FROM muster_seats WHERE cluster_no = $1 ORDER BY node_id",
        no,
    )
    return ClusterStatus(
        row["name"], row["cluster_id"], row["metadata_offset"], logs, live, dead, size["rows"], size["bytes"],
        tuple([NodeStatus(*one) for one in nodes]),
    )  # fmt: skip


async def _warnings(connection: Any) -> list[str]:
    rows = await connection.fetch(
        "SELECT name, setting FROM pg_settings WHERE name = ANY($1::text[])",
        ["fsync", "synchronous_commit", "synchronous_standby_names", "full_page_writes"],
    )
    return warnings({row["name"]: row["setting"] for row in rows})


def warnings(settings: dict[str, str]) -> list[str]:
    """Warnings for settings of PostgreSQL that may lose acknowledged records; none for an absent setting. Pure."""
    found = []
    if settings.get("fsync") == "off":
        found.append("fsync=off: a crash of the database's machine may lose or damage everything")
    if settings.get("full_page_writes") == "off":
        found.append("full_page_writes=off: a crash of the database's machine may damage pages")
    commit, standbys = settings.get("synchronous_commit", "on"), settings.get("synchronous_standby_names", "")
    if commit == "off":
        found.append("synchronous_commit=off: a crash of the database loses what was acknowledged in the last moments")
    elif standbys and commit in ("local", "remote_write"):
        found.append(
            f"synchronous_commit={commit}: a failover to a standby may lose what was acknowledged; set it to on"
        )
    if not standbys and "synchronous_standby_names" in settings:
        found.append(
            "synchronous_standby_names is empty: acknowledged records are on the disk of one server, and a failover to "
            "a standby may lose the newest records; fence the old primary first: a node that still reaches it "
            "acknowledges records that the new primary never gets"
        )
    return found
