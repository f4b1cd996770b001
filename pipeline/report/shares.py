"""The section of the page about share groups: their partitions, and the records that were delivered again. Pure."""

from __future__ import annotations

from operator import itemgetter
from typing import Final

from muster.pipeline.infer.share_deliveries import ACCEPTED, DEAD_LETTER, DELETED, DISCARDED, PASSED, WAITING
from muster.pipeline.report.content import Chosen, Row
from muster.pipeline.report.groups import Pages, name
from muster.pipeline.report.markup import Column, Columns, Html, Span, listing, section, tag
from muster.pipeline.report.offsets import linked
from muster.pipeline.wording import duration, moment, number

OUTCOMES: Final = {
    ACCEPTED: "accepted later",
    DISCARDED: "archived: rejected, or delivered as often as allowed",
    DEAD_LETTER: "went to the dead-letter queue",
    WAITING: "not done",
    PASSED: "passed: deleted by retention, or the offset was set",
    DELETED: "the state was deleted",
}


def share_section(chosen: Chosen, pages: Pages) -> Html | None:
    """The section about share groups; None without their state log. `pages`: the page of each group."""
    if not chosen.shared.rows:
        return None
    about = "A record has a row if its first delivery was not accepted. The log does not say which worker had it."
    deliveries = chosen.deliveries
    return section(
        "Share groups",
        tag("h3", "Partitions, the farthest behind first"),
        listing(linked(_PARTITIONS, pages), chosen.shared.rows, chosen.shared.left),
        tag("h3", "Records that were delivered again, or given up"),
        tag("p", about, class_="dim"),
        listing(linked(_DELIVERIES, pages), deliveries.rows, deliveries.left, _span)
        if deliveries.rows
        else tag("p", "None.", class_="dim"),
        id_="shares",
    )


def _span(row: Row) -> Span:
    return row["from_ms"], row["until_ms"]


def _place(row: Row) -> str:
    return f"{name(row['topic'])}-{row['partition']}"


def _offsets(row: Row) -> str:
    first, last = row["first_offset"], row["last_offset"]
    return number(first) if first == last else f"{number(first)} to {number(last)}"


_PARTITIONS: Final[Columns] = {
    Column("group", is_head=True): itemgetter("group"),
    Column("partition", is_name=True): _place,
    Column("behind", True): lambda row: number(row["lag"]),
    Column("accepted", True): lambda row: number(row["accepted"]),
    Column("of them again", True): lambda row: number(row["redelivered"]),
    Column("archived", True): lambda row: number(row["archived"]),
    Column("waiting again", True): lambda row: number(row["waiting"]),
    Column("since (UTC)", is_time=True): lambda row: moment(row["oldest_ms"]),
    Column("last done (UTC)", is_time=True): lambda row: moment(row["done_ms"]),
}
_DELIVERIES: Final[Columns] = {
    Column("from (UTC)", is_time=True): lambda row: moment(row["from_ms"]),
    Column("group", is_head=True): itemgetter("group"),
    Column("partition", is_name=True): _place,
    Column("offsets"): _offsets,
    Column("records", True): lambda row: number(row["records"]),
    Column("deliveries", True): lambda row: number(row["deliveries"]),
    Column("what became of them"): lambda row: OUTCOMES.get(row["outcome"], row["outcome"]),
    Column("after at most", True): lambda row: duration(row["most_ms"]),
}
