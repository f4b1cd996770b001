"""The first step of an analysis: it reads and decodes a source once, and keeps the rows as Parquet.

A source is a data directory, copied segments, a live cluster, a table of raw rows, or a DataFrame. The rows of
`__share_group_state`, `__transaction_state` and `__transaction_events` are staged too. So are the transactions in the
offsets partitions of a data directory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from muster.pipeline.arguments import DELTA
from muster.pipeline.clock import now_ms
from muster.pipeline.output import is_local, prepare
from muster.pipeline.preflight import plain
from muster.pipeline.schema import DECODED, OFFSET_COMMIT, OFFSETS_TOPIC, OTHER_COMMIT, RAW, STREAMS_GROUP
from muster.pipeline.sources.data_folders import find_segments
from muster.pipeline.sources.ends import ENDS, Reach
from muster.pipeline.sources.frame import raw_rows, some_rows
from muster.pipeline.sources.live_topics import ends_of_cluster, names_of_cluster, reach_of_cluster
from muster.pipeline.sources.options import DECODED_ROWS, of_client
from muster.pipeline.sources.segment_files import NoSource, SegmentFile
from muster.pipeline.sources.source import TRANSACTION_TOPICS, check, has_rows, table_kind
from muster.pipeline.sources.source import Source as Source
from muster.pipeline.sources.spark_source import open_reader
from muster.pipeline.sources.topics import PathReach, ends_of_path, names_of_path, reach_of_path
from muster.pipeline.sources.transactions import PARTS, partitions_of, parts_of
from muster.pipeline.staged import Staged as Staged
from muster.pipeline.staged import check_found, of_time, parts_within, present_topics
from muster.pipeline.tables import batches_of
from muster.pipeline.tables.commits import committed_between
from muster.pipeline.tables.epoch_states import epochs_in, topic_names
from muster.pipeline.tables.inputs import EVENTS_TOPIC, Inputs, events, malformed_events
from muster.pipeline.tables.log_times import with_sound_times
from muster.pipeline.tables.schema import EVENTS
from muster.pipeline.tables.share_states import NOTHING as NO_SHARES
from muster.pipeline.tables.share_states import STATE_TOPIC as SHARE_TOPIC
from muster.pipeline.tables.share_states import ShareInputs
from muster.pipeline.tables.transactions import TransactionInputs, counts_of
from muster.pipeline.wanted import ALL, Wanted, is_wanted, with_last_before
from muster.pipeline.write import Work, work_of_reader, work_of_rows, write_decoded


def stage_transactions(
    raw_of: Callable[[str], DataFrame | None],
    path: str | None,
    decoded: DataFrame,
    events: DataFrame | None,
    folder: str,
    wanted: Wanted,
) -> TransactionInputs:
    """Read the inputs about transactions into `folder`.

    `raw_of`: gives the raw rows of a topic, or None without the topic. `path`: the data directory, if the source is
    one. `decoded`: the rows of the offsets log; `events`: those of `__group_events`.
    """
    spark = decoded.sparkSession
    found: list[DataFrame | None] = []
    for topic in TRANSACTION_TOPICS:
        raw = raw_of(topic)
        if raw is not None:
            # read the source once; the tables read the files as often as needed
            of_time(raw.select(*RAW.names), wanted).write.mode("overwrite").parquet(f"{folder}/raw_{topic}")
            raw = spark.read.schema(from_arrow_schema(RAW)).parquet(f"{folder}/raw_{topic}").select(*RAW.names)
        # the topic has no rows if only a column exists that might name it
        found.append(None if raw is None or raw.isEmpty() else raw)
    states, topic_events = found
    parts = None
    if path is not None and (states is not None or _has_transactions(decoded)):
        some = parts_within(_transaction_parts(spark, path), wanted)
        some.write.mode("overwrite").parquet(f"{folder}/transaction_parts")
        parts = spark.read.schema(from_arrow_schema(PARTS)).parquet(f"{folder}/transaction_parts")
    inputs = TransactionInputs(states, topic_events, parts, of_groups=bool(wanted.groups))
    return inputs._replace(counts=counts_of(events)) if inputs.has_any and events is not None else inputs


def _has_transactions(decoded: DataFrame) -> bool:
    return not decoded.where((F.col("kind") == OFFSET_COMMIT) & F.col("is_transactional")).isEmpty()


def _transaction_parts(spark: SparkSession, path: str) -> DataFrame:
    """The transactions in the offsets partitions of a data directory.

    One worker reads a whole partition, because a transaction may begin in one segment and end in another.
    """
    partitions = partitions_of(path)

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("number").to_pylist():
                segments = tuple(SegmentFile(*one) for one in partitions[number])
                yield from batches_of(parts_of(path, segments), PARTS)

    tasks = min(len(partitions), max(spark.sparkContext.defaultParallelism, 1))
    numbers = spark.range(0, len(partitions), 1, tasks).toDF("number")
    return numbers.mapInArrow(read, from_arrow_schema(PARTS))


def stage(spark: SparkSession, source: Source, folder: str, wanted: Wanted = ALL) -> Staged:
    """Read a source into `folder`. Raises NoSource, ClusterError, BadOption, ValueError (see `sources.frame`)."""
    check(source)
    name, path, source = source.name(), source.path, _as_rows(spark, source)
    # the ends are read before the log: otherwise groups may have committed for later records
    reach: PathReach | Reach | None = None
    if source.path is not None:
        reach = reach_of_path(source.path)
    elif source.kafka is not None:
        reach = reach_of_cluster(source.kafka)
    rows = write_decoded(_work(spark, source, path), f"{folder}/decoded", wanted)
    every = _read(spark, f"{folder}/decoded", DECODED)
    staged = every if wanted == ALL else every.where(F.col("kind") != OTHER_COMMIT)
    others = None if wanted == ALL else every.where(F.col("kind") == OTHER_COMMIT)
    raw = _raw_of(spark, source, EVENTS_TOPIC)
    staged_events = malformed = None
    if raw is not None:
        # read the source once; the tables read the files as often as needed
        raw.write.mode("overwrite").parquet(f"{folder}/raw_events")
        found = _read(spark, f"{folder}/raw_events", RAW)
        events(found).where(is_wanted(wanted, F.col("time_ms"))).write.mode("overwrite").parquet(f"{folder}/events")
        # only one table needs these rows, and only once
        bad = malformed_events(found)
        malformed = bad.where(is_wanted(wanted, F.col("log_timestamp_ms"), of_any_group=F.col("group").isNull()))
        staged_events = _read(spark, f"{folder}/events", EVENTS)
        if staged_events.isEmpty():
            # as above: a topic, or a column that might name it, may have no rows
            staged_events = None
    check_found(name, staged, rows, wanted, has_events=staged_events is not None)
    sound, odd_times = with_sound_times(staged, now_ms())
    ends = None if reach is None else _ends(source, reach, sound, wanted.until_ms)
    if ends is not None:
        _write_small(spark, ends, f"{folder}/ends")
    staged_ends = None if ends is None else _read(spark, f"{folder}/ends", ENDS)
    decoded = with_last_before(sound, wanted)
    epochs = epochs_in(decoded, rows, lambda: _topic_names(source))
    transactions = stage_transactions(
        lambda topic: _raw_of(spark, source, topic), source.path, staged, staged_events, folder, wanted
    )
    shares = _shares(spark, source, f"{folder}/raw_shares", decoded)
    if shares.raw is not None:
        shares = shares._replace(ends=present_ends(reach, wanted), wanted=wanted)
    topics = None
    if rows.get(STREAMS_GROUP) and wanted.until_ms is None:
        topics = present_topics(lambda: _topic_names(source))
    inputs = Inputs(
        decoded, staged_events, staged_ends, wanted.since_ms, epochs, odd_times, transactions, shares, others=others,
        topics=topics, has_streams=bool(rows.get(STREAMS_GROUP)),
    )  # fmt: skip
    return Staged(inputs, malformed, rows)


def _shares(spark: SparkSession, source: Source, folder: str, decoded: DataFrame) -> ShareInputs:
    """The state log of share groups, and the names of topics."""
    raw = _raw_of(spark, source, SHARE_TOPIC)
    if raw is None:
        return NO_SHARES
    # read the source once; the tables read the files as often as needed
    raw.select(*RAW.names).write.mode("overwrite").parquet(folder)
    staged = _read(spark, folder, RAW)
    # a topic, or a column that might name it, may have no rows
    return NO_SHARES if staged.isEmpty() else ShareInputs(staged, {**_topic_names(source), **topic_names(decoded)})


def present_ends(reach: PathReach | Reach | None, wanted: Wanted) -> Mapping[tuple[str, int], int]:
    """The present ends of partitions. They are empty if the wanted time ends earlier."""
    if reach is None or wanted.until_ms is not None:
        return {}
    return reach.reach.ends if isinstance(reach, PathReach) else reach.ends


def _write_small(spark: SparkSession, rows: pa.Table, folder: str) -> None:
    """Write rows that are in this process. On this machine that needs no job of Spark."""
    if is_local(spark, folder):
        Path(plain(folder)).mkdir(parents=True, exist_ok=True)
        parquet.write_table(rows, f"{plain(folder)}/ends.parquet")
    else:
        spark.createDataFrame(rows).write.mode("overwrite").parquet(folder)


def _read(spark: SparkSession, folder: str, schema: pa.Schema) -> DataFrame:
    # the schema is given, because the folder may have no file
    return spark.read.schema(from_arrow_schema(schema)).parquet(folder).select(*schema.names)


def _as_rows(spark: SparkSession, source: Source) -> Source:
    """A source whose path is a table of raw rows becomes a source with the rows of that table."""
    kind = None if source.path is None else table_kind(source.path)
    if source.path is None or kind is None:
        return source
    if kind == DELTA:
        prepare(spark, source.path)
    return Source(rows=spark.read.format(kind).load(source.path))


def _work(spark: SparkSession, source: Source, path: str | None) -> Work:
    """The work of decoding. `path`: the path of a table with the rows; None: the caller gave a DataFrame."""
    if source.rows is not None and path is not None:
        raw = raw_rows(source.rows)
        if raw.isEmpty():
            raise NoSource(f"{path} has no row of {OFFSETS_TOPIC}: only a copy of that topic has the groups")
        return work_of_rows(raw)
    if source.rows is not None:
        return work_of_rows(some_rows(source.rows))
    return work_of_reader(spark, open_reader(_options(spark, source, {"rows": DECODED_ROWS})))


def _raw_of(spark: SparkSession, source: Source, topic: str) -> DataFrame | None:
    """The rows of a topic other than the offsets log; None without rows."""
    if source.rows is not None:
        return raw_rows(source.rows, topic) if "topic" in source.rows.columns else None
    try:
        if source.path is not None:
            find_segments(source.path, topic)
        elif source.kafka is not None and not has_rows(source.kafka, topic):
            return None
    except NoSource:
        return None
    return _load(spark, source, {"topic": topic})


def _ends(source: Source, reach: Reach | PathReach, staged: DataFrame, until_ms: int | None) -> pa.Table | None:
    """The ends of the topics with commits, and their history."""
    commits = staged.where((F.col("kind") == OFFSET_COMMIT) & ~F.col("is_tombstone"))
    committed = committed_between(commits, "log_timestamp_ms")
    if committed is None:
        return None
    between, places = committed
    if isinstance(reach, PathReach):
        return ends_of_path(reach.of(places), between, until_ms)
    return ends_of_cluster(source.kafka or {}, reach.of(places), between, until_ms=until_ms)


def _topic_names(source: Source) -> dict[str, str]:
    """The names of topics by their ids, if the source knows them."""
    if source.path is not None:
        return names_of_path(source.path)
    return {} if source.kafka is None else names_of_cluster(source.kafka)


def _load(spark: SparkSession, source: Source, options: Mapping[str, str]) -> DataFrame:
    # for format("muster"), Spark starts a Python process for each plan, only to ask for the partitions
    work = work_of_reader(spark, open_reader(_options(spark, source, options)))
    return work.rows.mapInArrow(work.decode, from_arrow_schema(RAW))


def _options(spark: SparkSession, source: Source, more: Mapping[str, str]) -> dict[str, str]:
    """The options of format("muster") for a path or a cluster, together with `more`."""
    options = {**more, "numPartitions": str(max(spark.sparkContext.defaultParallelism, 1))}
    if source.path is not None:
        return {**options, "path": source.path}
    return options | of_client(source.kafka or {})
