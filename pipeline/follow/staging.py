"""The staged log: rows of the log of a cluster, in folders (chunks) that are written once.

Each batch becomes one chunk. Many chunks are merged into one. The tables are made of all chunks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muster.pipeline.clock import now_ms
from muster.pipeline.follow.buckets import bucket_of
from muster.pipeline.follow.manifest import LOG, Chunk, Manifest, appended, merged
from muster.pipeline.follow.store import BUCKET, Store
from muster.pipeline.follow.tail import AS_IT_IS, EVENT, KIND_OF, OF_TRANSACTIONS, SHARE_STATE, Batch
from muster.pipeline.frames import DataFrame, F, in_this_process
from muster.pipeline.preflight import plain
from muster.pipeline.schema import (
    CONSUMER_GROUP,
    DECODED,
    OTHER_COMMIT,
    RAW,
    SHARE_GROUP,
    STREAMS_GROUP,
    table_columns,
)
from muster.pipeline.staged import present_topics
from muster.pipeline.tables import shaped
from muster.pipeline.tables.epoch_states import epochs_in, topic_names
from muster.pipeline.tables.inputs import EVENTS_TOPIC, Inputs, events, malformed_events
from muster.pipeline.tables.log_times import with_sound_times
from muster.pipeline.tables.share_states import NOTHING as NO_SHARES
from muster.pipeline.tables.share_states import STATE_TOPIC as SHARE_TOPIC
from muster.pipeline.tables.share_states import ShareInputs, signs_of_life
from muster.pipeline.tables.transactions import NOTHING, TransactionInputs, counts_of
from muster.pipeline.wanted import Wanted, batch_filter, is_kept, with_last_before
from muster.pipeline.write import Files

OF_NO_TABLE: Final = (EVENT, SHARE_STATE, *OF_TRANSACTIONS, OTHER_COMMIT)
"""The kinds of rows that are staged as bytes, without decoding, and the commits of groups that are not wanted."""
STAGED: Final = pa.schema([*DECODED, ("bucket", pa.int32())])
FEW_ROWS: Final = 100_000
"""Up to this many rows of the log, this process makes the tables, in some 10 s. A plan of Spark costs as much."""
_PIECE_ROWS: Final = 200_000
"""If Spark writes a chunk into another file system, it gets at most about this many rows at once."""


class _Counted(NamedTuple):
    """What was staged: the number of rows by bucket and kind, and the time of the last row."""

    rows: Counter[tuple[int, str]]
    last_ms: int | None

    def by_kind(self) -> dict[str, int]:
        found: Counter[str] = Counter()
        for (_, kind), rows in self.rows.items():
            found[kind] += rows
        return dict(found)


def append(store: Store, batch: Batch, wanted: Wanted) -> None:
    """Append a batch to the staged log, as one chunk. Raises ClusterError."""
    name = store.name("chunk")
    counted = _stage(store, name, map(batch_filter(wanted), batch.rows))
    rows = counted.by_kind()
    chunk = Chunk(name, 0, sum(rows.values())) if rows else None
    # the tables of transactions and of silences are made again as a whole, without buckets
    buckets = {bucket for bucket, kind in counted.rows if kind not in (*OF_TRANSACTIONS, OTHER_COMMIT)}
    store.change(lambda manifest: appended(manifest, batch.position, chunk, rows, counted.last_ms, buckets))


def _stage(store: Store, name: str, batches: Iterable[pa.RecordBatch]) -> _Counted:
    """Write rows of DECODED as a chunk, and count them."""
    # a time in the future does not count: with it, all other records would be too old to be kept
    now = now_ms()
    rows: Counter[tuple[int, str]] = Counter()
    last_ms: list[int] = []

    def counted() -> Iterator[tuple[int, str, pa.RecordBatch]]:
        for batch in batches:
            times = batch.column("log_timestamp_ms")
            past = pc.max(times.filter(pc.less_equal(times, now))).as_py()
            last_ms.extend(() if past is None else (past,))
            for bucket, kind, some in _parts(batch):
                rows[bucket, kind] += some.num_rows
                yield bucket, kind, some

    if store.local is None:
        _send(store, name, counted())
    else:
        with Files(Path(plain(store.folder(LOG, name)))) as files:
            for bucket, kind, some in counted():
                files.add(f"{BUCKET}={bucket}/kind={kind}", _columns_of(kind), some)
    return _Counted(rows, max(last_ms, default=None))


def _parts(batch: pa.RecordBatch) -> Iterator[tuple[int, str, pa.RecordBatch]]:
    """The rows of each bucket and kind."""
    groups = batch.column("group").dictionary_encode()
    of_group = np.array([*map(bucket_of, groups.dictionary.to_pylist()), bucket_of(None)], np.int64)
    buckets = of_group[groups.indices.fill_null(len(groups.dictionary)).to_numpy()]
    for kind in batch.column("kind").unique().to_pylist():
        is_it = pc.equal(batch.column("kind"), kind)
        some, at = batch.filter(is_it), buckets[is_it.to_numpy(zero_copy_only=False)]
        if kind in OF_TRANSACTIONS:
            # they have no group, so their keys spread them over the buckets
            at = np.array([bucket_of(key and key.hex()) for key in some.column("raw_key").to_pylist()], np.int64)
        for bucket in np.unique(at).tolist():
            yield bucket, kind, some.filter(pa.array(at == bucket))


def _columns_of(kind: str) -> Sequence[str]:
    return AS_IT_IS if kind in KIND_OF.values() else table_columns(kind)


def _send(store: Store, name: str, parts: Iterable[tuple[int, str, pa.RecordBatch]]) -> None:
    """Let Spark write a chunk into another file system, piece by piece."""
    pieces: list[pa.RecordBatch] = []

    def write() -> None:
        if pieces:
            _write(store.spark.createDataFrame(pa.Table.from_batches(pieces)), store.folder(LOG, name))
            pieces.clear()

    for bucket, _, some in parts:
        columns = [*some.columns, pa.repeat(pa.scalar(bucket, pa.int32()), some.num_rows)]
        pieces.append(pa.RecordBatch.from_arrays(columns, schema=STAGED))
        if sum(one.num_rows for one in pieces) >= _PIECE_ROWS:
            write()
    write()


def _write(rows: DataFrame, folder: str) -> None:
    # so each bucket and kind has one file, not one from each task
    rows.repartition(BUCKET).write.mode("append").partitionBy(BUCKET, "kind").parquet(folder)


def is_short(store: Store, chunks: Iterable[Chunk]) -> bool:
    """Whether this process works with the rows of these chunks, without Spark."""
    return store.local is not None and sum(chunk.rows for chunk in chunks) <= FEW_ROWS


def merge(store: Store, chunks: Collection[Chunk], since_ms: int | None) -> None:
    """Merge some chunks into one. If rows from before `since_ms` are to be dropped, the chunks must be all chunks."""
    name = store.name("chunk")
    if is_short(store, chunks):
        with in_this_process():
            rows = _merged(store, chunks, since_ms).toArrow()
        count = _stage(store, name, rows.select(DECODED.names).cast(DECODED).to_batches()).rows.total()
    else:
        _write(_merged(store, chunks, since_ms), store.folder(LOG, name))
        count = store.read(LOG, [name], STAGED).count() if store.buckets(LOG, name) else 0
    level = max(chunk.level for chunk in chunks) + (since_ms == store.manifest.since_ms)
    new = Chunk(name, level, count) if count else None
    store.change(lambda manifest: merged(manifest, chunks, new, since_ms))


def _merged(store: Store, chunks: Collection[Chunk], since_ms: int | None) -> DataFrame:
    """The rows of the chunks that are kept."""
    rows = _kept(store.read(LOG, [chunk.name for chunk in chunks], STAGED), since_ms)
    if since_ms is None or len(chunks) < len(store.manifest.chunks):
        return rows
    # these tombstones are not needed: what they deleted is dropped too. Each member with epochs leaves several
    is_old = F.col("is_tombstone") & (F.col("log_timestamp_ms") < since_ms)
    with_epochs = F.col("kind").isin(CONSUMER_GROUP, SHARE_GROUP, STREAMS_GROUP)
    return rows.where(~F.coalesce(with_epochs & is_old, F.lit(False)))


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
