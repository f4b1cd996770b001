"""The axes of the pictures: round numbers and times, and where they stand, in percents. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from muster.pipeline.report.markup import Html, tag
from muster.pipeline.wording import DAY, HOUR, MINUTE, SECOND, moment

_TIMES: Final = (
    *(100, SECOND, 5 * SECOND, 15 * SECOND, 30 * SECOND, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE),
    *(30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 28 * DAY),
)
TICKS: Final = 8
"""At most so many, unless it is said otherwise."""
_ROUND: Final = (1, 2, 5, 10)
_EDGE: Final = 4
"""Percent from the edges within which a text in the middle of its tick would stick out."""
LETTERS: Final = 8.4
"""So many have room in one of the parts into which the ticks cut a picture, also in the narrowest one."""
_THOUSANDS: Final = ("", " k", " M", " bn", " tn")


class Times:
    """The axis of times, UTC."""

    def __init__(self, begin_ms: int, end_ms: int) -> None:
        self.begin_ms, self.end_ms = begin_ms, max(end_ms, begin_ms + 1)

    def has(self, ms: int) -> bool:
        """Is a time on it?"""
        return self.begin_ms <= ms <= self.end_ms

    def percent(self, ms: float) -> float:
        """Where a time is; what lies beyond is at the edge."""
        within = min(max(ms, self.begin_ms), self.end_ms)
        return (within - self.begin_ms) / (self.end_ms - self.begin_ms) * 100

    def ticks(self, most: int = TICKS) -> list[tuple[float, str]]:
        """Round times: where, and in words. Midnight goes by its day."""
        span = self.end_ms - self.begin_ms
        step = next((one for one in _TIMES if span / one <= most), -(-span // most // DAY) * DAY)
        first = -(-self.begin_ms // step) * step
        places = list(range(first, self.end_ms + 1, step)) or [self.begin_ms]
        return _apart([(self.percent(one), _clock(one, step)) for one in places], 100 / most)

    def row(self, most: int = TICKS) -> Html:
        """The ticks below a picture."""
        told = (tag("span", text, style=f"left:{at:.2f}%", class_=_side(at)) for at, text in self.ticks(most))
        return tag("div", told, class_="ticks", aria_hidden="true")


def _apart(ticks: list[tuple[float, str]], part: float) -> list[tuple[float, str]]:
    """Without those at the edges that would touch their neighbours: their texts are beside their places. LETTERS have
    room in a `part` (percent) of the picture.
    """
    if len(ticks) > 1 and _side(ticks[0][0]) and _touch(ticks[0], ticks[1], part):
        ticks = ticks[1:]
    if len(ticks) > 1 and _side(ticks[-1][0]) and _touch(ticks[-1], ticks[-2], part):
        ticks = ticks[:-1]
    return ticks


def _touch(edge: tuple[float, str], other: tuple[float, str], part: float) -> bool:
    return len(edge[1]) + len(other[1]) * (1 if _side(other[0]) else 0.5) > abs(edge[0] - other[0]) / part * LETTERS


def _side(at: float) -> str | None:
    return "first" if at < _EDGE else "last" if at > 100 - _EDGE else None


def _clock(ms: int, step: int) -> str:
    if ms % DAY == 0:
        return moment(ms)[5:10]
    return f"{ms / SECOND % 60:.1f} s" if step < SECOND else moment(ms, day=False, seconds=step < MINUTE)


def numbers(most: float) -> list[float]:
    """Round numbers from 0 up to at least `most`, four steps at most."""
    if most <= 0:
        return [0.0, 1.0]
    size = 1.0
    while most / size > 10 * _ROUND[-1]:
        size *= 10
    while most / size <= 1:
        size /= 10
    step = next(size * one * scale for scale in (1, 10, 100) for one in _ROUND if most / (size * one * scale) <= 4)
    count = -int(-most // step)
    return [round(step * place, 9) for place in range(count + 1)]


def counts(most: int) -> list[int]:
    """The same for what is counted in wholes."""
    if most <= 4:
        return list(range(max(most, 1) + 1))
    return [round(one) for one in numbers(most)]


def short(value: float) -> str:
    """A number that has little room: `1.2 k`, `30 M`."""
    left, units = float(f"{value:.3g}"), list(_THOUSANDS)
    while abs(left) >= 1_000 and len(units) > 1:
        left, units = left / 1_000, units[1:]
    return f"{left:.3g}{units[0]}" if abs(left) < 1_000 else f"{left:,.0f}{units[0]}"


def scale(values: Sequence[float], texts: Sequence[str]) -> Html:
    """The axis of values beside a picture, 0 at the bottom. The picture's caption tells the unit."""
    top = values[-1] or 1
    told = (
        tag("span", text, style=f"bottom:{value / top * 100:.2f}%") for value, text in zip(values, texts, strict=True)
    )
    return tag("div", told, class_="scale", aria_hidden="true")
