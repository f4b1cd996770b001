"""The section at the top of the page: commits, lag and rebalances of all groups over time. Pure."""

from __future__ import annotations

from typing import Final

from muster.pipeline.episodes.other_trouble import SILENCE_ADVICE, silence_claim
from muster.pipeline.episodes.verdict import HELP
from muster.pipeline.episodes.when import When
from muster.pipeline.report import curves, markup
from muster.pipeline.report.columns import over_time
from muster.pipeline.report.content import Chosen, Row
from muster.pipeline.report.groups import Pages, badge, link
from muster.pipeline.report.markup import Html, section, tag
from muster.pipeline.wording import moment, plural

_WORST: Final = 3
"""The largest number of groups in the first lines of the page."""


def silences(chosen: Chosen) -> list[str]:
    """Sentences about the times without a sign of life of any group, or of some groups, the longest first."""
    when = When(chosen.last_ms or 0, chosen.first_ms)
    rows = chosen.silences.rows
    found = [silence_claim(row["from_ms"], row["until_ms"], row["groups"], when, row["only"]).text for row in rows]
    left = chosen.silences.left
    return [*found, f"{plural(left, 'more such time')}: see the table silences"] if left else found


def in_short(chosen: Chosen, pages: Pages) -> Html | None:
    """The first lines of the page: the silences of the cluster, and the worst groups with what is wrong."""
    quiet = [tag("p", f"{one}.", class_="warn") for one in silences(chosen)]
    if quiet:
        quiet.append(tag("p", tag("b", "What to do: "), f"{SILENCE_ADVICE}.", class_="advice"))
    bad = [row for row in chosen.groups.rows if row["level"] == HELP][:_WORST]
    found = [*quiet, *(_wrong(row, pages) for row in bad if row.get("claims"))]
    return tag("div", found, class_="short") if found else None


def _wrong(row: Row, pages: Pages) -> Html:
    """What is wrong with a group, and what to do."""
    claim = row["claims"][0]
    advice = [". ", tag("b", "What to do: "), claim["advice"], "."] if claim["advice"] else None
    return tag("p", badge(row["level"]), " ", tag("b", link(row["group"], pages)), ": ", claim["text"], advice)


def timeline(chosen: Chosen, pages: Pages) -> Html | None:
    """The pictures of all groups together. Each bar of rebalances is a link to a group."""
    if chosen.first_ms is None or chosen.last_ms is None:
        return None
    drawn = (curves.COMMITS, curves.BEHIND)

    def target(row: Row) -> str | None:
        page = pages.get(row.get("group") or "")
        return None if page is None else f"{page}#{markup.group_anchor(row['group'])}"

    return section(
        "The cluster over time",
        curves.pictures(chosen.progress, chosen.first_ms, chosen.last_ms, with_figures=True, drawn=drawn),
        tag("h3", "Rebalances over time"),
        over_time(chosen.buckets, chosen.bucket_ms, chosen.first_ms, chosen.last_ms, target),
        id_="time",
    )


def time_filter(chosen: Chosen) -> Html | None:
    """Two fields for a time (UTC). Rows of other times are hidden. They are only visible where the script runs."""
    if chosen.first_ms is None or chosen.last_ms is None:
        return None
    least, most = (moment(ms).replace(" ", "T") for ms in (chosen.first_ms, chosen.last_ms))
    fields = (
        tag("label", f"{name} ", Html(f'<input type="datetime-local" step="1" min="{least}" max="{most}">'))
        for name in ("Only from (UTC)", "until")
    )
    return tag("div", fields, tag("span", class_="found", role="status"), class_="tools times", hidden="")
