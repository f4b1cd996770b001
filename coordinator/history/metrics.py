"""Figures for who watches a server, in the text format of Prometheus (version 0.0.4). Pure; written by hand, for it is
two lines for each figure, and a library would take longer to import than all else here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
COUNTER: Final = "counter"
"""It only grows, from 0 at the start of the process; its name ends in `_total`."""
GAUGE: Final = "gauge"
"""It is what it is now."""

_VALUE: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure. `samples`: its values, each by a tuple of texts for its labels, in the order of `labels`; without
    labels there is one, by ().
    """

    name: str
    kind: str
    about: str
    samples: Mapping[Any, float]
    labels: tuple[str, ...] = ()


def single(name: str, kind: str, about: str, value: float) -> Metric:
    """A figure without labels."""
    return Metric(name, kind, about, {(): value})


def text(metrics: Iterable[Metric]) -> str:
    """What is answered to who asks."""
    lines: list[str] = []
    for metric in metrics:
        lines.append(f"# HELP {metric.name} {metric.about.translate(_HELP)}")
        lines.append(f"# TYPE {metric.name} {metric.kind}")
        for values, value in sorted(metric.samples.items()):
            pairs = zip(metric.labels, values, strict=True)
            labels = ",".join(f'{label}="{one.translate(_VALUE)}"' for label, one in pairs)
            lines.append(f"{metric.name}{{{labels}}} {value:.15g}" if labels else f"{metric.name} {value:.15g}")
    return "".join(f"{line}\n" for line in lines)
