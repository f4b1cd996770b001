"""Makes raw rows of any DataFrame of Kafka rows: Spark's Kafka connector, or a raw copy in Delta or Parquet.

`check_table` checks a table of raw rows in Parquet files before Spark starts.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import pyarrow as pa
from pyarrow import fs, parquet
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, DataType, TimestampNTZType, TimestampType

from muster.pipeline.decode import decode_all
from muster.pipeline.schema import DECODED, OFFSETS_TOPIC, RAW
from muster.pipeline.sources.segment_files import NoSource, file_system
from muster.pipeline.tables import shaped

CONNECTOR_OPTIONS: Final = {
    "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "true",
}
"""Settings of the session. Without them, Spark's connector reads no row of an internal topic."""

CONNECTOR_SPEED: Final = {
    "kafka.isolation.level": "read_committed",
    "kafka.exclude.internal.topics": "false",
    "kafka.fetch.max.wait.ms": "10",
    "kafka.max.poll.records": "5000",
}
"""Options of a read through Spark's connector. They read only committed rows, find internal topics by patterns too, and
are fast.
"""

EXPLANATION: Final = (
    "there is no row to read. Spark's Kafka connector answers like that, without an error, for internal topics such as "
    "__consumer_offsets, unless the session has spark.sql.streaming.kafka.useDeprecatedOffsetFetching=true "
    "(and the read kafka.exclude.internal.topics=false where it names topics by pattern)"
)

_NEEDED: Final = ("partition", "offset", "key", "value")


def lacking_columns(names: Collection[str]) -> str:
    """The columns of Kafka rows that `names` lacks, in words. It is empty if no column is missing."""
    lacking = [name for name in _NEEDED if name not in names]
    lacking += [] if "timestamp" in names or "timestamp_ms" in names else ["timestamp"]
    return f"rows of Kafka have no column {', '.join(lacking)}" if lacking else ""


def raw_rows(rows: DataFrame, topic: str = OFFSETS_TOPIC) -> DataFrame:
    """The rows of a DataFrame, in the columns of schema.RAW.

    The columns partition, offset, key and value are needed, and `timestamp` (a timestamp, or ms) or `timestamp_ms`. If
    a column `topic` exists, rows of other topics are left out. Raises ValueError if a column is missing or has another
    type.
    """
    types = {field.name: field.dataType for field in rows.schema.fields}
    if lacking := lacking_columns(types):
        raise ValueError(f"{lacking}; there are {', '.join(rows.columns)}")
    for name in ("key", "value"):
        if not isinstance(types[name], BinaryType):
            raise ValueError(f"column {name} is {types[name].simpleString()}: it must be binary, as Kafka keeps it")
    if "topic" in types:
        rows = rows.where(F.col("topic") == topic)
    when = "timestamp_ms" if "timestamp_ms" in types else "timestamp"
    known = {"topic": F.lit(topic), "timestamp_ms": _milliseconds(when, types[when])}
    return shaped(rows, RAW, known)


def _milliseconds(name: str, kind: DataType) -> Column:
    if isinstance(kind, TimestampNTZType):
        return F.unix_millis(F.col(name).cast(TimestampType()))
    return F.unix_millis(F.col(name)) if isinstance(kind, TimestampType) else F.col(name)


def some_rows(rows: DataFrame, topic: str = OFFSETS_TOPIC) -> DataFrame:
    """The same rows as `raw_rows`, of a DataFrame that must have rows.

    Raises NoSource with an explanation if no row exists. A stream need not have rows yet.
    """
    raw = raw_rows(rows, topic)
    if not rows.isStreaming and raw.isEmpty():
        raise NoSource(EXPLANATION)
    return raw


def decoded_rows(rows: DataFrame, topic: str = OFFSETS_TOPIC) -> DataFrame:
    """The rows of a DataFrame, decoded (schema.DECODED). Raises the same errors as `some_rows`."""
    return some_rows(rows, topic).mapInArrow(decode_all, from_arrow_schema(DECODED))


_MAX_CHECKED: Final = 64
"""At most this many files of a table are checked, because a remote store answers slowly."""
_BYTES: Final = (pa.binary(), pa.large_binary(), pa.null())
_EXPECTED: Final = "a table of raw rows in Parquet has columns partition, offset, timestamp, key, value"


def check_table(path: str) -> None:
    """Check that one Parquet file, or a folder with Parquet files, can be a table of raw rows. Raises NoSource."""
    system, root = file_system(path)
    files, folders = _files(system, root)
    if not files and not folders:
        raise NoSource(f"{path} holds no Parquet file, though it is a table's folder: {_EXPECTED}")
    for file in files[:_MAX_CHECKED]:
        try:
            with system.open_input_file(file.path) as stream:
                schema = parquet.read_schema(stream)
        except (pa.ArrowException, OSError) as error:
            why = str(error).partition(".")[0]
            raise NoSource(
                f"{path} cannot be read: {file.base_name} is no Parquet file ({why}): {_EXPECTED}"
            ) from error
        # the names of folders may give further columns
        if not folders and (lacking := lacking_columns(schema.names)):
            there = ", ".join(schema.names)
            raise NoSource(f"{path} is no copy of a log: {file.base_name}: {lacking}; there are {there}")
        for name in ("key", "value"):
            if name in schema.names and schema.field(name).type not in _BYTES:
                problem = f"column {name} is {schema.field(name).type}: it must be binary, as Kafka keeps it"
                raise NoSource(f"{path} is no copy of a log: {file.base_name}: {problem}")


def _files(system: fs.FileSystem, root: str) -> tuple[list[fs.FileInfo], list[fs.FileInfo]]:
    """The files that Spark would read, and the folders in which Spark would search for more files."""
    info = system.get_file_info(root)
    if info.type == fs.FileType.File:
        return [info], []
    entries = [one for one in system.get_file_info(fs.FileSelector(root)) if one.base_name[0] not in "._"]
    files = [one for one in entries if one.type == fs.FileType.File]
    return files, [one for one in entries if one.type == fs.FileType.Directory]
