"""The stream of the log, and how its rows are appended to the staged log.

Each batch is written as one chunk, by a job of Spark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from muster.pipeline.clock import now_ms
from muster.pipeline.follow.buckets import bucket_column
from muster.pipeline.follow.manifest import LOG, Chunk, Manifest, appended, merged
from muster.pipeline.follow.store import Store
from muster.pipeline.frames import Column, DataFrame, F
from muster.pipeline.schema import (
    CONSUMER_GROUP,
    DECODED,
    OFFSETS_TOPIC,
    OTHER_COMMIT,
    RAW,
    SHARE_GROUP,
    STREAMS_GROUP,
)
from muster.pipeline.sources.cluster import Offsets
from muster.pipeline.sources.options import of_client
from muster.pipeline.staged import present_topics
from muster.pipeline.tables import shaped
from muster.pipeline.tables.epoch_states import epochs_in, topic_names
from muster.pipeline.tables.inputs import EVENTS_TOPIC, Inputs, events, malformed_events
from muster.pipeline.tables.log_times import with_sound_times
from muster.pipeline.tables.share_states import NOTHING as NO_SHARES
from muster.pipeline.tables.share_states import STATE_TOPIC as SHARE_TOPIC
from muster.pipeline.tables.share_states import ShareInputs, signs_of_life
from muster.pipeline.tables.transactions import EVENTS_TOPIC as TRANSACTION_EVENTS_TOPIC
from muster.pipeline.tables.transactions import NOTHING, STATE_TOPIC, TransactionInputs, counts_of
from muster.pipeline.wanted import ALL, Wanted, is_kept, other_commits, with_last_before

EVENT: Final = "event"
"""The kind of the rows of `__group_events` in the staged log. Their bytes are in raw_key and raw_value."""
OF_TRANSACTIONS: Final = {"transaction_state": STATE_TOPIC, "transaction_event": TRANSACTION_EVENTS_TOPIC}
"""The kinds of rows about transactions, with their topics. Their bytes are in raw_key and raw_value.

These rows belong to no group.
"""
SHARE_STATE: Final = "share_state"
"""The kind of the rows of `__share_group_state`. Their bytes are in raw_key and raw_value."""
OF_NO_TABLE: Final = (EVENT, SHARE_STATE, *OF_TRANSACTIONS, OTHER_COMMIT)
"""The kinds of rows that are staged as bytes, without decoding, and the commits of groups that are not wanted."""
STAGED: Final = pa.schema([*DECODED, ("bucket", pa.int32())])


def logged(spark: SparkSession, kafka: Mapping[str, str], max_rows: int) -> DataFrame:
    """The whole log as a stream of STAGED rows. It waits for a topic that does not exist yet."""
    rows = _stream(spark, kafka, max_rows, {"topic": OFFSETS_TOPIC, "rows": "decoded"})
    rows = rows.unionByName(_as_it_is(spark, kafka, max_rows, EVENTS_TOPIC, EVENT, F.col("key").cast("string")))
    rows = rows.unionByName(_as_it_is(spark, kafka, max_rows, SHARE_TOPIC, SHARE_STATE, _group_of_state()))
    for kind, topic in OF_TRANSACTIONS.items():
        rows = rows.unionByName(_as_it_is(spark, kafka, max_rows, topic, kind, F.lit(None)))
    # rows of transactions have no group, so their keys spread them over the buckets
    key = F.when(F.col("kind").isin(*OF_TRANSACTIONS), F.hex("raw_key"))
    return rows.withColumn("bucket", bucket_column(F.coalesce("group", key)))


def _group_of_state() -> Column:
    """The group in a key of `__share_group_state`. It stands after the type and its own length, both of two bytes."""
    length = "cast(conv(hex(substring(key, 3, 2)), 16, 10) as int)"
    return F.expr(f"try_cast(substring(key, 5, {length}) as string)")


def _as_it_is(
    spark: SparkSession, kafka: Mapping[str, str], max_rows: int, topic: str, kind: str, group: Column
) -> DataFrame:
    """The rows of a topic whose bytes are decoded only when the tables are made."""
    known = {
        "kind": F.lit(kind),
        "log_partition": F.col("partition"),
        "log_offset": F.col("offset"),
        "log_timestamp_ms": F.col("timestamp_ms"),
        "group": group,
        "reason": F.col("damage"),
        "raw_key": F.col("key"),
        "raw_value": F.col("value"),
    }
    raw_rows = _stream(spark, kafka, max_rows, {"topic": topic})
    return shaped(raw_rows.select(*(column.alias(name) for name, column in known.items())), DECODED, {})


def _stream(spark: SparkSession, kafka: Mapping[str, str], max_rows: int, options: Mapping[str, str]) -> DataFrame:
    reader = spark.readStream.format("muster").options(**options).option("waitForTopic", "true")
    reader = reader.option("maxRowsPerTrigger", str(max_rows))
    reader = reader.option("numPartitions", str(max(spark.sparkContext.defaultParallelism, 1)))
    return reader.options(**of_client(kafka)).load()


def appender(store: Store, wanted: Wanted) -> Callable[[DataFrame, int], None]:
    """The function that Spark calls with each batch. It does nothing for a batch that was staged before."""

    def append(rows: DataFrame, batch: int) -> None:
        if batch <= store.manifest.batch:
            return
        kept = rows.where(is_kept(wanted))
        if wanted != ALL:
            others = other_commits(rows, wanted).withColumn("bucket", bucket_column(F.col("group")))
            kept = kept.unionByName(others, allowMissingColumns=True)
        name = store.name("chunk")
        _write(kept, store.folder(LOG, name))
        found = _counts(store, name)
        by_kind: dict[str, int] = {}
        for _, kind, count, _ in found:
            by_kind[kind] = by_kind.get(kind, 0) + count
        chunk = Chunk(name, 0, sum(by_kind.values())) if found else None
        last_ms = max((at_ms for *_, at_ms in found if at_ms is not None), default=None)
        # the tables of transactions and of silences are made again as a whole, without buckets
        buckets = {bucket for bucket, kind, *_ in found if kind not in (*OF_TRANSACTIONS, OTHER_COMMIT)}
        store.change(lambda manifest: appended(manifest, batch, chunk, by_kind, last_ms, buckets))

    return append


def reached(store: Store, batch: int) -> Offsets:
    """The end of the staged part of each partition after a batch. Spark wrote the ends down before the batch.

    The result is empty for batch -1: nothing is staged.
    """
    text = store.read_text(f"{store.checkpoint}/offsets/{batch}") if batch >= 0 else None
    if text is None:
        return {}
    # the file has a version, Spark's settings, and a line for each stream; the offsets log is the first stream
    return {int(partition): end for partition, end in json.loads(text.splitlines()[2]).items()}


def _write(rows: DataFrame, folder: str) -> None:
    # so each bucket and kind has one file, not one from each task
    rows.repartition("bucket").write.partitionBy("bucket", "kind").parquet(folder)


def _counts(store: Store, name: str) -> list[tuple[int, str, int, int | None]]:
    """For each bucket and kind of a chunk: the number of rows, and the time of the last row."""
    if not store.buckets(LOG, name):
        return []
    # a time in the future does not count: with it, all other records would be too old to be kept
    past = F.when(F.col("log_timestamp_ms") <= now_ms(), F.col("log_timestamp_ms"))
    rows = store.read(LOG, [name], STAGED).groupBy("bucket", "kind")
    counted = rows.agg(F.count("*").alias("rows"), F.max(past).alias("last_ms")).collect()
    return [(row["bucket"], row["kind"], row["rows"], row["last_ms"]) for row in counted]


def merge(store: Store, chunks: Collection[Chunk], since_ms: int | None) -> None:
    """Merge some chunks into one. If rows from before `since_ms` are to be dropped, the chunks must be all chunks."""
    rows = _kept(store.read(LOG, [chunk.name for chunk in chunks], STAGED), since_ms)
    if since_ms is not None and len(chunks) == len(store.manifest.chunks):
        # these tombstones are not needed: what they deleted is dropped too. Each member with epochs leaves several
        is_old = F.col("is_tombstone") & (F.col("log_timestamp_ms") < since_ms)
        with_epochs = F.col("kind").isin(CONSUMER_GROUP, SHARE_GROUP, STREAMS_GROUP)
        rows = rows.where(~F.coalesce(with_epochs & is_old, F.lit(False)))
    name = store.name("chunk")
    _write(rows, store.folder(LOG, name))
    count = sum(number for _, _, number, _ in _counts(store, name))
    level = max(chunk.level for chunk in chunks) + (since_ms == store.manifest.since_ms)
    new = Chunk(name, level, count) if count else None
    store.change(lambda manifest: merged(manifest, chunks, new, since_ms))


def _kept(rows: DataFrame, since_ms: int | None) -> DataFrame:
    """The rows that are not too old. Of the older records of a group's state, the last one of each key is kept."""
    if since_ms is None:
        return rows
    wanted = Wanted(since_ms=since_ms)
    return with_last_before(rows.where(is_kept(wanted)), wanted)


def staged(
    store: Store,
    manifest: Manifest,
    buckets: Collection[int] | None = None,
    listed: Callable[[], Mapping[str, str]] = dict,
    ends: Mapping[tuple[str, int], int] | None = None,
) -> tuple[Inputs, DataFrame]:
    """The staged log of some buckets (None: all) as inputs of the tables, and the malformed rows of `__group_events`.

    `listed`: see `epochs_in`. `ends`: the present ends of partitions.
    """
    rows = store.read(LOG, [chunk.name for chunk in manifest.chunks], STAGED)
    if buckets is not None:
        rows = rows.where(F.col("bucket").isin(*sorted(buckets)))
    rows = _kept(rows, manifest.since_ms)
    decoded, odd_times = with_sound_times(rows.where(~F.col("kind").isin(*OF_NO_TABLE)).drop("bucket"), now_ms())
    raw = _raw(rows, EVENT, EVENTS_TOPIC)
    has_events = bool(manifest.rows.get(EVENT))
    of_events = events(raw) if has_events else None
    epochs = epochs_in(decoded, manifest.rows, listed)
    shares = NO_SHARES
    if manifest.rows.get(SHARE_STATE):
        names = {**listed(), **topic_names(decoded)}
        shares = ShareInputs(_raw(rows, SHARE_STATE, SHARE_TOPIC), names, ends or {}, Wanted(manifest.since_ms))
    inputs = Inputs(decoded, of_events, since_ms=manifest.since_ms, epochs=epochs, odd_times=odd_times, shares=shares)
    if manifest.rows.get(STREAMS_GROUP):
        inputs = inputs._replace(topics=present_topics(listed), has_streams=True)
    return inputs, malformed_events(raw)


def staged_others(store: Store, manifest: Manifest) -> DataFrame | None:
    """Signs of life that are no commits of wanted groups: group, log_timestamp_ms. None means that the log has none."""
    rows = store.read(LOG, [chunk.name for chunk in manifest.chunks], STAGED)
    found: DataFrame | None = None
    if manifest.rows.get(OTHER_COMMIT):
        found = rows.where(F.col("kind") == OTHER_COMMIT).select("group", "log_timestamp_ms")
    if manifest.rows.get(SHARE_STATE):
        signs = signs_of_life(rows.where(F.col("kind") == SHARE_STATE), "log_timestamp_ms")
        found = signs if found is None else found.unionByName(signs)
    return found


def staged_transactions(store: Store, manifest: Manifest) -> TransactionInputs:
    """The inputs about transactions, for all transactional ids."""
    if not any(manifest.rows.get(kind) for kind in OF_TRANSACTIONS):
        return NOTHING
    rows = _kept(store.read(LOG, [chunk.name for chunk in manifest.chunks], STAGED), manifest.since_ms)
    states, of_events = (
        _raw(rows, kind, topic) if manifest.rows.get(kind) else None for kind, topic in OF_TRANSACTIONS.items()
    )
    counts = counts_of(events(_raw(rows, EVENT, EVENTS_TOPIC))) if manifest.rows.get(EVENT) else None
    return TransactionInputs(states, of_events, None, counts, of_groups=bool(manifest.asked.get("groups")))


def _raw(rows: DataFrame, kind: str, topic: str) -> DataFrame:
    """Turn the staged rows of `kind`, which were not decoded, back into raw rows of `topic`."""
    known = {
        "topic": F.lit(topic),
        "partition": F.col("log_partition"),
        "offset": F.col("log_offset"),
        "timestamp_ms": F.col("log_timestamp_ms"),
        "key": F.col("raw_key"),
        "value": F.col("raw_value"),
        "damage": F.col("reason"),
    }
    return shaped(rows.where(F.col("kind") == kind), RAW, known)
