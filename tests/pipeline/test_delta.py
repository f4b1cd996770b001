from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from muster.pipeline.output import NoDelta, prepare


def test_delta_is_refused_without_its_jar(spark: SparkSession) -> None:
    with pytest.raises(NoDelta, match=r"this: Delta Lake is not among Spark's jars: .*or take Parquet"):
        prepare(spark, "this")
