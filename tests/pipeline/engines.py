"""Where a test makes its tables: on Spark, or in this process (`pipeline/frames`), which needs much less time.

Most tests of tables run in this process. `tests/pipeline/tables/test_on_spark.py` compares both engines over the same
rows. `MUSTER_TABLES_ON=spark` runs all of these tests on Spark.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession

from muster.pipeline.decode import decode_all
from muster.pipeline.frames import frame_of
from muster.pipeline.schema import DECODED, RAW
from muster.pipeline.sources.segments import Reading, read_segments

TABLES_ON = "MUSTER_TABLES_ON"


class Engine:
    """Makes DataFrames. Without a session, the caller is in the block `frames.in_this_process`."""

    def __init__(self, spark: SparkSession | None = None) -> None:
        self._spark = spark

    def frame(self, table: pa.Table) -> DataFrame:
        """The rows of an Arrow table."""
        return frame_of(table) if self._spark is None else self._spark.createDataFrame(table)

    def raw(self, directory: Path, topic: str) -> DataFrame:
        """The records of a topic in a directory of segments."""
        if self._spark is None:
            return frame_of(pa.Table.from_batches(read_segments(str(directory), Reading(topic)), RAW))
        return self._spark.read.format("muster").option("topic", topic).load(str(directory))

    def decoded(self, directory: Path) -> DataFrame:
        """The decoded records of the offsets log in a directory of segments."""
        if self._spark is None:
            return frame_of(pa.Table.from_batches(decode_all(read_segments(str(directory))), DECODED))
        return self._spark.read.format("muster").option("rows", "decoded").load(str(directory))


def collected(rows: DataFrame) -> list[Row]:
    """The rows of a DataFrame of either engine, as Spark's rows."""
    if isinstance(rows, DataFrame):
        return rows.collect()
    return [_row(dict(zip(rows.columns, values, strict=True))) for values in rows.collect()]


def _row(value: Any) -> Any:
    if isinstance(value, dict):
        return Row(**{name: _row(one) for name, one in value.items()})
    return [_row(one) for one in value] if isinstance(value, list) else value
