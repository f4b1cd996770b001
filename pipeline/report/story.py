"""What is told of one group. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from muster.pipeline.report import anchors, curves, groups, rebalances, timeline
from muster.pipeline.report.content import Chosen, Row, Story
from muster.pipeline.report.formatting import cause_words, percent
from muster.pipeline.report.lanes import share_of
from muster.pipeline.report.marks import legend
from muster.pipeline.report.markup import Column, Columns, Content, Html, folded, join, listing, section, tag
from muster.pipeline.wording import DAY, moment, number, plural, span, to_the_second

_SHOWN_AT_ONCE: Final = 8
"""Episodes that are listed without a click."""


class Detail(NamedTuple):
    """How much is told."""

    rebalances: int
    shares: int
    """Of members in generations, in the picture."""
    episodes: int
    is_rich: bool
    """With all that is only seen after a click or under the mouse."""


DETAILS: Final = (
    Detail(1_000, 2_000, 60, True),
    Detail(1_000, 2_000, 60, False),
    Detail(300, 600, 40, False),
    Detail(100, 200, 20, False),
    Detail(40, 80, 12, False),
    Detail(12, 24, 6, False),
    Detail(4, 0, 3, False),
)
"""From all to little: a page has so much of each group as it has room for."""


def told(story: Story, chosen: Chosen, detail: Detail = DETAILS[0]) -> Html:
    """The part of the page about a group."""
    rows = story.rebalances.rows[: detail.rebalances]
    cost = groups.cost(story.about, chosen.about)
    place, named = anchors.group(story.group), groups.name(story.group)
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
        tag("p", tag("b", "Cost: "), cost, class_="cost") if cost else None,
        groups.advice(story.about),
        _figures(story),
        _episodes(story, detail),
        _picture(story, chosen, detail),
        [tag("h3", "How it read"), progress] if progress else None,
        [tag("h3", "Rebalances, the newest first"), rebalances.listed(rows, story.rebalances.total - len(rows))]
        if rows
        else None,
        id_=place,
    )


def _figures(story: Story) -> Html:
    row = story.about
    told = [
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
    told.append(f"it {catching}" if catching else None)
    if row["rebalances"]:
        told.append(f"most often because of: {cause_words(row['top_cause']).title}{_by(row)}")
    return tag("p", "; ".join(filter(None, told)), ".", class_="dim")


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


def _episodes(story: Story, detail: Detail) -> Html | None:
    rows = story.episodes.rows[: detail.episodes]
    if not rows:
        return None
    columns: Columns = {
        Column("from (UTC)", is_head=True, is_time=True): lambda row: moment(row["from_ms"]),
        Column("until", is_time=True): lambda row: moment(
            row["until_ms"], day=row["until_ms"] // DAY != row["from_ms"] // DAY
        ),
        Column("what happened"): lambda row: row["told"],
        Column("confidence", True): lambda row: percent(round(row["confidence"], 2)),
    }
    head, tail = rows[:_SHOWN_AT_ONCE], rows[_SHOWN_AT_ONCE:]
    left = story.episodes.total - len(rows)
    more = folded(plural(len(tail), "earlier one"), listing(columns, tail, left)) if tail else ""
    return join([tag("h3", "What happened, the newest first"), listing(columns, head, 0 if tail else left), more])
