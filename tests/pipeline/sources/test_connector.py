"""Spark's own Kafka connector, as docs/pipeline-spark.md shows it; tests/conformance has more."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from muster.pipeline.sources.cluster import bounds
from muster.pipeline.sources.frame import CONNECTOR_OPTIONS, decoded_rows
from muster.pipeline.sources.segment_files import NoSource
from muster.pipeline.sources.segments import Reading
from tests.pipeline.connector import places, through_connector
from tests.pipeline.jars import CONNECTOR
from tests.pipeline.live import Live

pytestmark = pytest.mark.skipif(bool(CONNECTOR.why_not()), reason=CONNECTOR.why_not() or "the jars are there")
(SETTING,) = CONNECTOR_OPTIONS


def test_all_rows_of_an_internal_topic_come_by_the_recipe(live: Live, spark: SparkSession) -> None:
    _, end = bounds(live.client, Reading())
    found = places(decoded_rows(through_connector(spark.read, live.bootstrap)))
    there = [(partition, offset) for partition in sorted(end) for offset in range(end[partition])]
    # a reader of committed rows gets neither aborted rows nor markers
    assert len(found) == len(there) - live.aborted - live.markers
    hidden = set(there).difference(found)
    assert found == [place for place in there if place not in hidden]
    assert len({partition for partition, _ in hidden}) <= 1  # of the only group with transactions


def test_without_the_setting_there_is_an_error_and_no_empty_table(live: Live, spark: SparkSession) -> None:
    spark.conf.set(SETTING, "false")
    try:
        with pytest.raises(NoSource, match=f"{SETTING}=true"):
            decoded_rows(through_connector(spark.read, live.bootstrap))
    finally:
        spark.conf.set(SETTING, "true")
