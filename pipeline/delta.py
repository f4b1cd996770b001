"""Delta Lake, if its jar is there: as a source, and for a follower's tables, where each version is a transaction."""

from __future__ import annotations

from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types
from pyspark.sql import DataFrame, SparkSession

EXTENSION: Final = {"spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension"}
"""What a session has to be started with."""
_FEW: Final = "spark.databricks.delta.snapshotPartitions"
"""In how many parts the log of a table is read. The default of 50 is slow for tables of a few files."""
_PARTS: Final = "2"
_CATALOG: Final = ("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")


class NoDelta(ValueError):
    """Delta Lake is not there; the message says how to get it."""


def prepare(spark: SparkSession, what: str) -> None:
    """Prepare a session that was started with EXTENSION. Raises NoDelta; `what` needs Delta."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    try:
        jvm.org.apache.spark.util.Utils.classForName(_CATALOG[1], True, False)
    except Py4JError:
        raise NoDelta(
            f"{what}: Delta Lake is not among Spark's jars: for Spark 4.2 give "
            "PYSPARK_SUBMIT_ARGS='--packages io.delta:delta-spark_4.2_2.13:4.4.0 pyspark-shell' "
            "(or --packages to spark-submit), or take Parquet"
        ) from None
    spark.conf.set(*_CATALOG)
    if spark.conf.get(_FEW, None) is None:
        spark.conf.set(_FEW, _PARTS)


def write(table: DataFrame, folder: str) -> None:
    """Replace the rows of a table. Readers see the old rows or the new ones."""
    table.write.format("delta").mode("overwrite").save(folder)
