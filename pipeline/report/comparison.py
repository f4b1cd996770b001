"""The section of the page that compares the time before a change with the time after it. Pure."""

from __future__ import annotations

from typing import Final

from muster.pipeline.episodes.comparison import LEAST, LIKELY, ONE_SIDE, SIGNIFICANT, TOO_FEW
from muster.pipeline.episodes.verdict import count_of_kind
from muster.pipeline.report.content import Chosen, Row
from muster.pipeline.report.groups import Pages, link
from muster.pipeline.report.markup import Column, Columns, Html, listing, section, tag
from muster.pipeline.wording import duration, moment, number, plural


def sections(chosen: Chosen, pages: Pages) -> Html | None:
    """The section about the comparison; None if nothing was compared. `pages`: the page of each group."""
    if chosen.compared is None:
        return None
    about = (
        "Happenings are episodes; of loops that go on for half of the time each turn. By chance: how often a group in "
        "which nothing has changed differs so much or more (exact Poisson test). More than chance: that is less often "
        f"than {LIKELY:.0%}, divided by the number of groups that are tested. A group with fewer than {LEAST} "
        "happenings is not tested."
    )
    columns: Columns = {
        Column("group", is_head=True): lambda row: link(row["group"], pages),
        Column("is it chance?"): _significance,
        Column("happenings", True): lambda row: _pair(row, "happenings", number),
        Column("rebalances", True): lambda row: _pair(row, "rebalances", number),
        Column("rebalances in an hour", True): _rates,
        Column("unread", True): lambda row: _pair(row, "cost_ms", _time),
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
    """The sums of all groups in a sentence."""
    row, since = chosen.compared or {}, chosen.about.compare
    where = f"before and after {moment(since)} UTC" if isinstance(since, int) else f"{since} (before) and now (after)"
    parts = [
        f"{where}: {_pair(row, 'rebalances', number)} rebalances besides first formations ({_rates(row)} in an "
        "hour of a group)",
        f"partitions unread for {_pair(row, 'cost_ms', _time)}",
        f"{plural(row['groups'], 'group')}: {_judged(row)}",
    ]
    if chosen.about.overlap_ms:
        parts.append(f"both cover the same {duration(chosen.about.overlap_ms)}")
    return "; ".join(parts)


def _judged(row: Row) -> str:
    counts = {
        f"{plural(row['significant'], 'differs', 'differ')} by more than chance": True,
        f"{number(row['chance'])} may differ by chance": row["chance"],
        f"{number(row['too_few'])} with too few happenings to judge": row["too_few"],
        f"{number(row['one_side'])} on one side only": row["one_side"],
    }
    return ", ".join(text for text, is_so in counts.items() if is_so)


def sentence(row: Row) -> str:
    """The comparison of one group in a sentence."""
    return (
        f"{_pair(row, 'rebalances', number)} rebalances ({_rates(row)} an hour), unread "
        f"{_pair(row, 'cost_ms', _time)}: {_significance(row)}"
    )


def _significance(row: Row) -> str:
    if row["judgement"] == ONE_SIDE:
        return "only before" if row["hours_before"] else "only after"
    if row["judgement"] == TOO_FEW and not row["happenings_before"] and not row["happenings_after"]:
        return "nothing happened"
    if row["judgement"] == TOO_FEW:
        return f"too few happenings to judge ({_pair(row, 'happenings', number)})"
    often = f"by chance {_often(row['p'])}"
    return f"more than chance ({often})" if row["judgement"] == SIGNIFICANT else f"may be chance ({often})"


def _time(ms: int) -> str:
    return duration(ms) if ms else "0"


def _often(p: float) -> str:
    """A probability in words, as in `once in 40 times`."""
    if p >= _OFTEN:
        return "in most cases"
    times = 1 / p if p > _NEVER else 1 / _NEVER
    digits = 10 ** max(len(f"{times:.0f}") - 2, 0)
    often = f"once in {round(times / digits) * digits:,.0f}"
    return often if p > _NEVER else f"less than {often}"


_OFTEN: Final = 0.5
_NEVER: Final = 1e-6


def _pair(row: Row, name: str, shown: object) -> str:
    assert callable(shown)
    return f"{shown(row[f'{name}_before'])} → {shown(row[f'{name}_after'])}"


def _rates(row: Row) -> str:
    parts = []
    for side in ("before", "after"):
        hours = row[f"hours_{side}"]
        parts.append(number(float(row[f"rebalances_{side}"] or 0) / hours) if hours else "–")
    return " → ".join(parts)


def _kinds(kinds: list[str] | None) -> str:
    parts = (one.partition(" ") for one in kinds or ())
    return ", ".join(count_of_kind(kind, int(count)) for count, _, kind in parts)
