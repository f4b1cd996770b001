"""The part of the page about before and after a change. Pure."""

from __future__ import annotations

from muster.pipeline.episodes.comparison import LIKELY
from muster.pipeline.report.content import Chosen, Row
from muster.pipeline.report.groups import Pages, link
from muster.pipeline.report.markup import Column, Columns, Html, listing, section, tag
from muster.pipeline.wording import duration, moment, number, plural


def sections(chosen: Chosen, pages: Pages) -> Html | None:
    """None if nothing was compared. `pages`: where groups are told of."""
    if chosen.compared is None:
        return None
    about = (
        "Happenings are episodes; of a loop each time that a member went. By chance: how often a difference like this "
        f"comes by itself (exact Poisson test). Significant: less often than {LIKELY} by the number of groups."
    )
    columns: Columns = {
        Column("group", is_head=True): lambda row: link(row["group"], pages),
        Column("is it chance?"): _significance,
        Column("rebalances", True): lambda row: _pair(row, "rebalances", number),
        Column("an hour", True): _rates,
        Column("unread", True): lambda row: _pair(row, "cost_ms", duration),
        Column("before"): lambda row: _kinds(row["episodes_before"]),
        Column("after"): lambda row: _kinds(row["episodes_after"]),
    }
    return section(
        "Before and after",
        tag("p", total(chosen)),
        tag("p", about, class_="dim"),
        listing(columns, chosen.comparison.rows, chosen.comparison.left),
        id_="before-and-after",
    )


def total(chosen: Chosen) -> str:
    """All groups in a sentence."""
    row, since = chosen.compared or {}, chosen.about.compare
    where = f"since {moment(since)}" if isinstance(since, int) else f"since {since}"
    return (
        f"{where}: {_pair(row, 'rebalances', number)} rebalances ({_rates(row)} in an hour of a group), partitions "
        f"unread for {_pair(row, 'cost_ms', duration)}; {number(row['significant'])} of "
        f"{plural(row['groups'], 'group')} differ by more than chance"
    )


def sentence(row: Row) -> str:
    """One group."""
    return (
        f"{_pair(row, 'rebalances', number)} rebalances ({_rates(row)} an hour), unread "
        f"{_pair(row, 'cost_ms', duration)}: {_significance(row)}"
    )


def _significance(row: Row) -> str:
    if row["p"] is None:
        return "there on one side only"
    often = f"p = {row['p']:.2g}"
    return f"significant ({often})" if row["is_significant"] else f"may be chance ({often})"


def _pair(row: Row, name: str, shown: object) -> str:
    assert callable(shown)
    return f"{shown(row[f'{name}_before'])} → {shown(row[f'{name}_after'])}"


def _rates(row: Row) -> str:
    told = []
    for side in ("before", "after"):
        hours = row[f"hours_{side}"]
        told.append(number(float(row[f"rebalances_{side}"] or 0) / hours) if hours else "–")
    return " → ".join(told)


def _kinds(kinds: list[str] | None) -> str:
    return ", ".join(kinds or ()).replace("_", " ")
