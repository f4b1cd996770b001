"""Pushes the metrics of a process to a collector of OpenTelemetry, as its environment variables ask.

* `OTEL_EXPORTER_OTLP_ENDPOINT` (or `…_METRICS_ENDPOINT`): where the collector is, by HTTP.
* `OTEL_EXPORTER_OTLP_HEADERS` (or `…_METRICS_HEADERS`): `name=value,…`, for instance a token.
* `OTEL_METRIC_EXPORT_INTERVAL`: how often, in ms. `OTEL_SERVICE_NAME`: the name of the service.

A thread makes and sends the message. When the collector does not answer, the next push has the newer values.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import structlog

from muster.coordinator.config import ConfigError
from muster.coordinator.net.http_get import http_send
from muster.coordinator.server.exposition import COUNTER, HISTOGRAM, Histogram, Lines, Metric, unescaped
from muster.coordinator.system.clock import Clock, Timer
from muster.version import VERSION

log = structlog.get_logger("muster.http")

ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
OF_METRICS: Final = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
HEADERS: Final = "OTEL_EXPORTER_OTLP_HEADERS"
HEADERS_OF_METRICS: Final = "OTEL_EXPORTER_OTLP_METRICS_HEADERS"
INTERVAL: Final = "OTEL_METRIC_EXPORT_INTERVAL"
SERVICE: Final = "OTEL_SERVICE_NAME"
USUAL_MS: Final = 60_000
"""OpenTelemetry's default of the interval."""
LEAST_MS: Final = 1_000
Collected = Sequence[Metric | Lines]


class Push(NamedTuple):
    """Where metrics are pushed to, and how often."""

    url: str
    headers: Mapping[str, str]
    interval_ms: int
    service: str


def push_of(environment: Mapping[str, str]) -> Push | None:
    """The push that these variables ask for; None: they ask for none. Raises ConfigError."""
    url = environment.get(OF_METRICS) or None
    if url is None:
        base = environment.get(ENDPOINT)
        url = f"{base.rstrip('/')}/v1/metrics" if base else None
    if url is None:
        return None
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"{ENDPOINT}: http://HOST:PORT or https://HOST:PORT was expected")
    headers = {}
    for one in (environment.get(HEADERS_OF_METRICS) or environment.get(HEADERS) or "").split(","):
        name, separator, value = one.partition("=")
        if separator:
            headers[unquote(name.strip())] = unquote(value.strip())
    text = environment.get(INTERVAL, str(USUAL_MS))
    if not (text.isascii() and text.isdigit() and int(text) >= LEAST_MS):
        raise ConfigError(f"{INTERVAL}={text}: a number of ms, {LEAST_MS} or more, was expected")
    return Push(url, headers, int(text), environment.get(SERVICE) or "muster")


class OtlpPush:
    """Collects and pushes until `stop`."""

    def __init__(self, push: Push, clock: Clock, collect: Callable[[], Awaitable[Collected]], instance: str) -> None:
        """`clock`: the machine's. `instance`: the name of this process among others: its node."""
        self._push = push
        self._clock = clock
        self._collect = collect
        self._resource = {"service.name": push.service, "service.version": VERSION, "service.instance.id": instance}
        self._began_ns = clock.now().wall_ms * 1_000_000
        self._context = ssl.create_default_context() if push.url.startswith("https") else None
        self._timer: Timer | None = None
        self._pushing: asyncio.Task[None] | None = None
        self.fails = False
        """Whether the last push failed."""

    def start(self) -> None:
        """Push after the interval, and then again and again."""
        self._timer = self._clock.call_at(self._clock.mono_ms() + self._push.interval_ms, self._due)

    def _due(self) -> None:
        self.start()
        if self._pushing is None or self._pushing.done():
            self._pushing = asyncio.ensure_future(self.push())

    async def push(self) -> None:
        """Push the present metrics."""
        collected, now_ns = await self._collect(), self._clock.now().wall_ms * 1_000_000
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Exception | None] = loop.create_future()

        def send() -> None:
            error: Exception | None = None
            try:
                body = encoded(collected, self._resource, self._began_ns, now_ns)
                http_send(self._push.url, body, {"Content-Type": "application/x-protobuf", **self._push.headers},
                          self._context)  # fmt: skip
            except OSError as failed:
                error = failed
            loop.call_soon_threadsafe(sent, error)

        def sent(error: Exception | None) -> None:
            if not done.done():
                done.set_result(error)

        # the process ends without this thread, which a collector may hold for a minute
        threading.Thread(target=send, name="muster-otlp", daemon=True).start()
        error = await done
        if error is not None and not self.fails:
            log.warning("metrics cannot be pushed to the collector", why=str(getattr(error, "reason", error)))
        self.fails = error is not None

    def stop(self) -> None:
        """Push no more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._pushing is not None:
            self._pushing.cancel()


def encoded(collected: Collected, resource: Mapping[str, str], began_ns: int, now_ns: int) -> bytes:
    """The message for a collector (ExportMetricsServiceRequest). Counters are cumulative, since `began_ns`."""
    # imported in the thread, and only by servers that push
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
    from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE

    request = ExportMetricsServiceRequest()
    of_resource = request.resource_metrics.add()
    for name, text in resource.items():
        of_resource.resource.attributes.add(key=name).value.string_value = text
    of_scope = of_resource.scope_metrics.add()
    of_scope.scope.name, of_scope.scope.version = "muster", VERSION
    for one in collected:
        metric = of_scope.metrics.add(name=one.name.removesuffix("_total"), description=one.about)
        if one.kind == HISTOGRAM:
            metric.histogram.aggregation_temporality = AGGREGATION_TEMPORALITY_CUMULATIVE
            points: Any = metric.histogram.data_points
        elif one.kind == COUNTER:
            metric.sum.aggregation_temporality = AGGREGATION_TEMPORALITY_CUMULATIVE
            metric.sum.is_monotonic = True
            points = metric.sum.data_points
        else:
            points = metric.gauge.data_points
        for labels, value in _samples(one):
            point = points.add(start_time_unix_nano=began_ns, time_unix_nano=now_ns)
            for name, text in labels:
                point.attributes.add(key=name).value.string_value = text
            if isinstance(value, Histogram):
                _fill(point, value)
            else:
                point.as_double = value
    return bytes(request.SerializeToString())


def _samples(one: Metric | Lines) -> Iterator[tuple[list[tuple[str, str]], float | Histogram]]:
    if isinstance(one, Metric):
        for values, value in one.samples.items():
            yield list(zip(one.labels, values, strict=True)), value
        return
    for line in one.lines:
        yield unescaped(line)


def _fill(point: Any, histogram: Histogram) -> None:
    ends, counts, before = [], [], 0
    for end, below in histogram.buckets():
        if end != "+Inf":
            ends.append(float(end))
        counts.append(below - before)
        before = below
    point.count, point.sum = histogram.count, histogram.sum_us / 1e6
    point.explicit_bounds.extend(ends)
    point.bucket_counts.extend(counts)
