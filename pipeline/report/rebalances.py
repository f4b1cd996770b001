"""The rebalances of a group as a table, each with a place that a link can name. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from muster.pipeline.facts.schema import INFERRED
from muster.pipeline.report import anchors
from muster.pipeline.report.content import Row
from muster.pipeline.report.formatting import percent, why
from muster.pipeline.report.marks import mark
from muster.pipeline.report.markup import Column, Content, Html, Line, folded, join, table, tag
from muster.pipeline.wording import duration, moment, number, plural, span

_SHOWN_AT_ONCE: Final = 8
"""Rebalances that are listed without a click."""
_COLUMNS: Final = (
    Column("when (UTC)", is_head=True, is_time=True),
    Column("generation", is_time=True),
    Column("why"),
    Column("what it cost"),
)


def listed(rows: Sequence[Row], left: int) -> Html | None:
    """The newest first. `left`: how many older ones there are."""
    if not rows:
        return None
    taken: set[str] = set()
    lines = [_line(row, taken) for row in rows]
    head, tail = lines[:_SHOWN_AT_ONCE], lines[_SHOWN_AT_ONCE:]
    more = folded(plural(len(tail), "earlier one"), table(_COLUMNS, tail, left)) if tail else None
    return join([table(_COLUMNS, head, 0 if tail else left), more or ""])


def _line(row: Row, taken: set[str]) -> Line:
    place = anchors.rebalance(row)
    first = place not in taken
    taken.add(place)
    when = moment(row["end_ms"])
    generations = f"{number(row['before_generation'])} → {number(row['generation'])}"
    sure = None
    if row["confidence"] is not None and row["confidence"] < 1:
        sure = tag("small", f" inferred, {percent(round(row['confidence'], 2))} sure")
    link: Content = tag("a", when, href=f"#{place}") if first else when
    cells = (link, generations, [mark(row["cause"]), " ", why(row), sure], cost(row))
    return Line(cells, place if first else None)


def cost(row: Row) -> str:
    """What a rebalance cost, in words."""
    parts = []
    if row["took_ms"] is not None:
        phases = [
            f"{name} {duration(row[key])}"
            for name, key in (("join", "join_phase_ms"), ("sync", "sync_phase_ms"))
            if row[key] is not None
        ]
        took = span(row["took_ms"], row.get("took_least_ms"), row.get("took_most_ms"))
        # phases of what is only inferred would tell milliseconds that nobody has measured
        parts.append(took + (f" ({', '.join(phases)})" if phases and row["source"] != INFERRED else ""))
    if row.get("died"):
        names = ", ".join(one["instance_id"] or one["client_id"] or one["member_id"] for one in row["died"])
        parts.append(f"died: {names}")
    if row.get("silent_partition_ms"):
        parts.append(f"unread before anybody noticed: {duration(row['silent_partition_ms'])} in all")
    if len(row.get("came") or ()) > 1:
        parts.append(f"came: {', '.join(row['came'])}")
    if len(row.get("went") or ()) > 1:
        parts.append(f"left: {', '.join(row['went'])}")
    counts = [(row[key], key) for key in ("moved", "kept", "gained", "lost") if row[key]]
    if counts:
        parts.append("partitions: " + ", ".join(f"{count:,} {key}" for count, key in counts))
    if row["paused_partition_ms"]:
        parts.append(f"paused {duration(row['paused_partition_ms'])} in all")
    if row["members_before"] is not None and row["members_after"] is not None:
        parts.append(f"members {row['members_before']:,} → {row['members_after']:,}")
    if row["failed_attempts"]:
        parts.append(plural(row["failed_attempts"], "failed attempt"))
    return "; ".join(parts)
