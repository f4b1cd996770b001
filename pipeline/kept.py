"""Tables in Parquet files, read by Arrow in this process: a batch at a time, only the requested columns.

The page needs little. Each read of a table by Spark costs a plan and a job. So of a small log the page was a seventh of
the whole analysis. Files on other machines are read through Hadoop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import SparkSession

from muster.pipeline.output import file_system, is_local, plain

ROWS: Final = 65_536
"""Rows of one batch."""
NESTED_ROWS: Final = 1_024
"""Rows of one batch if a row has lists."""

Open = Callable[[], "str | HadoopFile"]


class ParquetTable(NamedTuple):
    """A table: its own columns, and its files in their order."""

    schema: pa.Schema
    files: Sequence[Open]

    def batches(self, *columns: str) -> Iterator[pa.RecordBatch]:
        """All rows, some columns."""
        for file in self._opened():
            with file:
                yield from self._of(file, columns, None)

    def rows(self, numbers: Sequence[int], *columns: str) -> Iterator[pa.RecordBatch]:
        """Some rows by their numbers (ascending), counted from 0 in the order of `batches`."""
        wanted = np.asarray(numbers, dtype=np.int64)
        begin = 0
        for file in self._opened():
            with file:
                for group in range(file.num_row_groups):
                    end = begin + file.metadata.row_group(group).num_rows
                    inside = wanted[np.searchsorted(wanted, begin) : np.searchsorted(wanted, end)]
                    if inside.size:
                        yield from _picked(self._of(file, columns, [group]), inside - begin)
                    begin = end

    def _opened(self) -> Iterator[parquet.ParquetFile]:
        return (parquet.ParquetFile(one(), memory_map=True) for one in self.files)

    def _of(
        self, file: parquet.ParquetFile, columns: Sequence[str], groups: Sequence[int] | None
    ) -> Iterator[pa.RecordBatch]:
        schema = pa.schema([self.schema.field(name) for name in columns])
        size = NESTED_ROWS if any(pa.types.is_nested(kind) for kind in schema.types) else ROWS
        for batch in file.iter_batches(size, columns=list(columns), row_groups=groups):
            yield batch.select(schema.names).cast(schema)


def _picked(batches: Iterator[pa.RecordBatch], numbers: np.ndarray[Any, Any]) -> Iterator[pa.RecordBatch]:
    begin = 0
    for batch in batches:
        end = begin + batch.num_rows
        inside = numbers[np.searchsorted(numbers, begin) : np.searchsorted(numbers, end)]
        if inside.size:
            yield batch.take(pa.array(inside - begin))
        begin = end


def kept(
    spark: SparkSession, folders: Mapping[str, Sequence[str]], schemas: Mapping[str, pa.Schema]
) -> dict[str, ParquetTable]:
    """Tables by name, each in some folders of Parquet files."""
    return {
        name: ParquetTable(schemas[name], [file for folder in of for file in _files(spark, folder)])
        for name, of in folders.items()
    }  # fmt: skip


def of_folder(folder: Path, schema: pa.Schema) -> ParquetTable:
    """A table in a folder of this machine."""
    return ParquetTable(schema, [partial(str, file) for file in sorted(folder.glob("*.parquet"))])


def _files(spark: SparkSession, folder: str) -> Sequence[Open]:
    if is_local(spark, folder):
        return of_folder(Path(plain(folder)), pa.schema([])).files
    system, where = file_system(spark, folder)
    found = sorted((one.getPath() for one in system.listStatus(where)), key=lambda path: str(path.getName()))
    names = (str(path.toString()) for path in found if str(path.getName()).endswith(".parquet"))
    return [partial(HadoopFile, spark, name) for name in names]


class HadoopFile:
    """A file of one of Hadoop's file systems, to read, with the methods of Python's files."""

    closed = False

    def __init__(self, spark: SparkSession, path: str) -> None:
        system, where = file_system(spark, path)
        self._length = int(system.getFileStatus(where).getLen())
        self._stream: Any = system.open(where)

    def read(self, size: int = -1) -> bytes:
        """So many bytes from the current position, fewer at the end."""
        wanted = self._length - self.tell() if size < 0 else size
        return bytes(self._stream.readNBytes(wanted))

    def seek(self, place: int, whence: int = 0) -> int:
        """Move to a position: counted from the beginning (0), from here (1), from the end (2)."""
        self._stream.seek(place + (0, self.tell(), self._length)[whence])
        return self.tell()

    def tell(self) -> int:
        """The current position."""
        return int(self._stream.getPos())

    def seekable(self) -> bool:
        """Yes."""
        return True

    def readable(self) -> bool:
        """Yes."""
        return True

    def writable(self) -> bool:
        """No."""
        return False

    def flush(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self.closed = True
            self._stream.close()
