"""The pictures of a group's progress: how far behind it was over time, and how fast it read. Pure.

`progress` has the rows of the table `progress` about one group, in the order of time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from muster.pipeline.episodes.claims import Step
from muster.pipeline.episodes.trend import trend
from muster.pipeline.report.columns import Times, grid, numbers, scale, short
from muster.pipeline.report.content import Row
from muster.pipeline.report.markup import Column, Columns, Content, Html, figures, join, listing, tag
from muster.pipeline.wording import MINUTE, SECOND, duration, moment, number

_TICKS: Final = 4
_LEAST_SPAN: Final = 3
"""A curve needs at least this number of rows."""


class Curve(NamedTuple):
    """A curve of the picture, and its axis."""

    title: str
    """The title with its unit."""
    unit: str
    """The unit of the axis, as a short text."""
    value: Callable[[Row], float | None]
    class_: str


def rate(row: Row, name: str) -> float | None:
    """A number of records in a row, per second."""
    lasted_ms = row["until_ms"] - row["start_ms"]
    return None if row[name] is None or lasted_ms <= 0 else float(row[name]) * SECOND / lasted_ms


BEHIND: Final = Curve("Behind: records not yet committed", "records", lambda row: row["lag"], "behind")
READ: Final = Curve("Read: records in a second, by its commits", "records/s", lambda row: rate(row, "records"), "read")
COMMITS: Final = Curve(
    "Commits in a minute, of all partitions", "commits/min",
    lambda row: None if (each := rate(row, "commits")) is None else each * 60, "commits",
)  # fmt: skip

ALL: Final = (BEHIND, READ, COMMITS)


def pictures(
    progress: Sequence[Row], first_ms: int, last_ms: int, *, with_figures: bool, drawn: Sequence[Curve] = ALL
) -> Html | None:
    """The pictures of the curves that have values."""
    if len(progress) < _LEAST_SPAN:
        return None
    times = Times(first_ms, last_ms)
    made = [found for curve in drawn if (found := _picture(curve, progress, times)) is not None]
    if not made:
        return None
    summary = figures(listing(_FIGURES, progress)) if with_figures else None
    return join([tag("div", made, class_="curves"), summary])


def _picture(curve: Curve, progress: Sequence[Row], times: Times) -> Html | None:
    if curve is not BEHIND:
        # the last step of the log may be short, and then one commit would be many commits per second
        usual_ms = max(row["until_ms"] - row["start_ms"] for row in progress)
        progress = [row for row in progress if row["until_ms"] - row["start_ms"] > usual_ms / 2]
    points = [(row, value) for row in progress if (value := curve.value(row)) is not None]
    if len(points) < _LEAST_SPAN:
        return None
    steps = numbers(max(value for _, value in points))
    highest = max(points, key=lambda one: one[1])
    summary = (
        f"Most: {_short_number(highest[1])} {curve.unit} at {moment(highest[0]['until_ms'], seconds=False)} UTC; "
        f"in the end {_short_number(points[-1][1])}."
    )
    picture = tag(
        "svg",
        tag("title", curve.title),
        tag("desc", summary),
        grid([step / steps[-1] * 100 for step in steps]),
        tag("path", d=_line(curve, progress, times, steps[-1]), class_=f"line {curve.class_}"),
        viewBox="0 0 1000 100",
        preserveAspectRatio="none",
        class_="chart low",
        role="img",
    )
    caption = tag("figcaption", curve.title, ". ", tag("small", summary))
    axis = scale(steps, [short(step) for step in steps])
    return tag("figure", caption, axis, picture, times.row(_TICKS), class_="plot")


def _line(curve: Curve, progress: Sequence[Row], times: Times, top: float) -> str:
    """The line of a curve, with a gap where no value is known.

    A count over some time is drawn as a level line over this time.
    """
    parts: list[str] = []
    is_level = curve is not BEHIND
    begin = "M"
    for row in progress:
        value = curve.value(row)
        if value is None:
            begin = "M"
            continue
        height = f"{100 - value / top * 100:.0f}"
        if is_level:
            parts.append(
                f"{begin}{times.percent(row['start_ms']) * 10:.0f} {height}H{times.percent(row['until_ms']) * 10:.0f}"
            )
        else:
            parts.append(f"{begin}{times.percent(row['until_ms']) * 10:.0f} {height}")
        begin = "L"
    return "".join(parts)


def _short_number(value: float) -> str:
    return number(round(value, 1)) if value < 10 else number(round(value))


def _rounded(row: Row, name: str) -> Content:
    value = rate(row, name)
    return None if value is None else _short_number(value)


_FIGURES: Final[Columns] = {
    Column("from (UTC)", is_head=True, is_time=True): lambda row: moment(row["start_ms"]),
    Column("commits", True): lambda row: number(row["commits"]),
    Column("read, records/s", True): lambda row: _rounded(row, "records"),
    Column("written, records/s", True): lambda row: _rounded(row, "written"),
    Column("behind", True): lambda row: number(row["lag"]),
}


def catching_up(progress: Sequence[Row], lag: int | None) -> str | None:
    """The rate at which the lag of a group grows, or the time until the lag is gone.

    It is None if the group needs less than a minute, or if the rows do not show a trend.
    """
    found = trend([Step(*(row[name] for name in Step._fields)) for row in progress])
    if found is None or not lag or lag <= found.read * MINUTE / SECOND:
        return None
    since = f"as since {moment(found.from_ms, seconds=False)}"
    if found.rate > 0:
        return f"falls behind at {found.rate_words()}, {since}"
    least_s, most_s = lag / -found.least, lag / -found.most
    span = " to ".join(dict.fromkeys(duration(_rough(seconds * SECOND)) for seconds in (least_s, most_s)))
    return f"will have read all in {span}, if it reads {since}"


def _rough(ms: float) -> float:
    """A duration with two digits: nobody knows the future to the second."""
    return float(f"{ms:.2g}")
