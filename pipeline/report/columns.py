"""The axes of the pictures, and the picture of all rebalances over time. Pure.

Axes have round numbers and times. Positions on an axis are in percent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from muster.pipeline.report.content import Row
from muster.pipeline.report.formatting import cause_class, cause_words, legend
from muster.pipeline.report.markup import Column, Content, Html, figures, join, table, tag
from muster.pipeline.wording import DAY, HOUR, MINUTE, SECOND, duration, moment, number, plural

_TIMES: Final = (
    *(100, SECOND, 5 * SECOND, 15 * SECOND, 30 * SECOND, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE),
    *(30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 28 * DAY),
)
TICKS: Final = 8
"""The largest number of ticks, unless the caller gives another number."""
_ROUND: Final = (1, 2, 5, 10)
_EDGE: Final = 4
"""If a tick is nearer to an edge than this (in percent), a text in its middle would stick out."""
LETTERS: Final = 8.4
"""The number of letters that fit into the space of one tick, even in the narrowest picture."""
_THOUSANDS: Final = ("", " k", " M", " bn", " tn")


class Times:
    """The axis of times, in UTC."""

    def __init__(self, begin_ms: int, end_ms: int) -> None:
        self.begin_ms, self.end_ms = begin_ms, max(end_ms, begin_ms + 1)

    def has(self, ms: int) -> bool:
        """Whether a time is on the axis."""
        return self.begin_ms <= ms <= self.end_ms

    def percent(self, ms: float) -> float:
        """The position of a time; a time beyond the axis is at the edge."""
        within = min(max(ms, self.begin_ms), self.end_ms)
        return (within - self.begin_ms) / (self.end_ms - self.begin_ms) * 100

    def ticks(self, most: int = TICKS) -> list[tuple[float, str]]:
        """At most `most` round times: the position and the text of each. Midnight has its day as text."""
        span = self.end_ms - self.begin_ms
        step = next((one for one in _TIMES if span / one <= most), -(-span // most // DAY) * DAY)
        first = -(-self.begin_ms // step) * step
        places = list(range(first, self.end_ms + 1, step)) or [self.begin_ms]
        return _apart([(self.percent(one), _clock(one, step)) for one in places], 100 / most)

    def row(self, most: int = TICKS) -> Html:
        """The row of ticks below a picture, as HTML."""
        description = (tag("span", text, style=f"left:{at:.2f}%", class_=_side(at)) for at, text in self.ticks(most))
        return tag("div", description, class_="ticks", aria_hidden="true")


def _apart(ticks: list[tuple[float, str]], part: float) -> list[tuple[float, str]]:
    """The ticks without those at the edges whose texts would touch the texts of their neighbours.

    The text of a tick at an edge stands beside its position. LETTERS fit into a `part` (percent) of the picture.
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
    """Round numbers from 0 up to at least `most`, in at most four steps."""
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
    """Round whole numbers from 0 up to at least `most`."""
    if most <= 4:
        return list(range(max(most, 1) + 1))
    return [round(one) for one in numbers(most)]


def short(value: float) -> str:
    """A number in few letters, as in `1.2 k` or `30 M`."""
    left, units = float(f"{value:.3g}"), list(_THOUSANDS)
    while abs(left) >= 1_000 and len(units) > 1:
        left, units = left / 1_000, units[1:]
    return f"{left:.3g}{units[0]}" if abs(left) < 1_000 else f"{left:,.0f}{units[0]}"


def scale(values: Sequence[float], texts: Sequence[str]) -> Html:
    """The axis of values beside a picture, with 0 at the bottom. The caption of the picture has the unit."""
    top = values[-1] or 1
    description = (
        tag("span", text, style=f"bottom:{value / top * 100:.2f}%") for value, text in zip(values, texts, strict=True)
    )
    return tag("div", description, class_="scale", aria_hidden="true")


_CAUSES_SHOWN: Final = 8
"""The number of causes that have their own column in the table of figures."""


Target = Callable[[Row], str | None]
"""The place to which a bar is a link; None: the bar is no link."""


def over_time(
    buckets: Sequence[Row], bucket_ms: int, first_ms: int, last_ms: int, target: Target = lambda _: None
) -> Html:
    """A picture of rebalances over time: columns stacked by cause, with the most frequent cause at the bottom.

    The picture has no rebalances of a group's first formation or of a stop on purpose, which are no trouble. At the
    start of a log they would hide all others.
    """
    drawn = [row for row in buckets if not row["is_planned"]]
    planned = sum(row["rebalances"] for row in buckets if row["is_planned"])
    left_out = (
        f"{plural(planned, 'rebalance')} of first formations and of stops on purpose: not drawn." if planned else None
    )
    heights: dict[int, int] = {}
    totals: dict[str | None, int] = {}
    for row in drawn:
        heights[row["bucket_ms"]] = heights.get(row["bucket_ms"], 0) + row["rebalances"]
        totals[row["cause"]] = totals.get(row["cause"], 0) + row["rebalances"]
    if not heights:
        return join([tag("p", "No other rebalances." if planned else "No rebalances.", class_="dim"), _dim(left_out)])
    order = sorted(totals, key=lambda one: (-totals[one], one or ""))
    caption = f"Number of rebalances in each {_of(bucket_ms)}, by cause"
    most = max(heights, key=lambda one: (heights[one], -one))
    description = (
        f"{plural(sum(totals.values()), 'rebalance')} from {_when(first_ms, bucket_ms)} to "
        f"{_when(last_ms, bucket_ms)} UTC; most, {heights[most]:,}, in the {_of(bucket_ms)} from "
        f"{_when(most, bucket_ms)}."
    )
    plot = _plot(drawn, order, heights, caption, description, (bucket_ms, first_ms, last_ms), target)
    figure = tag("figure", tag("figcaption", caption), plot, class_="plot")
    return join([figure, legend(order), _dim(left_out) or "", _figures(drawn, order, bucket_ms)])


def _dim(text: str | None) -> Html | None:
    return tag("p", text, class_="dim") if text else None


def _when(ms: int, bucket_ms: int) -> str:
    return moment(ms, seconds=bucket_ms < MINUTE)


def _of(bucket_ms: int) -> str:
    """A length of time in words: `30 min`, or `hour` without the 1."""
    return {MINUTE: "minute", HOUR: "hour", DAY: "day"}.get(bucket_ms, duration(bucket_ms))


def _plot(
    drawn: Sequence[Row],
    order: Sequence[str | None],
    heights: dict[int, int],
    caption: str,
    description: str,
    spans: tuple[int, int, int],
    target: Target,
) -> list[Content]:
    bucket_ms, first_ms, last_ms = spans
    start = first_ms // bucket_ms * bucket_ms
    end = (last_ms // bucket_ms + 1) * bucket_ms
    steps = counts(max(heights.values()))
    top = steps[-1]
    times = Times(start, end)
    reached: dict[int, int] = {}
    bars: list[Content] = []
    width = bucket_ms / (end - start) * 1_000
    for row in sorted(drawn, key=lambda one: (one["bucket_ms"], order.index(one["cause"]))):
        at, low = row["bucket_ms"], reached.get(row["bucket_ms"], 0)
        reached[at] = high = low + row["rebalances"]
        most_of = f" (most of {row['group']})" if row.get("group") else ""
        words = f"{_when(at, bucket_ms)}: {row['rebalances']:,} {cause_words(row['cause']).title}{most_of}"
        bar = tag(
            "rect",
            tag("title", words),
            x=f"{times.percent(at) * 10 + width * 0.08:.1f}",
            width=f"{width * 0.84:.1f}",
            y=f"{(top - high) / top * 100:.2f}",
            height=f"{row['rebalances'] / top * 100:.2f}",
            class_=cause_class(row["cause"]),
        )
        # the table of figures has the same content for a keyboard
        where = target(row)
        bars.append(bar if where is None else tag("a", bar, href=where, tabindex="-1"))
    picture = tag(
        "svg",
        tag("title", caption),
        tag("desc", description),
        grid([step / top * 100 for step in steps]),
        bars,
        viewBox="0 0 1000 100",
        preserveAspectRatio="none",
        class_="chart",
        role="img",
    )
    return [scale(steps, [short(step) for step in steps]), picture, times.row()]


def grid(heights: Sequence[float]) -> Html:
    """Lines across a picture, at these heights in percent from its bottom."""
    lines = "".join(f"M0 {100 - height:.2f}H1000" for height in heights)
    return tag("path", d=lines, class_="grid")


def _figures(drawn: Sequence[Row], order: Sequence[str | None], bucket_ms: int) -> Html:
    """The figures of the picture as a table."""
    shown = order[:_CAUSES_SHOWN]
    by_time: dict[int, dict[str | None, int]] = {}
    for row in drawn:
        counted = by_time.setdefault(row["bucket_ms"], {})
        counted[row["cause"]] = counted.get(row["cause"], 0) + row["rebalances"]
    columns = [
        Column("from (UTC)", is_head=True, is_time=True),
        *(Column(cause_words(one).title, True) for one in shown),
    ]
    columns += [Column("all", True)]
    rows = (
        (_when(at, bucket_ms), *(number(found[one]) if found.get(one) else None for one in shown),
         number(sum(found.values())))
        for at, found in sorted(by_time.items())
    )  # fmt: skip
    return figures(table(columns, rows))
