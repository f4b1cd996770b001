"""The tables, version by version, as data. Plain SQL: no extensions, no triggers, no advisory locks."""

from __future__ import annotations

from typing import Final, NamedTuple


class Migration(NamedTuple):
    """What leads from the version before to this one."""

    version: int
    about: str
    statements: tuple[str, ...]


VERSIONS_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS muster_schema ("
    "version integer PRIMARY KEY, about text NOT NULL, applied_at timestamptz NOT NULL)"
)

MIGRATIONS: Final = (
    Migration(
        1,
        "clusters, the office of each, and its logs",
        (
            "CREATE TABLE muster_clusters ("
            "cluster_no integer PRIMARY KEY, "
            "name text NOT NULL UNIQUE, "
            "cluster_id text NOT NULL, "
            "directory_id text NOT NULL, "
            "created_at timestamptz NOT NULL)",
            # one row that every turn changes: its old versions are found and reused on its own page
            "CREATE TABLE muster_offices ("
            "cluster_no integer PRIMARY KEY, "
            "epoch bigint NOT NULL, "
            "turn bigint NOT NULL, "
            "holder text NOT NULL, "
            "address text NOT NULL, "
            "expires_at timestamptz NOT NULL)",
            "CREATE TABLE muster_nodes ("
            "cluster_no integer NOT NULL, "
            "holder text NOT NULL, "
            "address text NOT NULL, "
            "seen_at timestamptz NOT NULL, "
            "PRIMARY KEY (cluster_no, holder))",
            "CREATE TABLE muster_logs ("
            "cluster_no integer NOT NULL, "
            "log_no bigint NOT NULL, "
            "topic text NOT NULL, "
            "partition integer NOT NULL, "
            "topic_id bytea NOT NULL, "
            "start_offset bigint NOT NULL, "
            "PRIMARY KEY (cluster_no, log_no))",
            "CREATE TABLE muster_segments ("
            "cluster_no integer NOT NULL, "
            "segment_no bigint NOT NULL, "
            "log_no bigint NOT NULL, "
            "base_offset bigint NOT NULL, "
            "state smallint NOT NULL, "
            "PRIMARY KEY (cluster_no, segment_no))",
            "CREATE TABLE muster_batches ("
            "cluster_no integer NOT NULL, "
            "segment_no bigint NOT NULL, "
            "base_offset bigint NOT NULL, "
            "next_offset bigint NOT NULL, "
            "epoch bigint NOT NULL, "
            "data bytea NOT NULL, "
            "PRIMARY KEY (cluster_no, segment_no, base_offset))",
        ),
    ),
)
NEWEST: Final = MIGRATIONS[-1].version


def missing(version: int) -> tuple[Migration, ...]:
    """What leads from a version to the newest one."""
    return tuple(migration for migration in MIGRATIONS if migration.version > version)
