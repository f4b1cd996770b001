"""`keep_in_spark` and `planned_once` save planning time of Spark.

Spark keeps the rows of a persisted table, but tables made from it still carry its plan. Spark checks each step of a
plan against all steps before. In a join of a table with another table that was made from it, Spark copies the plan. For
the tables of the pipeline, this took more time than the work itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

_ADAPTIVE: Final = "spark.sql.adaptive.enabled"


@contextmanager
def planned_once(spark: SparkSession) -> Iterator[None]:
    """Queries that begin in this block are not planned again while they run.

    If tables that `keep` keeps were planned before, they are planned again all the same. After each step of a query
    Spark writes its plan as text, whether a page shows it or not. This plan has the plans of all kept tables that the
    query reads. Our tables read each other, so these texts took two thirds of the time for all plans.
    """
    before = spark.conf.get(_ADAPTIVE)
    spark.conf.set(_ADAPTIVE, "false")
    try:
        yield
    finally:
        spark.conf.set(_ADAPTIVE, before or "true")


def keep_in_spark(rows: DataFrame) -> DataFrame:
    """The same rows as `rows`. They are computed when first needed, and kept until `spark.catalog.clearCache`.

    Tables made from them do not carry their plan, if Spark's internals allow that. Spark has no public method for it.
    """
    kept = rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        return _as_leaf(kept)
    except (
        Py4JError,
        AttributeError,
        TypeError,
    ):  # another version of Spark, or one without access to the internals (Connect)
        return kept


def _as_leaf(kept: DataFrame) -> DataFrame:
    """The same rows. Their plan is only Spark's own store of kept rows (InMemoryRelation)."""
    spark = kept.sparkSession
    session = spark._jsparkSession
    place = session.sharedState().cacheManager().lookupCachedData(kept._jdf).get().cachedRepresentation()
    jvm: Any = spark._jvm
    return ClassicDataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, place), spark)
