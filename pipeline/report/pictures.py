"""The pictures of the page. Their text is text, so that it is readable on a phone. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from muster.pipeline.report.content import Row, Story
from muster.pipeline.report.formatting import cause_words, why
from muster.pipeline.report.lanes import Lane, lanes_of, share_of
from muster.pipeline.report.markup import Content, Html, join, tag
from muster.pipeline.report.style import cause_class
from muster.pipeline.wording import DAY, HOUR, MINUTE, SECOND, duration, moment, plural

_STEPS: Final = (
    *(100, SECOND, 5 * SECOND, 15 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE),
    *(HOUR, 3 * HOUR, 6 * HOUR, DAY, 7 * DAY),
)
_TICKS: Final = 9
_WIDE: Final = 2.5
"""Percent of the width from which on a number fits."""
_MARK_APART: Final = 1.3
"""Percent between letters that can be told apart."""
_EDGE: Final = 3
"""Percent from the edges within which a tick's text would stick out."""


def mark(cause: str | None) -> Html:
    """The letter of a cause in its colour."""
    words = cause_words(cause)
    return tag("span", words.mark, class_=f"mark {cause_class(cause)}", title=words.title)


def legend(causes: Sequence[str | None]) -> Html:
    """What the letters and colours mean."""
    return tag("p", ((tag("span", mark(one), " ", cause_words(one).title)) for one in causes), class_="legend")


def over_time(buckets: Sequence[Row], bucket_ms: int, first_ms: int, last_ms: int) -> Html:
    """Columns of rebalances, stacked by cause; the most frequent cause is at the bottom."""
    start = first_ms // bucket_ms * bucket_ms
    count = (last_ms - start) // bucket_ms + 1
    heights: dict[int, int] = {}
    totals: dict[str | None, int] = {}
    for row in buckets:
        heights[row["bucket_ms"]] = heights.get(row["bucket_ms"], 0) + row["rebalances"]
        totals[row["cause"]] = totals.get(row["cause"], 0) + row["rebalances"]
    top = max(heights.values(), default=0)
    if not top:
        return tag("p", "No rebalances.", class_="dim")
    order = {cause: place for place, cause in enumerate(sorted(totals, key=lambda one: (-totals[one], one or "")))}
    reached: dict[int, int] = {}
    bars: list[Content] = []
    for row in sorted(buckets, key=lambda one: (one["bucket_ms"], order[one["cause"]])):
        at, low = row["bucket_ms"], reached.get(row["bucket_ms"], 0)
        reached[at] = high = low + row["rebalances"]
        told = f"{moment(at, seconds=False)}: {row['rebalances']:,} {cause_words(row['cause']).title}"
        bars.append(
            tag(
                "rect",
                tag("title", told),
                x=f"{(at - start) / bucket_ms + 0.1:.2f}",
                width="0.8",
                y=f"{(top - high) / top * 100:.2f}",
                height=f"{row['rebalances'] / top * 100:.2f}",
                class_=cause_class(row["cause"]),
            )
        )
    label = f"Rebalances in {plural(count, 'column')} of {duration(bucket_ms)}, at most {top:,} in one"
    picture = tag(
        "svg",
        bars,
        viewBox=f"0 0 {count} 100",
        preserveAspectRatio="none",
        class_="chart",
        role="img",
        aria_label=label,
    )
    ends = tag("div", (tag("span", moment(one, seconds=False)) for one in (start, last_ms)), class_="axis")
    return join([tag("p", f"{label}.", class_="dim"), picture, ends, legend(list(order))])


def group_picture(story: Story, first_ms: int, last_ms: int) -> Html:
    """Who had how much when, with the rebalances across it."""
    if not story.shares:
        return tag("p", "Nobody was a member.", class_="dim")
    shares = [share_of(row, last_ms) for row in story.shares]
    begin = max(first_ms, min(one.start_ms for one in shares))
    end = max(last_ms, max(one.end_ms for one in shares), begin + 1)
    scale = _Scale(begin, end)
    most = max((one.partitions for one in shares), default=0)
    shown = [row for row in story.rebalances.rows if row["end_ms"] is not None and scale.has(row["end_ms"])]
    rules = join(
        tag("u", style=f"left:{scale.percent(row['end_ms']):.3f}%", class_=cause_class(row["cause"])) for row in shown
    )
    rows = (_lane(lane, scale, most, rules) for lane in lanes_of(shares))
    marks = tag(
        "div", tag("div", class_="who"), tag("div", _marks(shown, scale), class_="bar marks"), class_="lane free"
    )
    ticks = tag("div", tag("div", class_="who"), scale.ticks(), class_="lane free")
    note = (
        tag("p", f"The picture begins at {moment(begin)}: what was before is in the tables.", class_="dim")
        if story.rebalances.left
        else None
    )
    return join([note, tag("div", marks, rows, ticks, class_="lanes")])


def _lane(lane: Lane, scale: _Scale, most: int, rules: Html) -> Html:
    parts: list[Content] = []
    for one in lane.stretches:
        left, width = scale.percent(one.start_ms), scale.width(one.start_ms, one.end_ms)
        shade = 0.12 if not one.partitions else 0.3 + 0.55 * one.partitions / most
        told = f"{moment(one.start_ms)} – {moment(one.end_ms, day=False)}: {one.assigned or 'nothing'}"
        text = str(one.partitions) if width >= _WIDE else None
        parts.append(tag("i", text, style=f"left:{left:.3f}%;width:{width:.3f}%;--a:{shade:.2f}", title=told))
    return tag(
        "div",
        tag("div", lane.name, class_="who", title=lane.name),
        tag("div", parts, rules, class_="bar"),
        class_="lane",
    )


def _marks(shown: Sequence[Row], scale: _Scale) -> list[Content]:
    """Letters at the rebalances; where they would lie on one another, the newest is shown."""
    found: list[Content] = []
    free_until = 101.0
    for row in sorted(shown, key=lambda one: -one["end_ms"]):
        at = scale.percent(row["end_ms"])
        if at > free_until:
            continue
        free_until = at - _MARK_APART
        told = f"{moment(row['end_ms'])} generation {row['generation']}: {why(row)}"
        letter = cause_words(row["cause"]).mark
        found.append(tag("b", letter, style=f"left:{at:.3f}%", title=told, class_=cause_class(row["cause"])))
    return found


class _Scale:
    """Times as percents of the width."""

    def __init__(self, begin_ms: int, end_ms: int) -> None:
        self._begin, self._end = begin_ms, end_ms

    def has(self, ms: int) -> bool:
        return self._begin <= ms <= self._end

    def percent(self, ms: int) -> float:
        return (min(max(ms, self._begin), self._end) - self._begin) / (self._end - self._begin) * 100

    def width(self, start_ms: int, end_ms: int) -> float:
        return max(self.percent(end_ms) - self.percent(start_ms), 0.08)

    def ticks(self) -> Html:
        span = self._end - self._begin
        step = next((one for one in _STEPS if span / one <= _TICKS), -(-span // _TICKS))
        first = -(-self._begin // step) * step
        places = list(range(first, self._end + 1, step)) or [self._begin]
        told = []
        for one in places:
            at = self.percent(one)
            # midnight goes by its day
            text = moment(one)[5:10] if one % DAY == 0 else moment(one, day=False, seconds=step < MINUTE)
            edge = "first" if at < _EDGE else "last" if at > 100 - _EDGE else None
            told.append(tag("span", text, style=f"left:{at:.3f}%", class_=edge))
        return tag("div", told, class_="ticks")


def meter(value: float | None, actual: float | None) -> Html | None:
    """A figure as a bar beside what it really was: full is twice as much, half the same."""
    if value is None or not actual:
        return None
    share = min(value / actual / 2, 1.0)
    bar = tag("i", style=f"width:{share * 100:.1f}%")
    told = f"{value / actual * 100:.0f} % of what it was"
    return tag("span", bar, class_="meter up" if value > actual else "meter", title=told, role="img", aria_label=told)


def compared(row: Mapping[str, float | None], name: str, text: str) -> Html:
    """A figure of a setting, in words and as a bar."""
    return join([text, meter(row[name], row[f"actual_{name}"])])
