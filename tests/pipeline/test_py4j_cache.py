from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from muster.pipeline.session import CLASSES, cache_classes


class Jvm:
    """Records the requests."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.asked.append(name)
        return SimpleNamespace(method=len(self.asked))


def test_java_classes_and_methods_are_requested_once() -> None:
    jvm = Jvm()
    spark = cast(SparkSession, SimpleNamespace(sparkContext=SimpleNamespace(_jvm=jvm)))
    for _ in range(2):
        cache_classes(spark)
        assert jvm.functions.method == 1
        assert getattr(jvm, CLASSES[-1]).method == len(CLASSES)
    assert jvm.asked == list(CLASSES)


def test_spark_uses_the_cached_classes(spark: SparkSession) -> None:
    assert spark.range(1).select(F.initcap(F.lit("some text")).alias("it")).collect()[0]["it"] == "Some Text"
    functions = vars(spark.sparkContext._jvm)["org.apache.spark.sql.functions"]
    assert {"initcap", "lit"} <= vars(functions).keys()
