"""The page: one self-contained HTML file, without scripts and without anything to load. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from muster.pipeline.episodes.verdict import HELP
from muster.pipeline.facts.schema import INFERRED
from muster.pipeline.report import comparison, offsets, settings, transactions
from muster.pipeline.report.content import Chosen, Row, Story
from muster.pipeline.report.formatting import cause_words, odd_times, percent, why
from muster.pipeline.report.markup import Column, Columns, Content, Html, join, listing, section, table, tag
from muster.pipeline.report.pictures import group_picture, legend, mark, over_time
from muster.pipeline.report.style import sheet
from muster.pipeline.wording import duration, moment, number, plural, span

_SHOWN_AT_ONCE = 8
"""Rebalances of a group that are listed without a click."""


def render(chosen: Chosen) -> str:
    """The page of what was chosen."""
    title = f"Groups of {chosen.about.source}"
    body = tag(
        "main",
        tag("h1", title),
        _lead(chosen),
        _contents(chosen),
        _overview(chosen),
        _groups(chosen),
        [_story(story, chosen) for story in chosen.stories],
        comparison.sections(chosen),
        offsets.sections(chosen),
        transactions.sections(chosen),
        settings.sections(chosen),
        _about(chosen),
    )
    head = tag(
        "head",
        Html('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        tag("title", title),
        tag("style", Html(sheet())),
    )
    return f'<!doctype html>\n<html lang="en">{head}{tag("body", body)}</html>\n'


def anchor(group: str) -> str:
    """The place of a group on the page."""
    return f"group-{group.encode().hex()}"


def _lead(chosen: Chosen) -> Html:
    if chosen.first_ms is None or chosen.last_ms is None:
        return tag("p", "The log tells of no group.", class_="warn")
    span = f"{moment(chosen.first_ms)} to {moment(chosen.last_ms)} UTC, {duration(chosen.last_ms - chosen.first_ms)}."
    if chosen.about.has_events:
        how = "Rebalances are told by the server (__group_events)."
    else:
        how = (
            "There are no events: rebalances are inferred from the offsets log, each with a confidence. When they "
            "began, and with it what they took and paused, is an estimate."
        )
    return join([tag("p", span), tag("p", how, class_="dim")])


def _contents(chosen: Chosen) -> Html:
    places = [("#overview", "Overview"), ("#groups", "Groups"), ("#offsets", "Offsets")]
    if chosen.transaction_ends:
        places.append(("#transactions", "Transactions"))
    if chosen.grid:
        places.append(("#what-if", "What if"))
    return tag("nav", (tag("a", text, href=where) for where, text in places))


def _overview(chosen: Chosen) -> Html:
    rebalances = sum(row["rebalances"] for row in chosen.causes)
    paused_ms = sum(row["paused_partition_ms"] or 0 for row in chosen.causes)
    lag = sum(row["lag"] or 0 for row in chosen.groups.rows)
    figures = [
        (number(chosen.groups.total), "groups"),
        (number(rebalances), "rebalances"),
        (duration(paused_ms), "paused, partitions added up"),
        (number(chosen.commits), "commits"),
        (number(chosen.regressions.total), "commits that went backwards"),
        (number(chosen.stalls.total), "times a partition stood still"),
    ]
    if chosen.about.has_ends:
        figures.append((number(lag), "records behind"))
    causes: Columns = {
        Column("cause"): lambda row: [mark(row["cause"]), " ", cause_words(row["cause"]).title],
        Column("rebalances", True): lambda row: number(row["rebalances"]),
        Column("took (mean)", True): lambda row: duration(row["took_ms"]),
        Column("paused", True): lambda row: duration(row["paused_partition_ms"]),
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


def _groups(chosen: Chosen) -> Html:
    drawn = {story.group for story in chosen.stories}

    def name(row: Row) -> Content:
        group = row["group"]
        return tag("a", group, href=f"#{anchor(group)}") if group in drawn else group

    columns: Columns = {
        Column("group"): name,
        Column("verdict"): _verdict,
        Column("members", True): lambda row: number(row["members"]),
        Column("rebalances", True): lambda row: number(row["rebalances"]),
        Column("paused", True): lambda row: duration(row["paused_partition_ms"]),
        Column("moved", True): lambda row: number(row["moved"]),
        Column("longest", True): lambda row: duration(row["longest_ms"]),
        Column("flapping", True): lambda row: number(row["score"]),
        Column("behind", True): lambda row: number(row["lag"]),
        Column("mostly"): _mostly,
    }
    about = (
        "Worst first; forming, restarts, scaling and stops on purpose are no trouble. "
        "Paused: how long partitions had nobody to read them, all added up. "
        "Flapping: 0 (calm) to 100. Behind: records not yet committed."
    )
    return section(
        "Groups", tag("p", about, class_="dim"), listing(columns, chosen.groups.rows, chosen.groups.left), id_="groups"
    )


def _verdict(row: Row) -> Content:
    level = row["level"]
    return tag("b", row["verdict"]) if level == HELP else row["verdict"]


def _mostly(row: Row) -> Content:
    if not row["rebalances"]:
        return None
    share = row["top_trigger_share"]
    by = f" ({row['top_trigger_client_id']}: {percent(share)})" if row["top_trigger_client_id"] and share else ""
    return [mark(row["top_cause"]), f" {cause_words(row['top_cause']).title}{by}"]


def _story(story: Story, chosen: Chosen) -> Html:
    rebalances = story.rebalances.rows
    told = plural(story.rebalances.total, "rebalance")
    causes: list[str | None] = sorted({row["cause"] for row in rebalances}, key=lambda one: one or "")
    columns = [Column("when (UTC)"), Column("generation", True), Column("why"), Column("what it cost")]
    head, tail = rebalances[:_SHOWN_AT_ONCE], rebalances[_SHOWN_AT_ONCE:]
    more = (
        tag(
            "details",
            tag("summary", plural(len(tail), "earlier one")),
            table(columns, map(_line, tail), story.rebalances.left),
        )
        if tail
        else None
    )
    return section(
        f"Group {story.group}",
        tag("p", story.verdict) if story.verdict else None,
        _episodes(story),
        tag("p", f"{told}. Numbers in the bars: partitions owned; letters: rebalances.", class_="dim"),
        group_picture(story, chosen.first_ms or 0, chosen.last_ms or 0),
        legend(causes) if causes else None,
        table(columns, map(_line, head)) if head else None,
        more,
        id_=anchor(story.group),
    )


def _episodes(story: Story) -> Html | None:
    if not story.episodes:
        return None
    columns: Columns = {
        Column("from (UTC)"): lambda row: moment(row["from_ms"]),
        Column("until"): lambda row: moment(row["until_ms"], day=False),
        Column("what happened"): lambda row: row["told"],
        Column("confidence", True): lambda row: percent(round(row["confidence"], 2)),
    }
    head, tail = story.episodes[:_SHOWN_AT_ONCE], story.episodes[_SHOWN_AT_ONCE:]
    more = tag("details", tag("summary", plural(len(tail), "earlier one")), listing(columns, tail)) if tail else None
    return join([listing(columns, head), *([more] if more is not None else [])])


def _line(row: Row) -> Sequence[Content]:
    generations = f"{number(row['before_generation'])} → {number(row['generation'])}"
    sure = None
    if row["confidence"] is not None and row["confidence"] < 1:
        sure = tag("small", f" inferred, {percent(round(row['confidence'], 2))} sure")
    return (moment(row["end_ms"]), generations, [mark(row["cause"]), " ", why(row), sure], cost(row))


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


def _about(chosen: Chosen) -> Html:
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
    return section("What this was made of", lines)
