"""The parts of the page about the page: where it is from, what it was made of. Pure."""

from __future__ import annotations

from muster.pipeline.report.content import Chosen
from muster.pipeline.report.formatting import odd_times
from muster.pipeline.report.markup import Column, Content, Html, join, section, table, tag
from muster.pipeline.wording import duration, moment, number


def lead(chosen: Chosen) -> Html:
    """From when to when, and how it is known."""
    if chosen.first_ms is None or chosen.last_ms is None:
        return tag("p", "The log tells of no group.", class_="warn")
    span_ms = chosen.last_ms - chosen.first_ms
    span = f"{moment(chosen.first_ms)} to {moment(chosen.last_ms)} UTC, {duration(span_ms)}."
    if not span_ms:
        span = f"{moment(chosen.first_ms)} UTC."
    if chosen.about.has_events:
        how = "Rebalances are told by the server (__group_events)."
    else:
        how = (
            "There are no events: rebalances are inferred from the offsets log, each with a confidence. When they "
            "began, and with it what they took and paused, is an estimate."
        )
    return join([tag("p", span), tag("p", how, class_="dim")])


def made_of(chosen: Chosen) -> Html:
    """Rows, filters, and what could not be used."""
    about = chosen.about
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(about.rows.items()) if count)
    lines: list[Content] = [tag("p", f"Rows of the offsets log: {kinds or 'none'}.")]
    if about.groups:
        lines.append(tag("p", f"Only groups that match {', '.join(about.groups)}."))
    if about.since_ms is not None or about.until_ms is not None:
        begin = moment(about.since_ms) if about.since_ms is not None else "the beginning"
        end = moment(about.until_ms) if about.until_ms is not None else "the end"
        lines.append(tag("p", f"Only what was logged from {begin} to {end}."))
    if not about.has_ends:
        lines.append(
            tag("p", "The ends of the topics are not known from this source: how far groups are behind is not told.")
        )
    if any(chosen.odd_rows.values()):
        told = " and ".join(f"{count:,} {kind}" for kind, count in chosen.odd_rows.items() if count)
        lines.append(tag("p", f"{told} rows could not be used:", class_="warn"))
        columns = [Column("kind"), Column("reason"), Column("rows", True)]
        lines.append(table(columns, ((row["kind"], row["reason"], number(row["rows"])) for row in chosen.odd_reasons)))
    if told := odd_times(chosen.odd_times.rows, chosen.odd_times.total):
        lines.append(tag("p", f"{told[0].upper()}{told[1:]}.", class_="warn"))
    lines.append(tag("p", "Times are UTC. What every column means: docs/pipeline-tables.md of Muster.", class_="dim"))
    return section("What this was made of", lines, id_="made-of")
