"""Metrics of a server, in the text format of Prometheus (version 0.0.4). Pure.

The format needs two lines of code for each metric. The import of a library would take longer than that of all else
here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
COUNTER: Final = "counter"
"""A counter only grows, from 0 at the start of the process. Its name ends in `_total`."""
GAUGE: Final = "gauge"
"""A gauge has its present value."""

_VALUE: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `samples`: its values, each by a tuple of texts for its labels, in the order of `labels`.

    A metric without labels has one value, by the key ().
    """

    name: str
    kind: str
    about: str
    samples: Mapping[Any, float]
    labels: tuple[str, ...] = ()


def single(name: str, kind: str, about: str, value: float) -> Metric:
    """A metric without labels."""
    return Metric(name, kind, about, {(): value})


def text(metrics: Iterable[Metric]) -> str:
    """The body of the answer."""
    lines: list[str] = []
    for metric in metrics:
        lines.append(f"# HELP {metric.name} {metric.about.translate(_HELP)}")
        lines.append(f"# TYPE {metric.name} {metric.kind}")
        for values, value in sorted(metric.samples.items()):
            pairs = zip(metric.labels, values, strict=True)
            labels = ",".join(f'{label}="{one.translate(_VALUE)}"' for label, one in pairs)
            lines.append(f"{metric.name}{{{labels}}} {value:.15g}" if labels else f"{metric.name} {value:.15g}")
    return "".join(f"{line}\n" for line in lines)
