"""Pushes for tests, made with the library that decodes them."""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

CONSUMER = "org.apache.kafka.consumer."
Gauges = Mapping[tuple[str, Mapping[str, str]], float]


def attributes(words: Mapping[str, str]) -> list[KeyValue]:
    """Attributes with texts as values."""
    return [KeyValue(key=key, value=AnyValue(string_value=text)) for key, text in words.items()]


def metrics_data(
    gauges: Mapping[str, float], labels: Mapping[str, str], tags: Mapping[str, str] | None = None
) -> MetricsData:
    """MetricsData in the form of Java's clients: one resource for each metric."""
    data = MetricsData()
    for name, value in gauges.items():
        one = data.resource_metrics.add()
        one.resource.attributes.extend(attributes(labels))
        metric = one.scope_metrics.add().metrics.add(name=name)
        point = metric.gauge.data_points.add(as_double=value)
        point.attributes.extend(attributes(tags or {}))
    return data


def of_member(group_id: str, member_id: str, **gauges: float) -> bytes:
    """A push of a consumer: `last_poll_seconds_ago=3` is org.apache.kafka.consumer.last.poll.seconds.ago."""
    named = {CONSUMER + name.replace("_", "."): value for name, value in gauges.items()}
    return metrics_data(named, {"group_id": group_id, "group_member_id": member_id}).SerializeToString()
