"""The rows that prove the claims about a group, as HTML that is visible after a click. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from muster.pipeline.report.content import Row
from muster.pipeline.report.markup import Content, Html, folded, join, tag
from muster.pipeline.wording import moment

TITLE: Final = "The evidence"
NO_LINKS: Final[Mapping[int, str]] = {}

Anchors = Mapping[int, str]
"""The places of rebalances on the page, by the end of each rebalance (ms)."""


def of_group(about: Row, anchors: Anchors = NO_LINKS) -> Html | None:
    """The evidence of all claims about a group. `about`: a row of `Chosen.groups`."""
    claims = [one for one in about.get("claims") or () if one["evidence"]]
    if not claims:
        return None
    parts = (
        [tag("p", one["text"], tag("small", f" {one['confidence']}; rule: {one['rule'].replace('_', ' ')}")),
         rows_of(one["evidence"], one["rows"], anchors)]
        for one in claims
    )  # fmt: skip
    return folded(TITLE, *parts, class_="evidence")


def of_episode(row: Row, anchors: Anchors) -> Html | None:
    """The evidence of an episode."""
    some = row.get("evidence")
    return folded(TITLE, rows_of(some, row["rebalances"], anchors), class_="evidence") if some else None


def rows_of(some: Sequence[Row], count: int, anchors: Anchors) -> Html:
    """A list of rows of tables. `count`: the number of all rows that prove the claim."""
    lines = [tag("li", _time(one, anchors), f" {one['table']}: {one['text']}") for one in some]
    left = count - len(some)
    return tag("ul", join(lines), tag("li", f"{left:,} more rows") if left > 0 else None)


def _time(one: Row, anchors: Anchors) -> Content:
    when = moment(one["at_ms"])
    place = anchors.get(one["at_ms"]) if one["table"] == "rebalances" else None
    return when if place is None else tag("a", when, href=f"#{place}")
