"""The part of the page about all groups together: figures, rebalances over time, causes. Pure."""

from __future__ import annotations

from muster.pipeline.report.columns import over_time
from muster.pipeline.report.content import Chosen
from muster.pipeline.report.formatting import cause_words, percent
from muster.pipeline.report.marks import mark
from muster.pipeline.report.markup import Column, Columns, Html, listing, section, tag
from muster.pipeline.wording import duration, number, to_the_second


def overview(chosen: Chosen) -> Html:
    """See the module."""
    rebalances = sum(row["rebalances"] for row in chosen.causes)
    unread_ms = sum(row["unread_partition_ms"] or 0 for row in chosen.causes)
    lag = sum(row["lag"] or 0 for row in chosen.groups.rows)
    figures = [
        (number(chosen.groups.total), "group" if chosen.groups.total == 1 else "groups"),
        (number(rebalances), "rebalance" if rebalances == 1 else "rebalances"),
        (to_the_second(unread_ms), "unread, partitions added up"),
        (number(chosen.commits), "commit" if chosen.commits == 1 else "commits"),
        (number(chosen.regressions.total), "times commits went backwards"),
        (number(chosen.stalls.total), "times a partition stood still"),
    ]
    if chosen.about.has_ends:
        figures.append((number(lag), "records behind"))
    causes: Columns = {
        Column("cause", is_head=True): lambda row: [mark(row["cause"]), " ", cause_words(row["cause"]).title],
        Column("rebalances", True): lambda row: number(row["rebalances"]),
        Column("took on average", True): lambda row: duration(row["took_ms"]),
        Column("unread", True): lambda row: to_the_second(row["unread_partition_ms"]),
        Column("confidence", True): lambda row: percent(row["confidence"]),
    }
    chart = (
        over_time(chosen.buckets, chosen.bucket_ms, chosen.first_ms, chosen.last_ms)
        if chosen.first_ms is not None and chosen.last_ms is not None
        else None
    )
    return section(
        "Overview",
        tag("div", (tag("div", tag("b", value), tag("span", name)) for value, name in figures), class_="figures"),
        tag("h3", "Rebalances over time"),
        chart,
        tag("h3", "Why groups rebalanced"),
        listing(causes, chosen.causes) if chosen.causes else tag("p", "No group rebalanced.", class_="dim"),
        id_="overview",
    )
