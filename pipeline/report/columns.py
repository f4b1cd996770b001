"""The picture of all rebalances over time. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from muster.pipeline.report.axis import Times, counts, scale, short
from muster.pipeline.report.content import Row
from muster.pipeline.report.formatting import cause_words
from muster.pipeline.report.marks import legend
from muster.pipeline.report.markup import Column, Content, Html, figures, join, table, tag
from muster.pipeline.report.style import cause_class
from muster.pipeline.wording import DAY, HOUR, MINUTE, duration, moment, number, plural

_CAUSES_SHOWN: Final = 8
"""Columns of the table of figures."""


def over_time(buckets: Sequence[Row], bucket_ms: int, first_ms: int, last_ms: int) -> Html:
    """Columns of rebalances, stacked by cause, the most frequent one at the bottom. What belongs to a group's first
    formation or to a stop on purpose is no trouble and is not drawn: where a log begins it would swamp all else.
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
    told = (
        f"{plural(sum(totals.values()), 'rebalance')} from {_when(first_ms, bucket_ms)} to "
        f"{_when(last_ms, bucket_ms)} UTC; most, {heights[most]:,}, in the {_of(bucket_ms)} from "
        f"{_when(most, bucket_ms)}."
    )
    plot = _plot(drawn, order, heights, caption, told, (bucket_ms, first_ms, last_ms))
    figure = tag("figure", tag("figcaption", caption), plot, class_="plot")
    return join([figure, legend(order), _dim(left_out) or "", _figures(drawn, order, bucket_ms)])


def _dim(text: str | None) -> Html | None:
    return tag("p", text, class_="dim") if text else None


def _when(ms: int, bucket_ms: int) -> str:
    return moment(ms, seconds=bucket_ms < MINUTE)


def _of(bucket_ms: int) -> str:
    """`30 min`, and without the 1 `hour`."""
    return {MINUTE: "minute", HOUR: "hour", DAY: "day"}.get(bucket_ms, duration(bucket_ms))


def _plot(
    drawn: Sequence[Row],
    order: Sequence[str | None],
    heights: dict[int, int],
    caption: str,
    told: str,
    spans: tuple[int, int, int],
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
        words = f"{_when(at, bucket_ms)}: {row['rebalances']:,} {cause_words(row['cause']).title}"
        bars.append(
            tag(
                "rect",
                tag("title", words),
                x=f"{times.percent(at) * 10 + width * 0.08:.1f}",
                width=f"{width * 0.84:.1f}",
                y=f"{(top - high) / top * 100:.2f}",
                height=f"{row['rebalances'] / top * 100:.2f}",
                class_=cause_class(row["cause"]),
            )
        )
    picture = tag(
        "svg",
        tag("title", caption),
        tag("desc", told),
        grid([step / top * 100 for step in steps]),
        bars,
        viewBox="0 0 1000 100",
        preserveAspectRatio="none",
        class_="chart",
        role="img",
    )
    return [scale(steps, [short(step) for step in steps]), picture, times.row()]


def grid(heights: Sequence[float]) -> Html:
    """Lines across a picture, at percents of its height from below."""
    lines = "".join(f"M0 {100 - height:.2f}H1000" for height in heights)
    return tag("path", d=lines, class_="grid")


def _figures(drawn: Sequence[Row], order: Sequence[str | None], bucket_ms: int) -> Html:
    """The picture as a table."""
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
