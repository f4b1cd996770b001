"""Writes decoded rows as Parquet. The rows of each kind are in their own files (`kind=commit/…`).

On this machine, the workers that decode also write the files, and report only their names to Spark. To move rows of
thirty columns into the JVM and back costs twice as much as decoding. On other machines, Spark writes the files.
"""

from __future__ import annotations

import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.pandas.types import from_arrow_schema

from muster.pipeline.decode import decode_all
from muster.pipeline.output import is_local
from muster.pipeline.preflight import plain
from muster.pipeline.schema import DECODED, OTHER_COMMIT, table_columns
from muster.pipeline.wanted import Wanted, batch_filter

Batches = Iterable[pa.RecordBatch]

WRITTEN: Final = pa.schema([("kind", pa.string()), ("name", pa.string()), ("rows", pa.int64())])
"""The report of a worker: a row for each file. The names of files are relative to the folder."""

GROUP_ROWS: Final = 250_000
GROUP_BYTES: Final = 32 << 20
"""A row group of a kind has about this many rows, or bytes."""

_REPEATED: Final = ("group", "topic", "metadata", "topic_id", "protocol_type", "protocol", "record_name")
"""The columns that have few different values, so that a dictionary is useful."""

_WRITERS: Final = "spark.sql.maxConcurrentOutputFileWriters"
_AT_ONCE: Final = "16"


class Work(NamedTuple):
    """The work of decoding: `decode` makes decoded rows from `rows`, in the workers."""

    rows: DataFrame
    decode: Callable[[Batches], Iterator[pa.RecordBatch]]


def work_of_rows(raw: DataFrame) -> Work:
    """The work of decoding rows of schema.RAW."""
    return Work(raw, decode_all)


def work_of_reader(spark: SparkSession, reader: DataSourceReader) -> Work:
    """The work for a reader that gives decoded rows. A row is the number of a partition to read."""
    partitions = reader.partitions()
    numbers = spark.range(0, len(partitions), 1, len(partitions)).toDF("number")

    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("number").to_pylist():
                yield from reader.read(partitions[number])

    return Work(numbers, read)


def write_decoded(work: Work, folder: str, wanted: Wanted) -> dict[str, int]:
    """Decode, and write the wanted rows into `folder` in place of old ones. Returns the number of rows by kind.

    Rows OTHER_COMMIT are written too, but not counted.
    """
    spark = work.rows.sparkSession
    if is_local(spark, folder):
        return _by_workers(work, Path(plain(folder)), wanted)
    decode, keep = work.decode, batch_filter(wanted)
    decoded = work.rows.mapInArrow(lambda batches: map(keep, decode(batches)), from_arrow_schema(DECODED))
    with many_files(spark):
        decoded.write.mode("overwrite").partitionBy("kind").parquet(folder)
    written = spark.read.schema(from_arrow_schema(DECODED)).parquet(folder)
    counted = written.where(F.col("kind") != OTHER_COMMIT).groupBy("kind").count()
    return {row["kind"]: row["count"] for row in counted.collect()}


@contextmanager
def many_files(spark: SparkSession) -> Iterator[None]:
    """Queries that begin in this block may have many files open, so rows need not be sorted by kind first."""
    before = spark.conf.get(_WRITERS)
    spark.conf.set(_WRITERS, _AT_ONCE)
    try:
        yield
    finally:
        spark.conf.set(_WRITERS, before or "0")


def _by_workers(work: Work, folder: Path, wanted: Wanted) -> dict[str, int]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    decode, target = work.decode, str(folder.absolute())

    def write(batches: Batches) -> Iterator[pa.RecordBatch]:
        return write_kinds(map(batch_filter(wanted), decode(batches)), Path(target))

    written = work.rows.mapInArrow(write, from_arrow_schema(WRITTEN)).collect()
    # a task that failed was tried again. Its first try left files that are not in the report
    names = {row["name"] for row in written}
    for file in folder.rglob("*.parquet"):
        if file.relative_to(folder).as_posix() not in names:
            file.unlink()
    rows: Counter[str] = Counter()
    for row in written:
        rows[row["kind"]] += row["rows"]
    rows.pop(OTHER_COMMIT, None)
    return dict(rows)


def write_kinds(batches: Batches, folder: Path) -> Iterator[pa.RecordBatch]:
    """Write decoded rows into files with new names, one file for each kind. The report (WRITTEN) comes at the end."""
    files = Files(folder)
    with files:
        for batch in batches:
            for kind in batch.column("kind").unique().to_pylist():
                files.add(f"kind={kind}", table_columns(kind), _of_kind(batch, kind))
    rows = [{"kind": part.removeprefix("kind="), "name": name, "rows": rows} for part, name, rows in files.written()]
    yield pa.RecordBatch.from_pylist(rows, schema=WRITTEN)


def _of_kind(batch: pa.RecordBatch, kind: str) -> pa.RecordBatch:
    is_it = pa.compute.equal(batch.column("kind"), kind)
    return batch if is_it.true_count == batch.num_rows else batch.filter(is_it)


class Files:
    """Writes rows into files with new names below a folder, one file for each part: a path such as `kind=commit`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, _File] = {}

    def __enter__(self) -> Files:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()

    def add(self, part: str, columns: Sequence[str], rows: pa.RecordBatch) -> None:
        """Add rows to a part. The file has only these columns."""
        file = self._files.get(part)
        if file is None:
            file = self._files[part] = _File(self._folder, part, columns)
        file.add(rows)

    def written(self) -> Iterator[tuple[str, str, int]]:
        """The part, the name below the folder, and the number of rows of each file."""
        return ((part, file.name, file.rows) for part, file in self._files.items())


class _File:
    """The file of one part. It lacks the columns that the rows of the part never fill."""

    def __init__(self, folder: Path, part: str, columns: Sequence[str]) -> None:
        self.name = f"{part}/{uuid.uuid4()}.parquet"
        self.rows = 0
        self._columns = list(columns)
        path = folder / self.name
        path.parent.mkdir(parents=True, exist_ok=True)
        schema = pa.schema([DECODED.field(name) for name in self._columns])
        repeated = [name for name in self._columns if name in _REPEATED]
        self._writer = parquet.ParquetWriter(path, schema, use_dictionary=repeated, compression="snappy")
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_rows = self._gathered_bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        own = batch.select(self._columns)
        self.rows += own.num_rows
        self._gathered.append(own)
        self._gathered_rows += own.num_rows
        self._gathered_bytes += own.nbytes
        if self._gathered_rows >= GROUP_ROWS or self._gathered_bytes >= GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        """Write the remaining rows, and end the file."""
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._gathered:
            self._writer.write_table(pa.Table.from_batches(self._gathered), row_group_size=self._gathered_rows)
        self._gathered = []
        self._gathered_rows = self._gathered_bytes = 0
