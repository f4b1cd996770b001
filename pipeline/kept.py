"""Tables in Parquet files, read by Arrow in this process: a batch at a time, and only the requested columns.

The page needs few rows. Each read of a table by Spark costs a plan and a job. With Spark, the page took a seventh of
the whole analysis of a small log. Files on other machines are read through Hadoop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from muster.pipeline.preflight import plain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS: Final = 65_536
"""The number of rows of one batch."""
NESTED_ROWS: Final = 1_024
"""The number of rows of one batch if a row has lists."""

Open = Callable[[], "str | HadoopFile"]


class ParquetTable(NamedTuple):
    """A table: the columns of its own schema, and its files in their order."""

    schema: pa.Schema
    files: Sequence[Open]

    def batches(self, *columns: str) -> Iterator[pa.RecordBatch]:
        """All rows with some columns, batch by batch."""
        for file in self._opened():
            with file:
                yield from self._of(file, columns, None)

    def rows(self, numbers: Sequence[int], *columns: str) -> Iterator[pa.RecordBatch]:
        """The rows with these numbers (ascending). The numbers count from 0 in the order of `batches`."""
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
    """Tables by their names. Each table consists of the Parquet files in some folders."""
    return {
        name: ParquetTable(schemas[name], [file for folder in of for file in _files(spark, folder)])
        for name, of in folders.items()
    }  # fmt: skip


def of_folder(folder: Path, schema: pa.Schema) -> ParquetTable:
    """The table in a folder of this machine."""
    return ParquetTable(schema, [partial(str, file) for file in sorted(folder.glob("*.parquet"))])


def _files(spark: SparkSession, folder: str) -> Sequence[Open]:
    from muster.pipeline.output import file_system, is_local

    if is_local(spark, folder):
        return of_folder(Path(plain(folder)), pa.schema([])).files
    system, where = file_system(spark, folder)
    found = sorted((one.getPath() for one in system.listStatus(where)), key=lambda path: str(path.getName()))
    names = (str(path.toString()) for path in found if str(path.getName()).endswith(".parquet"))
    return [partial(HadoopFile, spark, name) for name in names]


class HadoopFile:
    """A file in one of Hadoop's file systems, opened for reading. It has the methods of Python's files."""

    closed = False

    def __init__(self, spark: SparkSession, path: str) -> None:
        from muster.pipeline.output import file_system

        system, where = file_system(spark, path)
        self._length = int(system.getFileStatus(where).getLen())
        self._stream: Any = system.open(where)

    def read(self, size: int = -1) -> bytes:
        """Read `size` bytes from the current position, or fewer at the end of the file."""
        wanted = self._length - self.tell() if size < 0 else size
        return bytes(self._stream.readNBytes(wanted))

    def seek(self, place: int, whence: int = 0) -> int:
        """Move to a position.

        `place` counts from the start of the file (0), the current position (1), or the end (2).
        """
        self._stream.seek(place + (0, self.tell(), self._length)[whence])
        return self.tell()

    def tell(self) -> int:
        """The current position."""
        return int(self._stream.getPos())

    def seekable(self) -> bool:
        """A Hadoop file can be read from any position."""
        return True

    def readable(self) -> bool:
        """A Hadoop file can be read."""
        return True

    def writable(self) -> bool:
        """A Hadoop file of this class cannot be written."""
        return False

    def flush(self) -> None:
        """Do nothing: the file is never written."""

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self.closed = True
            self._stream.close()
