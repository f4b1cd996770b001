"""The push of metrics to a collector of OpenTelemetry."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.error import URLError

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from structlog.testing import capture_logs

from muster.coordinator.config import ConfigError
from muster.coordinator.http import otlp_push
from muster.coordinator.http.otlp_push import OtlpPush, Push, encoded, push_of
from muster.coordinator.server.exposition import COUNTER, GAUGE, HISTOGRAM, Histogram, Lines, Metric, single, unescaped
from muster.coordinator.system.clock import ManualClock

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


def metrics() -> list[Metric | Lines]:
    took = Histogram()
    for us in (1, 200, 100_000_000):
        took.add(us)
    return [
        Metric("muster_x_total", COUNTER, "X.", {("g",): 3}, ("group",)),
        single("muster_up", GAUGE, "Up.", 1),
        Metric("muster_seconds", HISTOGRAM, "S.", {(): took}),
        Lines("kafka_lag", GAUGE, "Lag.", ['kafka_lag{group="a\\"\\\\\\n",p="0"} 7\n']),
    ]


def test_the_variables_of_opentelemetry_say_where_and_how_often() -> None:
    assert push_of({}) is None
    assert push_of({ENDPOINT: "http://c:4318/"}) == Push("http://c:4318/v1/metrics", {}, 60_000, "muster")
    given = {
        ENDPOINT: "http://c:4318",
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "https://m:4318/push",
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20x, b=2,odd",
        "OTEL_METRIC_EXPORT_INTERVAL": "5000",
        "OTEL_SERVICE_NAME": "groups",
    }
    assert push_of(given) == Push("https://m:4318/push", {"authorization": "Bearer x", "b": "2"}, 5_000, "groups")
    for wrong in ({ENDPOINT: "c:4318"}, {ENDPOINT: "http://c", "OTEL_METRIC_EXPORT_INTERVAL": "1"}):
        with pytest.raises(ConfigError):
            push_of(wrong)


def test_the_message_has_each_sample_with_its_labels() -> None:
    data = encoded(metrics(), {"service.name": "muster"}, 1, 2)
    (of_resource,) = ExportMetricsServiceRequest.FromString(data).resource_metrics
    assert of_resource.resource.attributes[0].value.string_value == "muster"
    counter, up, took, lag = of_resource.scope_metrics[0].metrics
    assert (counter.name, counter.sum.is_monotonic, counter.sum.data_points[0].as_double) == ("muster_x", True, 3.0)
    assert [(one.key, one.value.string_value) for one in counter.sum.data_points[0].attributes] == [("group", "g")]
    assert (up.gauge.data_points[0].as_double, up.gauge.data_points[0].time_unix_nano) == (1.0, 2)
    (point,) = took.histogram.data_points
    assert (point.count, sum(point.bucket_counts), len(point.bucket_counts)) == (3, 3, len(point.explicit_bounds) + 1)
    assert point.bucket_counts[0] == point.bucket_counts[-1] == 1
    assert [(one.key, one.value.string_value) for one in lag.gauge.data_points[0].attributes] == [
        ("group", 'a"\\\n'), ("p", "0"),
    ]  # fmt: skip
    assert unescaped("x 1.5\n") == ([], 1.5)


async def test_metrics_are_pushed_again_and_again_and_a_failure_is_logged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, sent, answers = ManualClock(), list[tuple[str, Any]](), [None, URLError("away"), URLError("away"), None]

    def send(url: str, body: bytes, headers: dict[str, str], _: object) -> None:
        sent.append((url, headers))
        assert ExportMetricsServiceRequest.FromString(body).resource_metrics
        error = answers.pop(0)
        if error is not None:
            raise error

    async def collect() -> list[Metric | Lines]:
        return metrics()

    monkeypatch.setattr(otlp_push, "http_send", send)
    push = OtlpPush(Push("http://c/v1/metrics", {"a": "b"}, 5_000, "muster"), clock, collect, "1")
    push.start()
    with capture_logs() as lines:
        for number in range(4):
            clock.advance(5_000)
            assert push._pushing is not None
            await asyncio.wait_for(push._pushing, 10)
            assert (len(sent), push.fails) == (number + 1, number in (1, 2))
    assert [one["why"] for one in lines] == ["away"]
    assert sent[0] == ("http://c/v1/metrics", {"Content-Type": "application/x-protobuf", "a": "b"})
    push.stop()
    clock.advance(60_000)
    assert len(sent) == 4
