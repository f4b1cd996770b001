"""Reads over Spark's Kafka connector, as docs/pipeline-spark.md shows."""

from __future__ import annotations

from typing import Any

from muster.pipeline.sources.frame import CONNECTOR_SPEED


def through_connector(reading: Any, bootstrap: str, **options: str) -> Any:
    """The offsets topic; `reading` is spark.read or spark.readStream."""
    how = {"kafka.bootstrap.servers": bootstrap, "subscribe": "__consumer_offsets", **CONNECTOR_SPEED, **options}
    return reading.format("kafka").options(**{name: value for name, value in how.items() if value}).load()


def places(decoded: Any) -> list[tuple[int, int]]:
    """All rows except those of groups that the connector itself joins to find its offsets."""
    others = decoded.where("NOT startswith(group, 'spark-kafka-')").select("log_partition", "log_offset")
    return sorted((row.log_partition, row.log_offset) for row in others.collect())
