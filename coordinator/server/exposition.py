"""The text of metrics, as Prometheus (0.0.4) and OpenMetrics (1.0) read it.

The text is made in steps, since ten thousand groups have some hundred thousand samples. The reason to write it here
stands in docs/dev/decisions.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from muster.coordinator.system.jobs import Job

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
COUNTER: Final = "counter"
"""A counter only grows, from 0 at the start of the process. The name of a counter ends in `_total`."""
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"
LINES_AT_ONCE: Final = 500
"""How many lines are joined in one step."""

_VALUE: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_ESCAPED: Final = {"\\\\": "\\", "\\n": "\n", '\\"': '"'}
_ESCAPES: Final = re.compile(r'\\[\\n"]')
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_HELP: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})
_FIRST_BIT: Final = 7
_LAST_BIT: Final = 26
"""Buckets of a histogram end at powers of two, from 128 us to 67 s."""


class Exemplar(NamedTuple):
    """An event behind the newest change of a counter. `labels` name the event; `wall_ms`: its time."""

    labels: Mapping[str, str]
    wall_ms: int


class Histogram:
    """Durations, counted by the number of bits of their microseconds."""

    __slots__ = ("by_bits", "sum_us")

    def __init__(self) -> None:
        self.by_bits = [0] * 64
        self.sum_us = 0

    def add(self, took_us: int) -> None:
        """Count a duration."""
        self.by_bits[took_us.bit_length()] += 1
        self.sum_us += took_us

    @property
    def count(self) -> int:
        """The number of durations."""
        return sum(self.by_bits)

    def buckets(self) -> Iterator[tuple[str, int]]:
        """The end of each bucket in seconds, and the number of durations that are less."""
        below = sum(self.by_bits[:_FIRST_BIT])
        for bit in range(_FIRST_BIT, _LAST_BIT + 1):
            below += self.by_bits[bit]
            yield f"{(1 << bit) / 1e6:.9g}", below
        yield "+Inf", self.count


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `samples`: the values, by the texts of `labels`; () for a metric without labels.

    The values of a metric of the kind `HISTOGRAM` are histograms.
    """

    name: str
    kind: str
    about: str
    samples: Mapping[Any, Any]
    labels: tuple[str, ...] = ()
    exemplars: Mapping[Any, Exemplar] = field(default_factory=dict)


class Lines(NamedTuple):
    """A metric whose lines are made already."""

    name: str
    kind: str
    about: str
    lines: Sequence[str]


def single(name: str, kind: str, about: str, value: float) -> Metric:
    """A metric without labels."""
    return Metric(name, kind, about, {(): value})


def escaped(value: str) -> str:
    """The value of a label, as it stands in the text."""
    return value.translate(_VALUE)


def unescaped(line: str) -> tuple[list[tuple[str, str]], float]:
    """The labels and the value of a line."""
    named, _, value = line.rpartition(" ")
    return labels_of(named), float(value)


def labels_of(line: str) -> list[tuple[str, str]]:
    """The labels of a line, with those of its exemplar."""
    return [(name, _ESCAPES.sub(lambda found: _ESCAPED[found[0]], text)) for name, text in _LABEL.findall(line)]


def exposition(metrics: Iterable[Metric | Lines], *, is_open: bool = False) -> Job[list[bytes]]:
    """The parts of the text. `is_open`: in the format of OpenMetrics."""
    parts: list[bytes] = []
    lines: list[str] = []
    for metric in metrics:
        name = metric.name.removesuffix("_total") if is_open and metric.kind == COUNTER else metric.name
        lines.append(f"# HELP {name} {metric.about.translate(_HELP)}\n# TYPE {name} {metric.kind}\n")
        for line in metric.lines if isinstance(metric, Lines) else _lines_of(metric, is_open=is_open):
            lines.append(line)
            if len(lines) >= LINES_AT_ONCE:
                parts.append("".join(lines).encode())
                lines.clear()
                yield None
    if is_open:
        lines.append("# EOF\n")
    parts.append("".join(lines).encode())
    return parts


def _lines_of(metric: Metric, *, is_open: bool) -> Iterator[str]:
    for values, value in sorted(metric.samples.items()):
        labels = [f'{label}="{escaped(one)}"' for label, one in zip(metric.labels, values, strict=True)]
        if metric.kind == HISTOGRAM:
            yield from _histogram_lines(metric.name, labels, value)
            continue
        exemplar = metric.exemplars.get(values) if is_open else None
        yield f"{_named(metric.name, labels)} {value:.15g}{'' if exemplar is None else _shown(exemplar)}\n"


def _histogram_lines(name: str, labels: list[str], histogram: Histogram) -> Iterator[str]:
    for end, below in histogram.buckets():
        bucket = _named(f"{name}_bucket", [*labels, f'le="{end}"'])
        yield f"{bucket} {below}\n"
    yield f"{_named(f'{name}_sum', labels)} {histogram.sum_us / 1e6:.15g}\n"
    yield f"{_named(f'{name}_count', labels)} {histogram.count}\n"


def _named(name: str, labels: Sequence[str]) -> str:
    return f"{name}{{{','.join(labels)}}}" if labels else name


def _shown(exemplar: Exemplar) -> str:
    labels = ",".join(f'{label}="{escaped(value)}"' for label, value in exemplar.labels.items())
    return f" # {{{labels}}} 1 {exemplar.wall_ms / 1000:.3f}"
