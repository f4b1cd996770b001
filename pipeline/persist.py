"""Keep tables that others start from, without their plan; and write what is made of them, planned once.

Spark keeps the rows of a persisted table, but tables made of it still carry its plan. Each step is checked against all
steps before it, and a join of a table with its own descendants copies them. For the tables of facts this took more time
than the work itself.
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
    """Queries that begin in this block are not planned anew while they run; what they start from and `keep` has still
    is, if it was planned before.

    After each step of a query Spark writes its plan out for a page, whether there is one or not, with the plans of all
    that it starts from and that is kept: of the tables of facts, which start from each other, that was two thirds of
    the time that all plans took.
    """
    before = spark.conf.get(_ADAPTIVE)
    spark.conf.set(_ADAPTIVE, "false")
    try:
        yield
    finally:
        spark.conf.set(_ADAPTIVE, before or "true")


def keep(rows: DataFrame) -> DataFrame:
    """`rows`, computed when first needed and kept until `spark.catalog.clearCache`. Tables made of them do not carry
    their plan, if Spark's internals allow that: there is no public name for it.
    """
    kept = rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        return _as_leaf(kept)
    except (Py4JError, AttributeError, TypeError):  # another Spark's inside, or none that can be reached (Connect)
        return kept


def _as_leaf(kept: DataFrame) -> DataFrame:
    """The same rows, with Spark's own place of what it keeps (InMemoryRelation) for a plan."""
    spark = kept.sparkSession
    session = spark._jsparkSession
    place = session.sharedState().cacheManager().lookupCachedData(kept._jdf).get().cachedRepresentation()
    jvm: Any = spark._jvm
    return ClassicDataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, place), spark)
