"""The picture of one group: how many partitions each process had over time, with a mark for each rebalance. Pure.

Each process is a lane. A process is identified by its instance id, or else by client id and host. So a consumer that
returns under a new member id continues in its lane. Processes that have the same client id and host at the same time
get a lane each. The picture's text is HTML text of its own size, so it stays readable on a phone. If letters of
rebalances would hide each other, one mark with their number replaces them. There are two rows of marks, for wide and
narrow screens, and the screen shows one of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from muster.pipeline.report import markup
from muster.pipeline.report.columns import Times
from muster.pipeline.report.content import Row, Story
from muster.pipeline.report.formatting import OTHER, cause_class, cause_words, who, why
from muster.pipeline.report.markup import Content, Html, join, tag
from muster.pipeline.wording import moment, plural


class Share(NamedTuple):
    """The partitions that one member had in one generation."""

    generation: int
    start_ms: int
    end_ms: int
    member_id: str
    instance_id: str | None
    client_id: str | None
    host: str | None
    partitions: int
    assigned: str
    """The partitions in words, shortened to some of them."""


@dataclass(slots=True)
class Lane:
    """A process in the picture."""

    name: str
    stretches: list[Share] = field(default_factory=list)
    """The times in which the process had the same partitions, in their order."""


def share_of(row: Mapping[str, Any], until_ms: int) -> Share:
    """The share of a member in a generation, from a row of `select`. A generation without an end ends at `until_ms`."""
    end_ms = until_ms if row["end_ms"] is None else row["end_ms"]
    return Share(
        row["generation"],
        row["start_ms"],
        max(end_ms, row["start_ms"]),
        row["member_id"],
        row["instance_id"],
        row["client_id"],
        row["host"],
        row["partitions"] or 0,
        assigned_words(row["assigned"], row["partitions"] or 0),
    )


def assigned_words(assigned: Iterable[Mapping[str, Any]] | None, total: int) -> str:
    """The assigned partitions in words, as in `orders 0-3, 7; payments 1`, and the number of the others."""
    title, count = [], 0
    for topic in assigned or ():
        numbers = sorted(topic["partitions"])
        count += len(numbers)
        title.append(f"{topic['topic']} {_ranges(numbers)}")
    text = "; ".join(title)
    return f"{text}; {total - count} more" if total > count else text


def _ranges(numbers: Sequence[int]) -> str:
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in parts)


def lanes_of(shares: Iterable[Share]) -> list[Lane]:
    """The lanes of the processes, in the order in which the processes appear."""
    found: dict[str, list[Lane]] = {}
    for share in sorted(shares, key=_order):
        name = who(share.client_id, share.host, share.instance_id, share.member_id)
        same = found.setdefault(name, [])
        lane = _lane_for(share, same)
        if lane is None:
            lane = Lane(name)
            same.append(lane)
        _add(lane, share)
    return [lane for same in found.values() for lane in same]


def _order(share: Share) -> tuple[int, int, list[tuple[int, str]], str]:
    """The key of the order in which processes appear.

    Those of one generation are in the order of their names, web-2 before web-10.
    """
    parts = _DIGITS.findall(share.client_id or "")
    return share.start_ms, share.generation, [(len(one) if one.isdigit() else 0, one) for one in parts], share.member_id


_DIGITS: Final = re.compile("[0-9]+|[^0-9]+")


def _lane_for(share: Share, same: Sequence[Lane]) -> Lane | None:
    for lane in same:
        if lane.stretches[-1].member_id == share.member_id:
            return lane
    return next((lane for lane in same if lane.stretches[-1].end_ms <= share.start_ms), None)


def _add(lane: Lane, share: Share) -> None:
    last = lane.stretches[-1] if lane.stretches else None
    if last is not None and last.end_ms >= share.start_ms:
        if (last.member_id, last.assigned, last.partitions) == (share.member_id, share.assigned, share.partitions):
            lane.stretches[-1] = last._replace(end_ms=share.end_ms)
            return
        lane.stretches[-1] = last._replace(end_ms=share.start_ms)
    lane.stretches.append(share)


WIDE: Final = 3.4
"""The width of a mark on a wide screen (from 850 px on, see page.css), in percent of the picture."""
NARROW: Final = 9.5
"""The width of a mark on a phone (300 px), in percent of the picture."""
_NUMBER: Final = 2.8
"""A bar that is at least this wide, in percent, has space for a number."""
_NAMED: Final = 4
"""The number of rebalances that a mark names under the mouse."""
LANES: Final = 40
"""The largest number of processes that are drawn."""
PALE: Final = 10
"""The strength of the colour of a bar with few partitions, in percent."""
FULL: Final = 42
"""The strength of the colour of a bar with the most partitions, in percent. The number on the bar stays readable."""


class Mark(NamedTuple):
    """The mark of one or several rebalances."""

    at: float
    """The position of the mark's middle, in percent of the width."""
    rows: Sequence[Row]
    """The rebalances of this mark, the newest first."""

    @property
    def text(self) -> str:
        """The text of the mark: a letter, or the number of several rebalances.

        If they have one cause, its letter is before the number.
        """
        letters = {cause_words(row["cause"]).mark for row in self.rows}
        count = len(self.rows)
        if count == 1:
            return min(letters)
        number = str(count) if count < 100 else "99+"
        return f"{min(letters)}{number}" if len(letters) == 1 and count < 100 else number


def marks(rows: Sequence[Row], times: Times, room: float) -> list[Mark]:
    """Marks that do not touch each other, each `room` percent wide.

    The mark of the newest rebalance stands exactly at its time.
    """
    found: list[Mark] = []
    some: list[Row] = []
    begin = 101.0
    for row in sorted(rows, key=lambda one: -one["end_ms"]):
        at = times.percent(row["end_ms"])
        if some and begin - at < room:
            some.append(row)
            continue
        if some:
            found.append(Mark(begin, tuple(some)))
        some, begin = [row], at
    return [*found, Mark(begin, tuple(some))] if some else found


def picture(
    story: Story,
    shares: Sequence[Share],
    first_ms: int,
    last_ms: int,
    *,
    is_cut: bool = False,
    with_titles: bool = True,
) -> Html:
    """The picture of processes over time, each in its lane.

    `shares`: those that are drawn. `is_cut`: whether older shares are left out.
    """
    if not shares:
        return tag("p", "Nobody was a member.", class_="dim")
    begin = max(first_ms, min(one.start_ms for one in shares))
    end = max(last_ms, *(one.end_ms for one in shares))
    times = Times(begin, end)
    most = max(one.partitions for one in shares)
    shown = [row for row in story.rebalances.rows if row["end_ms"] is not None and times.has(row["end_ms"])]
    lanes = _newest(lanes_of(shares))
    drawn = (_lane(lane, times, most, with_titles) for lane in lanes.shown)
    processes = plural(len(lanes.shown), "process", "processes")
    title = f"Partitions of {processes} over time, with {plural(len(shown), 'rebalance')}"
    caption = (
        "Partitions owned by each process (numbers in the bars), rebalances (letters; digits: how many rebalances "
        "stand there)"
    )
    notes = [f"The picture begins at {moment(begin)}: what was before is in the tables."] if is_cut else []
    if lanes.left:
        notes.append(f"{plural(lanes.left, 'more process is', 'more processes are')} not drawn: {lanes.why}.")
    return join(
        [
            tag("figure",
                tag("figcaption", caption),
                tag("div", _marks(shown, times), class_="row marks", aria_hidden="true"),
                tag("div", drawn, _rules(shown, times), class_="stack", role="img", aria_label=title),
                tag("div", times.row(), class_="row"),
                class_="lanes"),
            [tag("p", note, class_="dim") for note in notes],
        ]
    )  # fmt: skip


class _Lanes(NamedTuple):
    shown: Sequence[Lane]
    left: int
    why: str
    """A remark about which processes are left out."""


def _newest(lanes: Sequence[Lane]) -> _Lanes:
    """The lanes whose processes were seen last, in the order of all lanes."""
    order = sorted(lanes, key=lambda one: -one.stretches[-1].end_ms)
    last, gone = order[:LANES], order[LANES:]
    kept = {id(one) for one in last}
    have_ended = bool(gone) and gone[0].stretches[-1].end_ms < last[-1].stretches[-1].end_ms
    why = "those that ended first" if have_ended else f"there is room for {LANES}"
    return _Lanes([one for one in lanes if id(one) in kept], len(gone), why)


def _lane(lane: Lane, times: Times, most: int, with_titles: bool) -> Html:
    parts: list[Content] = []
    for one in lane.stretches:
        left = times.percent(one.start_ms)
        width = max(times.percent(one.end_ms) - left, 0.15)
        shade = f"--a:{PALE + (FULL - PALE) * one.partitions / most:.0f}%" if one.partitions else None
        title = f"{moment(one.start_ms)} – {moment(one.end_ms, day=False)}: {one.assigned or 'nothing'}"
        text = tag("s", str(one.partitions)) if width >= _NUMBER else None
        style = ";".join(filter(None, (f"left:{left:.2f}%", f"width:{width:.2f}%", shade)))
        parts.append(
            tag("i", text, style=style, title=title if with_titles else None, class_=None if shade else "idle")
        )
    return tag(
        "div", tag("div", lane.name, class_="who", title=lane.name), tag("div", parts, class_="bar"), class_="row"
    )


def _rules(shown: Sequence[Row], times: Times) -> Html:
    """For each rebalance, a line across all lanes."""
    by_cause: dict[str, list[str]] = {}
    for row in shown:
        by_cause.setdefault(cause_class(row["cause"]), []).append(f"M{times.percent(row['end_ms']) * 10:.1f} 0v1")
    lines = (tag("path", d="".join(dict.fromkeys(places)), class_=cause) for cause, places in by_cause.items())
    return tag("svg", lines, viewBox="0 0 1000 1", preserveAspectRatio="none", class_="rules")


def _marks(shown: Sequence[Row], times: Times) -> list[Content]:
    return [
        tag("div", (_letter(one) for one in marks(shown, times, room)), class_=name)
        for name, room in (("wide", WIDE), ("narrow", NARROW))
    ]


def _letter(one: Mark) -> Html:
    newest = one.rows[0]
    words = [f"{moment(row['end_ms'])} generation {row['generation']}: {why(row)}" for row in one.rows[:_NAMED]]
    more = len(one.rows) - len(words)
    title = "\n".join([*words, f"and {more:,} more"] if more else words)
    causes = {cause_class(row["cause"]) for row in one.rows}
    colour = min(causes) if len(causes) == 1 else f"c-{OTHER}"
    place = markup.rebalance_anchor(newest)
    return tag("a", one.text, href=f"#{place}", style=f"left:{one.at:.2f}%", title=title, class_=colour, tabindex="-1")
