"""Decodes the metrics of a push: MetricsData of the OpenTelemetry protocol, as `opentelemetry-proto` defines it.

Only the first push imports this module, in the thread that decodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isfinite
from typing import Any, Final

import cramjam
from google.protobuf.message import DecodeError
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_DELTA, MetricsData

from muster.coordinator.log.errors import CorruptBatch, MoreThanAllowed
from muster.coordinator.log.records.compression import unpack_set
from muster.coordinator.telemetry.reports import LABELS, MAX_NAME, MAX_SERIES, MalformedMetrics, Point, Pushed

MAX_VISITED: Final = 20_000
"""The most parts of a push that are read: the thread holds Python's lock, which the event loop needs."""


def decode(codec: int, data: bytes, max_bytes: int) -> Pushed:
    """The metrics of a push. `max_bytes`: the limit of unpacked bytes. Raises MalformedMetrics."""
    try:
        unpacked = unpack_set(codec, memoryview(data), max_bytes) if codec else data
        message = MetricsData.FromString(bytes(unpacked))
    except (CorruptBatch, MoreThanAllowed, DecodeError, cramjam.DecompressionError) as error:
        raise MalformedMetrics(str(error)) from error
    return _read(message)


def _read(message: Any) -> Pushed:
    pushed = Pushed({}, [], False)
    for visited, (metric, point, is_delta) in enumerate(_points(message, pushed.labels), 1):
        if len(pushed.points) >= MAX_SERIES or visited > MAX_VISITED:
            return pushed._replace(is_cut=True)
        if point is None:
            continue
        value = point.as_double if point.HasField("as_double") else float(point.as_int)
        key = _key(metric.name, point.attributes)
        if len(key) <= MAX_NAME and isfinite(value):  # Java's clients send NaN for an average of nothing
            pushed.points.append(Point(key, value, is_delta))
    return pushed


def _points(message: Any, labels: dict[str, str]) -> Iterator[tuple[Any, Any, bool]]:
    """Each data point with its metric, and whether its value is a change. Parts without points are (None, None)."""
    for of_resource in message.resource_metrics:
        yield None, None, False
        if not labels:
            labels.update(_labels(of_resource.resource.attributes))
        for of_scope in of_resource.scope_metrics:
            yield None, None, False
            for metric in of_scope.metrics:
                yield None, None, False
                total = metric.sum
                is_delta = total.aggregation_temporality == AGGREGATION_TEMPORALITY_DELTA
                for point in total.data_points:
                    yield metric, point, is_delta
                for point in metric.gauge.data_points:
                    yield metric, point, False


def _labels(attributes: Iterable[Any]) -> Iterator[tuple[str, str]]:
    for one in attributes:
        text = one.value.string_value
        if one.key in LABELS and len(text) <= MAX_NAME:
            yield one.key, text


def _key(name: str, attributes: Any) -> str:
    if not attributes or len(attributes) > MAX_NAME:
        return name if not attributes else " " * (MAX_NAME + 1)
    words = sorted(f"{one.key}={_text(one.value)}" for one in attributes)
    return f"{name}{{{','.join(words)}}}"


def _text(value: Any) -> str:
    kind = value.WhichOneof("value")
    return "" if kind is None else str(getattr(value, kind))[: MAX_NAME + 1]
