"""The tables, version by version, as data. Plain SQL: no extensions, no triggers, no advisory locks."""

from __future__ import annotations

from typing import Final, NamedTuple


class Migration(NamedTuple):
    """The statements that lead from the version before to this version."""

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
            # every database write changes this one row: its old versions are found and reused on its own page
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
    Migration(
        2,
        "seats of nodes in the place of the one office, the metadata log, and mail",
        (
            # The numbers of sessions, from which the numbers of logs and segments are made. The numbers begin above all
            # existing numbers.
            "ALTER TABLE muster_clusters ADD COLUMN terms bigint NOT NULL DEFAULT 0",
            "UPDATE muster_clusters SET terms = greatest("
            "(SELECT coalesce(max(epoch), 0) FROM muster_offices o WHERE o.cluster_no = muster_clusters.cluster_no), "
            "(SELECT coalesce(max(segment_no), 0) / 16777216 + 1 FROM muster_segments s "
            "WHERE s.cluster_no = muster_clusters.cluster_no), "
            "(SELECT coalesce(max(log_no), 0) / 16777216 + 1 FROM muster_logs l "
            "WHERE l.cluster_no = muster_clusters.cluster_no))",
            "CREATE TABLE muster_seats ("
            "cluster_no integer NOT NULL, "
            "node_id integer NOT NULL, "
            "epoch bigint NOT NULL, "
            "turn bigint NOT NULL, "
            "needs bigint NOT NULL, "
            "holder text NOT NULL, "
            "address text NOT NULL, "
            "expires_at timestamptz NOT NULL, "
            "PRIMARY KEY (cluster_no, node_id))",
            "CREATE TABLE muster_metadata ("
            "cluster_no integer NOT NULL, "
            "base_offset bigint NOT NULL, "
            "next_offset bigint NOT NULL, "
            "writer text NOT NULL, "
            "data bytea NOT NULL, "
            "PRIMARY KEY (cluster_no, base_offset))",
            "CREATE UNIQUE INDEX muster_logs_of_partitions ON muster_logs (cluster_no, topic_id, partition)",
            "CREATE INDEX muster_segments_of_logs ON muster_segments (cluster_no, log_no)",
            "CREATE TABLE muster_mail ("
            "cluster_no integer NOT NULL, "
            "node_id integer NOT NULL, "
            "mail_id text NOT NULL, "
            "sender integer NOT NULL, "
            "kind smallint NOT NULL, "
            "data bytea NOT NULL, "
            "sent_at timestamptz NOT NULL, "
            "PRIMARY KEY (cluster_no, node_id, mail_id))",
            "INSERT INTO muster_metadata (cluster_no, base_offset, next_offset, writer, data) "
            "SELECT b.cluster_no, b.base_offset, b.next_offset, '', b.data FROM muster_batches b "
            "JOIN muster_segments s ON s.cluster_no = b.cluster_no AND s.segment_no = b.segment_no AND s.state = 0 "
            "JOIN muster_logs l ON l.cluster_no = s.cluster_no AND l.log_no = s.log_no "
            "WHERE l.topic = '__cluster_metadata'",
            "UPDATE muster_segments SET state = 2 WHERE EXISTS (SELECT 1 FROM muster_logs l "
            "WHERE l.cluster_no = muster_segments.cluster_no AND l.log_no = muster_segments.log_no "
            "AND l.topic = '__cluster_metadata')",
            "DELETE FROM muster_logs WHERE topic = '__cluster_metadata'",
            "DROP TABLE muster_offices",
            "DROP TABLE muster_nodes",
        ),
    ),
    Migration(
        3,
        "snapshots of the metadata log",
        (
            # the number of the snapshot that counts, the number of its parts, and its time
            "ALTER TABLE muster_clusters ADD COLUMN snapshot_no bigint NOT NULL DEFAULT 0",
            "ALTER TABLE muster_clusters ADD COLUMN snapshot_offset bigint NOT NULL DEFAULT 0",
            "ALTER TABLE muster_clusters ADD COLUMN snapshot_parts integer NOT NULL DEFAULT 0",
            "ALTER TABLE muster_clusters ADD COLUMN snapshot_at timestamptz",
            "CREATE TABLE muster_snapshots ("
            "cluster_no integer NOT NULL, "
            "snapshot_no bigint NOT NULL, "
            "part integer NOT NULL, "
            "data bytea NOT NULL, "
            "PRIMARY KEY (cluster_no, snapshot_no, part))",
        ),
    ),
    Migration(
        4,
        "what is known of segments without reading them",
        (
            # NULL: the facts are unknown, and a new leader reads the whole log
            "ALTER TABLE muster_segments ADD COLUMN size bigint",
            "ALTER TABLE muster_segments ADD COLUMN first_timestamp bigint",
            "ALTER TABLE muster_segments ADD COLUMN max_timestamp bigint",
            "ALTER TABLE muster_segments ADD COLUMN max_timestamp_offset bigint",
            "ALTER TABLE muster_segments ADD COLUMN aborted bytea",
            # the state of the log at the beginning of one of its segments
            "ALTER TABLE muster_logs ADD COLUMN checkpoint_offset bigint",
            "ALTER TABLE muster_logs ADD COLUMN epochs bytea",
            "ALTER TABLE muster_logs ADD COLUMN producers bytea",
        ),
    ),
    Migration(
        5,
        "up to where a log was compacted",
        ("ALTER TABLE muster_logs ADD COLUMN clean_offset bigint NOT NULL DEFAULT 0",),
    ),
    Migration(
        6,
        "the read barrier of a seat: what its node has read lasts up to there",
        ("ALTER TABLE muster_seats ADD COLUMN barrier bigint NOT NULL DEFAULT 0",),
    ),
)
NEWEST: Final = MIGRATIONS[-1].version


def missing(version: int) -> tuple[Migration, ...]:
    """The migrations from a version to the newest version."""
    return tuple(migration for migration in MIGRATIONS if migration.version > version)
