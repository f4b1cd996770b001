"""The SQL statements of `postgres`, in plain SQL (tables, arrays, `INSERT … ON CONFLICT`)."""

from __future__ import annotations

from typing import Final

from muster.postgres.store import DEAD, LIVE, MAIL_COUNTS_MS

FETCHED_ROWS: Final = 2_000
FETCHED_BYTES: Final = 4 * 1024 * 1024
"""A read returns a row only if the rows before it have fewer bytes. A row has at most 256 KB, or one batch."""
PURGED_ROWS: Final = 64
"""How many rows one statement removes: 16 MB, which takes far less time than a lease lasts."""
SHORTENED_ROWS: Final = 500
"""How many rows of the metadata log one statement removes: its rows are small."""
MAIL_KEPT_S: Final = 60
"""Messages that no node has taken for this time are removed."""

LEASE: Final = "clock_timestamp() + $%d::bigint * interval '1 millisecond'"
EXTEND_LEASE: Final = (
    f"UPDATE muster_seats SET turn = $4, expires_at = {LEASE % 6} WHERE cluster_no = $1 AND node_id = $2 "
    "AND epoch = $3 AND turn = $7 AND needs <= $5 AND barrier >= $8 RETURNING cluster_no"
)
BARRIER: Final = (
    "UPDATE muster_seats SET barrier = $4 WHERE cluster_no = $1 AND node_id = $2 AND epoch = $3 "
    "AND barrier < $4 AND barrier >= $5 AND turn >= $6 RETURNING cluster_no"
)
APPEND: Final = (
    f"WITH seat AS ({EXTEND_LEASE}), put AS (INSERT INTO muster_batches "
    "(cluster_no, segment_no, base_offset, next_offset, epoch, data) "
    "SELECT seat.cluster_no, b.segment_no, b.base_offset, b.next_offset, $3, b.data FROM seat, "
    "unnest($9::bigint[], $10::bigint[], $11::bigint[], $12::bytea[]) "
    "AS b (segment_no, base_offset, next_offset, data)) SELECT count(*) FROM seat"
)
REGISTRATION: Final = (
    "node_id, epoch, turn, needs, holder, address, "
    "(extract(epoch FROM expires_at - clock_timestamp()) * 1000)::bigint AS remaining_ms, barrier"
)
REGISTRATIONS: Final = f"SELECT {REGISTRATION} FROM muster_seats WHERE cluster_no = $1 ORDER BY node_id"
NEW_EPOCH: Final = "UPDATE muster_clusters SET terms = terms + 1 WHERE cluster_no = $1 RETURNING terms"
CHOOSE_NODE_ID: Final = (
    "SELECT coalesce(min(node_id) FILTER (WHERE holder = $2), "
    "min(node_id) FILTER (WHERE expires_at <= clock_timestamp()), max(node_id) + 1, 1) "
    "FROM muster_seats WHERE cluster_no = $1"
)
REGISTER: Final = (
    "INSERT INTO muster_seats AS s (cluster_no, node_id, epoch, turn, needs, holder, address, expires_at) "
    f"VALUES ($1, $2, $3, 0, 0, $4, $5, {LEASE % 6}) "
    "ON CONFLICT (cluster_no, node_id) DO UPDATE SET epoch = excluded.epoch, turn = 0, barrier = 0, "
    "holder = excluded.holder, address = excluded.address, expires_at = excluded.expires_at "
    "WHERE s.expires_at <= clock_timestamp() OR s.holder = excluded.holder "
    f"RETURNING {REGISTRATION}"
)
UNREGISTER: Final = (
    "UPDATE muster_seats SET expires_at = clock_timestamp() WHERE cluster_no = $1 AND node_id = $2 AND epoch = $3"
)
WRITE_METADATA: Final = (
    # before the end of the snapshot, a row may have been removed
    "INSERT INTO muster_metadata (cluster_no, base_offset, next_offset, writer, data) "
    "SELECT cluster_no, $2::bigint, $3::bigint, $4::text, $5::bytea FROM muster_clusters "
    "WHERE cluster_no = $1 AND snapshot_offset <= $2 "
    "ON CONFLICT (cluster_no, base_offset) DO NOTHING RETURNING base_offset"
)
IS_DEAD: Final = (
    "UPDATE muster_seats SET epoch = 0 WHERE cluster_no = $1 AND node_id = $2 AND epoch = $3 "
    "AND expires_at <= clock_timestamp() RETURNING node_id"
)
NEEDING: Final = "UPDATE muster_seats SET needs = $3 WHERE cluster_no = $1 AND node_id = ANY($2::integer[])"
SNAPSHOT: Final = "SELECT snapshot_no, snapshot_offset, snapshot_parts FROM muster_clusters WHERE cluster_no = $1"
SNAPSHOT_PART: Final = "SELECT data FROM muster_snapshots WHERE cluster_no = $1 AND snapshot_no = $2 AND part = $3"
PUT_SNAPSHOT_PART: Final = (
    "WITH seat AS (SELECT cluster_no FROM muster_seats WHERE cluster_no = $1 AND node_id = $2 AND epoch = $3), "
    "put AS (INSERT INTO muster_snapshots (cluster_no, snapshot_no, part, data) "
    "SELECT cluster_no, $4::bigint, $5::integer, $6::bytea FROM seat ON CONFLICT DO NOTHING) SELECT count(*) FROM seat"
)
COMMIT_SNAPSHOT: Final = (
    "UPDATE muster_clusters SET snapshot_no = $4, snapshot_offset = $5, snapshot_parts = $6, "
    "snapshot_at = clock_timestamp() WHERE cluster_no = $1 AND snapshot_no < $4 AND snapshot_offset < $5 "
    "AND EXISTS (SELECT 1 FROM muster_seats WHERE cluster_no = $1 AND node_id = $2 AND epoch = $3) "
    "AND (SELECT count(*) FROM muster_snapshots WHERE cluster_no = $1 AND snapshot_no = $4) = $6::integer "
    "RETURNING cluster_no"
)
# A snapshot with a lower number than the current one can never count. The row that ends where the snapshot ends is
# kept. From that row, a node that is behind learns that newer rows exist.
SHORTEN: Final = (
    "WITH it AS (SELECT snapshot_no, snapshot_offset FROM muster_clusters WHERE cluster_no = $1 "
    "AND snapshot_at < clock_timestamp() - $2::bigint * interval '1 millisecond'), "
    "log AS (DELETE FROM muster_metadata WHERE cluster_no = $1 AND base_offset IN (SELECT m.base_offset "
    "FROM muster_metadata m, it WHERE m.cluster_no = $1 AND m.next_offset < it.snapshot_offset "
    f"ORDER BY m.base_offset LIMIT {SHORTENED_ROWS}) RETURNING 1), "
    "old AS (DELETE FROM muster_snapshots WHERE cluster_no = $1 AND (snapshot_no, part) IN ("
    "SELECT s.snapshot_no, s.part FROM muster_snapshots s, it "
    "WHERE s.cluster_no = $1 AND s.snapshot_no < it.snapshot_no "
    f"ORDER BY s.snapshot_no, s.part LIMIT {SHORTENED_ROWS}) RETURNING 1) "
    f"SELECT count(*) = 1 AND (SELECT count(*) FROM log) < {SHORTENED_ROWS} "
    f"AND (SELECT count(*) FROM old) < {SHORTENED_ROWS} FROM it"
)
METADATA_STATEMENTS: Final = (WRITE_METADATA, IS_DEAD, NEEDING)
"""The statements for a row that moves partitions."""
SEND: Final = (
    "INSERT INTO muster_mail (cluster_no, node_id, mail_id, sender, kind, data, sent_at) "
    "SELECT $1, m.node_id, m.mail_id, m.sender, m.kind, m.data, clock_timestamp() FROM "
    "unnest($2::integer[], $3::text[], $4::integer[], $5::smallint[], $6::bytea[]) "
    "AS m (node_id, mail_id, sender, kind, data) ON CONFLICT DO NOTHING"
)
MAIL: Final = (
    "DELETE FROM muster_mail WHERE cluster_no = $1 AND node_id = $2 RETURNING mail_id, sender, kind, data, sent_at, "
    f"sent_at > clock_timestamp() - interval '{MAIL_COUNTS_MS} milliseconds' AS counts"
)
OLD_MAIL: Final = (
    f"DELETE FROM muster_mail WHERE cluster_no = $1 AND sent_at < clock_timestamp() - interval '{MAIL_KEPT_S} seconds'"
)
PURGE: Final = (
    "DELETE FROM muster_batches WHERE cluster_no = $1 AND segment_no = $2 "
    f"AND EXISTS (SELECT 1 FROM muster_segments WHERE cluster_no = $1 AND segment_no = $2 AND state = {DEAD}) "
    "AND base_offset IN (SELECT base_offset FROM muster_batches WHERE cluster_no = $1 AND segment_no = $2 "
    f"ORDER BY base_offset LIMIT {PURGED_ROWS})"
)
PURGE_SEGMENT: Final = (
    f"DELETE FROM muster_segments WHERE cluster_no = $1 AND segment_no = $2 AND state = {DEAD} "
    "AND NOT EXISTS (SELECT 1 FROM muster_batches WHERE cluster_no = $1 AND segment_no = $2)"
)
IS_LEFT: Final = f"SELECT count(*) FROM muster_segments WHERE cluster_no = $1 AND segment_no = $2 AND state = {DEAD}"
NEW_LOGS: Final = (
    "INSERT INTO muster_logs (cluster_no, log_no, topic, partition, topic_id, start_offset) "
    "SELECT $1, * FROM unnest($2::bigint[], $3::text[], $4::integer[], $5::bytea[], $6::bigint[])"
)
NEW_SEGMENTS: Final = (
    "INSERT INTO muster_segments (cluster_no, segment_no, log_no, base_offset, state) "
    "SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::smallint[])"
)
NEW_BATCHES: Final = (
    "INSERT INTO muster_batches (cluster_no, segment_no, base_offset, next_offset, data, epoch) "
    "SELECT $1, b.*, $2 FROM unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::bytea[]) AS b"
)
STARTS: Final = (
    "UPDATE muster_logs SET start_offset = s.start_offset "
    "FROM unnest($2::bigint[], $3::bigint[]) AS s (log_no, start_offset) "
    "WHERE muster_logs.cluster_no = $1 AND muster_logs.log_no = s.log_no"
)
CLEAN: Final = (
    "UPDATE muster_logs SET clean_offset = c.clean_offset "
    "FROM unnest($2::bigint[], $3::bigint[]) AS c (log_no, clean_offset) "
    "WHERE muster_logs.cluster_no = $1 AND muster_logs.log_no = c.log_no"
)
STATE: Final = "UPDATE muster_segments SET state = $3 WHERE cluster_no = $1 AND segment_no = ANY($2::bigint[])"
DROP: Final = "DELETE FROM muster_logs WHERE cluster_no = $1 AND log_no = ANY($2::bigint[])"
LOGS: Final = (
    "SELECT log_no, topic, partition, topic_id, start_offset, clean_offset FROM muster_logs WHERE cluster_no = $1"
)
ENDS: Final = (
    "SELECT l.topic, l.partition, l.start_offset, coalesce((SELECT b.next_offset FROM muster_batches b "
    "WHERE b.cluster_no = $1 AND b.segment_no = s.segment_no ORDER BY b.base_offset DESC LIMIT 1), s.base_offset) "
    "FROM muster_logs l CROSS JOIN LATERAL (SELECT segment_no, base_offset FROM muster_segments "
    f"WHERE cluster_no = $1 AND log_no = l.log_no AND state = {LIVE} ORDER BY base_offset DESC, segment_no DESC LIMIT 1"
    ") s WHERE l.cluster_no = $1"
)
FACTS: Final = (
    "UPDATE muster_segments AS s SET size = f.size, first_timestamp = f.first_timestamp, "
    "max_timestamp = f.max_timestamp, max_timestamp_offset = f.max_timestamp_offset, aborted = f.aborted "
    "FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bytea[]) "
    "AS f (segment_no, size, first_timestamp, max_timestamp, max_timestamp_offset, aborted) "
    "WHERE s.cluster_no = $1 AND s.segment_no = f.segment_no"
)
CHECKPOINTS: Final = (
    "UPDATE muster_logs AS l SET checkpoint_offset = c.checkpoint_offset, epochs = c.epochs, producers = c.producers "
    "FROM unnest($2::bigint[], $3::bigint[], $4::bytea[], $5::bytea[]) "
    "AS c (log_no, checkpoint_offset, epochs, producers) WHERE l.cluster_no = $1 AND l.log_no = c.log_no"
)
CHECKPOINT: Final = (
    "SELECT log_no, checkpoint_offset, epochs, producers FROM muster_logs "
    "WHERE cluster_no = $1 AND log_no = $2 AND checkpoint_offset IS NOT NULL"
)
SEGMENTS: Final = (
    "SELECT segment_no, log_no, base_offset, state, coalesce(size, -1), coalesce(first_timestamp, -1), "
    "coalesce(max_timestamp, -1), coalesce(max_timestamp_offset, -1), coalesce(octet_length(aborted), 0) "
    "FROM muster_segments WHERE cluster_no = $1 AND log_no = $2 ORDER BY base_offset, segment_no"
)
ABORTED: Final = (
    "SELECT base_offset, aborted FROM (SELECT base_offset, aborted, sum(octet_length(aborted)) "
    "OVER (ORDER BY base_offset ROWS UNBOUNDED PRECEDING) - octet_length(aborted) AS before "
    "FROM (SELECT base_offset, aborted FROM muster_segments WHERE cluster_no = $1 AND log_no = $2 "
    f"AND base_offset >= $3 AND state = {LIVE} AND octet_length(aborted) > 0 "
    f"ORDER BY base_offset LIMIT {FETCHED_ROWS}) AS found) AS rows_of_it "
    f"WHERE before < {FETCHED_BYTES} ORDER BY base_offset"
)
WRITE_STATEMENTS: Final = (
    EXTEND_LEASE, NEW_LOGS, NEW_SEGMENTS, NEW_BATCHES, STARTS, STATE, DROP, CLEAN, FACTS, CHECKPOINTS,
)  # fmt: skip
"""The statements for a database write of several statements."""


def _some(table: str, columns: str, where: str) -> str:
    """The statement that reads rows in the order of `base_offset`, with `data` as the last column. The number and the
    size of the rows are limited.
    """
    return (
        f"SELECT {columns}, data FROM (SELECT {columns}, data, "
        "sum(octet_length(data)) OVER (ORDER BY base_offset ROWS UNBOUNDED PRECEDING) - octet_length(data) AS before "
        f"FROM (SELECT {columns}, data FROM {table} WHERE {where} ORDER BY base_offset LIMIT {FETCHED_ROWS}) AS found"
        f") AS rows_of_it WHERE before < {FETCHED_BYTES} ORDER BY base_offset"
    )


METADATA: Final = _some("muster_metadata", "base_offset, next_offset, writer", "cluster_no = $1 AND base_offset >= $2")
BATCHES: Final = _some(
    "muster_batches",
    "segment_no, base_offset, next_offset",
    "cluster_no = $1 AND segment_no = $2 AND base_offset >= $3",
)
