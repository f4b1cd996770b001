"""The section of the page about streams groups: topics that were not ready, and tasks that nobody had. Pure."""

from __future__ import annotations

from operator import itemgetter
from typing import Final

from muster.pipeline.episodes.stream_facts import NOT_READY, SHUTDOWN, instance_name
from muster.pipeline.report.content import Chosen, Row
from muster.pipeline.report.groups import Pages, name
from muster.pipeline.report.markup import Column, Columns, Html, Span, listing, section, tag
from muster.pipeline.report.offsets import linked
from muster.pipeline.wording import duration, moment

_STATES: Final = {NOT_READY: "topics not ready", SHUTDOWN: "ended after an error"}


def stream_section(chosen: Chosen, pages: Pages) -> Html | None:
    """The section about streams groups; None without trouble of them. `pages`: the page of each group."""
    if not chosen.unready.rows and not chosen.unowned.rows:
        return None
    unready, unowned = chosen.unready, chosen.unowned
    return section(
        "Streams groups",
        tag("h3", "Topics that were not ready, and applications that were ended"),
        listing(linked(_TOPICS, pages), unready.rows, unready.left, _not_ready_span)
        if unready.rows
        else tag("p", "None.", class_="dim"),
        tag("h3", "Tasks that nobody had, the longest time first"),
        listing(linked(_TASKS, pages), unowned.rows, unowned.left, _unowned_span)
        if unowned.rows
        else tag("p", "None.", class_="dim"),
        id_="streams",
    )


def _not_ready_span(row: Row) -> Span:
    return row["from_ms"], row["from_ms"] if row["until_ms"] is None else row["until_ms"]


def _unowned_span(row: Row) -> Span:
    return row["start_ms"] - row["unowned_ms"], row["start_ms"]


def _why(row: Row) -> str:
    if row["why"] is not None:
        return str(row["why"])
    missing = ", ".join(map(name, row["missing"] or ()))
    return f"perhaps missing: {missing}" if missing else instance_name(row["client_id"])


def _until(row: Row) -> str:
    return "" if row["state"] == SHUTDOWN else "still" if row["until_ms"] is None else moment(row["until_ms"])


_TOPICS: Final[Columns] = {
    Column("from (UTC)", is_time=True): lambda row: moment(row["from_ms"]),
    Column("group", is_head=True): itemgetter("group"),
    Column("what"): lambda row: _STATES.get(row["state"], row["state"]),
    Column("until (UTC)", is_time=True): _until,
    Column("why, or who", is_name=True): _why,
}
_TASKS: Final[Columns] = {
    Column("until (UTC)", is_time=True): lambda row: moment(row["start_ms"]),
    Column("group", is_head=True): itemgetter("group"),
    Column("task"): lambda row: f"{row['subtopology']}_{row['partition']}",
    Column("nobody had it for", True): lambda row: duration(row["unowned_ms"]),
    Column("who got it", is_name=True): lambda row: name(row["client_id"] or row["member_id"]),
}
