"""The section of the page about one group, with the table of its rebalances. Links can name each rebalance. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from muster.pipeline.report import curves, evidence, groups, markup, timeline
from muster.pipeline.report.content import Chosen, Row, Story
from muster.pipeline.report.formatting import cause_words, legend, mark, percent, sure_words, why
from muster.pipeline.report.markup import (
    Column,
    Columns,
    Content,
    Html,
    Line,
    folded,
    join,
    listing,
    section,
    table,
    tag,
)
from muster.pipeline.report.timeline import share_of
from muster.pipeline.schema import SOURCE_INFERRED
from muster.pipeline.wording import DAY, duration, moment, number, plural, span, to_the_second

_REBALANCES_SHOWN: Final = 8
"""The number of rebalances that are visible without a click."""
_REBALANCE_COLUMNS: Final = (
    Column("when (UTC)", is_head=True, is_time=True),
    Column("generation", is_time=True),
    Column("why"),
    Column("what it cost"),
)


def rebalance_table(rows: Sequence[Row], left: int) -> Html | None:
    """The table of rebalances, the newest first. `left`: the number of older rebalances that are not in it."""
    if not rows:
        return None
    taken: set[str] = set()
    lines = [_rebalance_line(row, taken) for row in rows]
    head, tail = lines[:_REBALANCES_SHOWN], lines[_REBALANCES_SHOWN:]
    more = folded(plural(len(tail), "earlier one"), table(_REBALANCE_COLUMNS, tail, left)) if tail else None
    return join([table(_REBALANCE_COLUMNS, head, 0 if tail else left), more or ""])


def _rebalance_line(row: Row, taken: set[str]) -> Line:
    place = markup.rebalance_anchor(row)
    first = place not in taken
    taken.add(place)
    when = moment(row["end_ms"])
    generations = f"{number(row['before_generation'])} → {number(row['generation'])}"
    words = sure_words(row)
    sure = None if words is None else tag("small", f" inferred, {words}")
    link: Content = tag("a", when, href=f"#{place}") if first else when
    cells = (link, generations, [mark(row["cause"]), " ", why(row), sure], rebalance_cost(row))
    span = (row["end_ms"] if row["start_ms"] is None else row["start_ms"], row["end_ms"])
    return Line(cells, place if first else None, span=span)


def rebalance_cost(row: Row) -> str:
    """The cost of a rebalance, in words."""
    parts = []
    if row["took_ms"] is not None:
        phases = [
            f"{name} {duration(row[key])}"
            for name, key in (("join", "join_phase_ms"), ("sync", "sync_phase_ms"))
            if row[key] is not None
        ]
        took = span(row["took_ms"], row.get("took_least_ms"), row.get("took_most_ms"))
        # phases of an inferred rebalance would show milliseconds, though nobody has measured them
        parts.append(took + (f" ({', '.join(phases)})" if phases and row["source"] != SOURCE_INFERRED else ""))
    if row.get("died"):
        names = ", ".join(one["instance_id"] or one["client_id"] or one["member_id"] for one in row["died"])
        parts.append(f"lost: {names}")
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


_EPISODES_SHOWN: Final = 8
"""The number of episodes that are visible without a click."""


class Detail(NamedTuple):
    """How many details the section about a group has."""

    rebalances: int
    shares: int
    """The largest number of members in generations in the picture."""
    episodes: int
    is_rich: bool
    """Whether there are details that are only visible after a click or under the mouse."""


DETAILS: Final = (
    Detail(1_000, 2_000, 60, True),
    Detail(1_000, 2_000, 60, False),
    Detail(300, 600, 40, False),
    Detail(100, 200, 20, False),
    Detail(40, 80, 12, False),
    Detail(12, 24, 6, False),
    Detail(4, 0, 3, False),
)
"""The levels of detail, from all to little. A page has as many details of each group as fit."""


def story_section(story: Story, chosen: Chosen, detail: Detail = DETAILS[0]) -> Html:
    """The section of the page about one group."""
    rows = story.rebalances.rows[: detail.rebalances]
    cost = groups.cost(story.about, chosen.about)
    anchors = {row["end_ms"]: markup.rebalance_anchor(row) for row in rows if row["end_ms"] is not None}
    place, named = markup.group_anchor(story.group), groups.name(story.group)
    title: Content = [
        f"Group {named} ",
        groups.badge(story.about["level"]),
        tag("a", "#", href=f"#{place}", class_="here", title="a link to this group", aria_label=f"# link to {named}"),
    ]
    progress = curves.pictures(
        story.progress, chosen.first_ms or 0, chosen.last_ms or 0, with_figures=detail.is_rich
    ) if detail.shares else None  # fmt: skip
    return section(
        title,
        tag("p", story.about["verdict"], class_="verdict") if story.about["verdict"] else None,
        groups.advice(story.about),
        tag("p", tag("b", "Cost: "), cost, class_="cost") if cost else None,
        evidence.of_group(story.about, anchors) if detail.is_rich else None,
        _figures(story),
        _episodes(story, detail, anchors),
        _picture(story, chosen, detail),
        [tag("h3", "How it read"), progress] if progress else None,
        [tag("h3", "Rebalances, the newest first"), rebalance_table(rows, story.rebalances.total - len(rows))]
        if rows
        else None,
        id_=place,
    )


def _figures(story: Story) -> Html:
    row = story.about
    facts = [
        plural(story.rebalances.total, "rebalance"),
        f"at most {plural(row['members'], 'member')}" if row["members"] else None,
        f"all its rebalances kept partitions from being read for {to_the_second(row['cost_ms'])}, added up"
        if row["cost_ms"]
        else None,
        f"{plural(row['moved'], 'partition')} moved" if row["moved"] else None,
        f"the longest rebalance took {span(*row['longest'].values())}" if row["longest"] else None,
        f"{number(row['lag'])} records behind at the end" if row["lag"] else None,
    ]
    catching = curves.catching_up(story.progress, row["lag"])
    facts.append(f"it {catching}" if catching else None)
    if row["top_cause"]:
        facts.append(f"most often because of: {cause_words(row['top_cause']).title}{_by(row)}")
    return tag("p", "; ".join(filter(None, facts)), ".", class_="dim")


def _by(row: Row) -> str:
    share, client_id = row["top_trigger_share"], row["top_trigger_client_id"]
    return f"; {percent(share)} of all caused by {groups.name(client_id)}" if client_id and share else ""


def _picture(story: Story, chosen: Chosen, detail: Detail) -> Html | None:
    if not detail.shares and story.shares:
        return None
    shares = sorted((share_of(row, chosen.last_ms or 0) for row in story.shares), key=lambda one: one.start_ms)
    kept = shares[-detail.shares :] if detail.shares else shares
    causes: list[str | None] = sorted({row["cause"] for row in story.rebalances.rows}, key=lambda one: one or "")
    picture = timeline.picture(
        story,
        kept,
        chosen.first_ms or 0,
        chosen.last_ms or 0,
        is_cut=story.is_cut or len(kept) < len(shares),
        with_titles=detail.is_rich,
    )
    return join([picture, legend(causes) if causes and shares else ""])


def _episodes(story: Story, detail: Detail, anchors: evidence.Anchors) -> Html | None:
    rows = story.episodes.rows[: detail.episodes]
    if not rows:
        return None
    columns: Columns = {
        Column("from (UTC)", is_head=True, is_time=True): lambda row: moment(row["from_ms"]),
        Column("until", is_time=True): lambda row: moment(
            row["until_ms"], day=row["until_ms"] // DAY != row["from_ms"] // DAY
        ),
        Column("what happened"): lambda row: [
            row["sentence"],
            evidence.of_episode(row, anchors) if detail.is_rich else None,
        ],
        Column("confidence", True): lambda row: percent(round(row["confidence"], 2)),
    }
    head, tail = rows[:_EPISODES_SHOWN], rows[_EPISODES_SHOWN:]
    left = story.episodes.total - len(rows)

    def made(some: Sequence[Row], more: int) -> Html:
        return listing(columns, some, more, lambda row: (row["from_ms"], row["until_ms"]))

    more = folded(plural(len(tail), "earlier one"), made(tail, left)) if tail else ""
    return join([tag("h3", "What happened, the newest first"), made(head, 0 if tail else left), more])
