"""What tells of transactions, staged: the rows of `__transaction_state` and `__transaction_events`, and the
transactions in the offsets partitions of a data directory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it
from pyspark.sql.pandas.types import from_arrow_schema

from muster.pipeline.facts.transactions import EVENTS_TOPIC, STATE_TOPIC, TransactionInputs, counts_of
from muster.pipeline.schema import OFFSET_COMMIT, RAW
from muster.pipeline.sources.segment_files import SegmentFile
from muster.pipeline.sources.transaction_batches import PARTS, partitions_of, parts_of
from muster.pipeline.tables import batches_of
from muster.pipeline.wanted import Wanted, is_wanted, pattern_of

TOPICS: Final = (STATE_TOPIC, EVENTS_TOPIC)


def stage_transactions(
    raw_of: Callable[[str], DataFrame | None],
    path: str | None,
    decoded: DataFrame,
    events: DataFrame | None,
    folder: str,
    wanted: Wanted,
) -> TransactionInputs:
    """Read it into `folder`. `raw_of`: the raw rows of a topic, None: there is none. `path`: of a data directory, if
    the source is one. `decoded`: the rows of the offsets log; `events`: those of `__group_events`.
    """
    spark = decoded.sparkSession
    found: list[DataFrame | None] = []
    for topic in TOPICS:
        raw = raw_of(topic)
        if raw is not None:
            # once from the source, then as often as need be
            of_time(raw.select(*RAW.names), wanted).write.mode("overwrite").parquet(f"{folder}/raw_{topic}")
            raw = spark.read.schema(from_arrow_schema(RAW)).parquet(f"{folder}/raw_{topic}").select(*RAW.names)
        # a column that could name a topic tells nothing by being there
        found.append(None if raw is None or raw.isEmpty() else raw)
    states, told = found
    parts = None
    if path is not None and (states is not None or _has_transactions(decoded)):
        some = _within(_parts(spark, path), wanted)
        some.write.mode("overwrite").parquet(f"{folder}/transaction_parts")
        parts = spark.read.schema(from_arrow_schema(PARTS)).parquet(f"{folder}/transaction_parts")
    inputs = TransactionInputs(states, told, parts, of_groups=bool(wanted.groups))
    return inputs._replace(counts=counts_of(events)) if inputs.there and events is not None else inputs


def of_time(raw: DataFrame, wanted: Wanted) -> DataFrame:
    """Raw rows of the wanted time; they are of no group."""
    rows = raw.withColumn("group", F.lit(None).cast("string"))
    return rows.where(is_wanted(wanted, F.col("timestamp_ms"), of_any_group=F.lit(True))).drop("group")


def _has_transactions(decoded: DataFrame) -> bool:
    return not decoded.where((F.col("kind") == OFFSET_COMMIT) & F.col("is_transactional")).isEmpty()


def _parts(spark: SparkSession, path: str) -> DataFrame:
    """A worker reads all of a partition, for a transaction may begin in one segment and end in another."""
    partitions = partitions_of(path)

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("number").to_pylist():
                segments = tuple(SegmentFile(*one) for one in partitions[number])
                yield from batches_of(parts_of(path, segments), PARTS)

    tasks = min(len(partitions), max(spark.sparkContext.defaultParallelism, 1))
    numbers = spark.range(0, len(partitions), 1, tasks).toDF("number")
    return numbers.mapInArrow(read, from_arrow_schema(PARTS))


def _within(parts: DataFrame, wanted: Wanted) -> DataFrame:
    """Transactions that began in the wanted time, with the wanted groups."""
    rows = parts.withColumn("group", F.lit(None).cast("string"))
    rows = rows.where(is_wanted(wanted, F.col("start_ms"), of_any_group=F.lit(True))).drop("group")
    if not wanted.groups:
        return rows
    pattern = pattern_of(wanted.groups)
    rows = rows.withColumn("groups", F.filter("groups", lambda group: group.rlike(pattern)))
    return rows.where(F.size("groups") > 0)
