"""The bucket of a group is the same for Spark and for this process."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from muster.pipeline.follow.buckets import bucket_column, bucket_of, xxhash64

NAMES = [None, "", *("naïve-" * 20)[:71].split("-"), *(f"{'x' * length}é{length}" for length in range(70))]


def test_this_process_computes_sparks_hash(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(name,) for name in NAMES], "group string")
    found = rows.select("group", F.xxhash64("group").alias("hash"), bucket_column(F.col("group")).alias("bucket"))
    for row in found.collect():
        assert row["bucket"] == bucket_of(row["group"]), row
        if row["group"] is not None:
            assert row["hash"] % (1 << 64) == xxhash64(row["group"].encode()), row
