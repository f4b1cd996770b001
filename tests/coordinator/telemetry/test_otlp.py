"""Metrics of a push: which values are read, and which pushes are refused."""

from __future__ import annotations

import math

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, MetricsData

from muster.coordinator.telemetry.otlp import MAX_VISITED, decode
from muster.coordinator.telemetry.reports import MAX_NAME, MAX_SERIES, MalformedMetrics, Point
from tests.coordinator.telemetry.story import METRICS
from tests.coordinator.telemetry.support import attributes, metrics_data

LIMIT = 1 << 20


def test_a_gauge_of_a_client_is_read() -> None:
    assert decode(0, METRICS, LIMIT) == ({}, [Point("org.apache.kafka.consumer.test", 2.5, False)], False)


def test_labels_and_attributes_name_what_a_value_is_of() -> None:
    data = metrics_data({"m": 1.0}, {"group_id": "g", "secret": "s"}, {"node_id": "2", "a": "b"})
    pushed = decode(0, data.SerializeToString(), LIMIT)
    assert pushed.labels == {"group_id": "g"}
    assert [point.name for point in pushed.points] == ["m{a=b,node_id=2}"]


def test_sums_say_whether_they_are_changes() -> None:
    data = MetricsData()
    metrics = data.resource_metrics.add().scope_metrics.add().metrics
    for name, kind in (("d", "DELTA"), ("c", "CUMULATIVE")):
        total = metrics.add(name=name).sum
        total.aggregation_temporality = AggregationTemporality.Value(f"AGGREGATION_TEMPORALITY_{kind}")
        total.data_points.add(as_int=7)
    metrics.add(name="h").histogram.data_points.add(count=3)
    assert decode(0, data.SerializeToString(), LIMIT).points == [Point("d", 7.0, True), Point("c", 7.0, False)]


def test_values_that_are_no_numbers_and_long_names_are_left_out() -> None:
    data = metrics_data({"nan": math.nan, "inf": math.inf, "m" * (MAX_NAME + 1): 1.0, "ok": 1.0}, {})
    many = data.resource_metrics.add().scope_metrics.add().metrics.add(name="many").gauge.data_points.add(as_int=1)
    many.attributes.extend(attributes({f"k{number}": "" for number in range(MAX_NAME + 1)}))
    assert [point.name for point in decode(0, data.SerializeToString(), LIMIT).points] == ["ok"]


def test_a_push_with_too_many_series_is_cut() -> None:
    data = metrics_data({f"m{number}": 1.0 for number in range(MAX_SERIES + 1)}, {})
    pushed = decode(0, data.SerializeToString(), LIMIT)
    assert (len(pushed.points), pushed.is_cut) == (MAX_SERIES, True)


def test_a_push_of_many_empty_parts_is_cut() -> None:
    assert decode(0, b"\x0a\x00" * (MAX_VISITED + 1), LIMIT) == ({}, [], True)


@pytest.mark.parametrize("data", [b"\xff", METRICS[:-1]])
def test_bytes_that_are_no_metrics_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedMetrics):
        decode(0, data, LIMIT)
