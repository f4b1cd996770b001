"""The section of the page about the what-if. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Final

from muster.pipeline.report.content import Chosen, Row
from muster.pipeline.report.formatting import compared, percent, setting_words
from muster.pipeline.report.groups import Pages, link
from muster.pipeline.report.markup import Column, Columns, Content, Html, folded, join, listing, section, table, tag
from muster.pipeline.schema import SOURCE_LOG
from muster.pipeline.whatif.history import CONSUMER
from muster.pipeline.whatif.leader import is_cooperative
from muster.pipeline.wording import duration, number, plural


def sections(chosen: Chosen, pages: Pages) -> Html | None:
    """The section about the what-if; None if no what-if was requested. `pages`: the page of each group."""
    if not chosen.grid and not chosen.fidelity:
        return None
    return section(
        "What if",
        _answers(chosen),
        _all(chosen),
        _best(chosen, pages),
        _each(chosen, pages),
        _withheld(chosen, pages),
        id_="what-if",
    )


def answer(row: Row, withheld: int) -> str:
    """A sentence about what a setting would have changed, over all groups. `row`: a row of `Chosen.grid`."""
    unread, was = _seconds(row["unread_partition_s"]), _seconds(row["actual_unread_partition_s"])
    changed = json.loads(row["settings_json"])
    parts = [
        f"{number(row['rebalances'])}{_rounds(changed)} instead of "
        f"{plural(row['actual_rebalances'] or 0, 'rebalance')} (fewer in {number(row['fewer'])} of "
        f"{plural(row['groups'], 'group')}, more in {number(row['more'])})",
        f"partitions unread for {unread} instead of {was} "
        f"(less in {number(row['less'])}, longer in {number(row['longer'])})",
    ]
    if "session.timeout.ms" in changed and (row["detect_ms"] or 0) < (row["actual_detect_ms"] or 0):
        parts.append("not counted: members that only paused, and that a shorter session would have put out")
    if withheld:
        parts.append(f"{plural(withheld, 'group')} cannot be judged")
    return f"{row['setting']}: {'; '.join(parts)}"


def _rounds(changed: Mapping[str, object]) -> str:
    """The kind of rebalances in which not all members stop. There may be more of them, though less time is unread."""
    if changed.get("group.protocol") == CONSUMER:
        return " epochs, in which nobody stops what he keeps,"
    return " short rounds" if is_cooperative(str(changed.get("assignor", ""))) else ""


def withheld_groups(chosen: Chosen) -> int:
    """The groups whose what-if is withheld."""
    return sum(row["withheld"] or 0 for row in chosen.fidelity)


def _answers(chosen: Chosen) -> Html | None:
    """A sentence for each setting, if few settings were requested."""
    return (
        join([tag("p", answer(row, withheld_groups(chosen))) for row in chosen.grid]) if chosen.answers.rows else None
    )


def _each(chosen: Chosen, pages: Pages) -> Html | None:
    if not chosen.answers.rows:
        return None
    columns: Columns = {
        Column("group", is_head=True): lambda row: link(row["group"], pages),
        Column("setting"): itemgetter("setting"),
        Column("rebalances", True): lambda row: _instead(row, "rebalances", number),
        Column("paused", True): lambda row: _instead(row, "paused_partition_s", _seconds),
        Column("silent", True): lambda row: _instead(row, "silent_partition_s", _seconds),
        Column("not told, because"): itemgetter("why"),
    }
    return join([tag("h3", "Group by group"), listing(columns, chosen.answers.rows, chosen.answers.left)])


def _instead(row: Row, name: str, shown: Callable[[float | None], str]) -> str | None:
    return None if row[name] is None else f"{shown(row[name])} instead of {shown(row[f'actual_{name}'])}"


def _all(chosen: Chosen) -> Html:
    if not chosen.grid:
        return tag("p", "No group's history could be replayed faithfully enough.", class_="warn")
    first = chosen.grid[0]
    columns = [Column("setting", is_head=True), *(Column(title, True) for title, _, _ in _FIGURES)]
    actual = (tag("b", "what happened"), *(tag("b", shown(first[f"actual_{name}"])) for _, name, shown in _FIGURES))
    rows = (
        (_setting(row), *(compared(row, name, shown(row[name])) for _, name, shown in _FIGURES)) for row in chosen.grid
    )
    about = (
        f"The histories of {plural(first['groups'], 'group')} were played again by the coordinator's own code under "
        "each setting. Bars: half full is as much as it was. Paused: how long partitions were not read while a group "
        "rebalanced or waited for its first members. Silent: how long their owner was dead or away otherwise, before "
        "anybody noticed it. Both are added up. The settings are in the order of their sum. "
        "Rebalances that left a group empty are not counted here."
    )
    return join([tag("p", about, class_="dim"), _estimated(chosen), table(columns, [actual, *rows])])


def _estimated(chosen: Chosen) -> Html | None:
    """A sentence that says which figures are estimates."""
    groups = sum(row["groups"] - (row["withheld"] or 0) for row in chosen.fidelity if row["source"] == SOURCE_LOG)
    if not groups:
        return None
    about = (
        f"Of {plural(groups, 'group')} there is the offsets log alone. It does not show when a rebalance began, nor "
        "when a dead member was last heard of. So paused and silent are estimates there, also of what happened."
    )
    return tag("p", about, class_="dim")


def _seconds(value: float | None) -> str:
    return duration(None if value is None else value * 1000)


_FIGURES: Final[Sequence[tuple[str, str, Callable[[float | None], str]]]] = (
    ("rebalances", "rebalances", number),
    ("partitions moved", "moved_partitions", number),
    ("paused", "paused_partition_s", _seconds),
    ("silent", "silent_partition_s", _seconds),
    ("a death is noticed after", "detect_ms", duration),
)


def _setting(row: Row) -> Content:
    return [tag("b", row["setting"]), " ", tag("small", setting_words(row["settings_json"]))]


def _best(chosen: Chosen, pages: Pages) -> Html | None:
    if not chosen.advice.rows:
        return None
    columns: Columns = {
        Column("group", is_head=True): lambda row: link(row["group"], pages),
        Column("advice"): itemgetter("sentence"),
        Column("spared, partitions added up", True): lambda row: _seconds(row["gain_s"]),
        Column("± at most", True): lambda row: _seconds(row["uncertainty_s"]),
    }
    found = listing(columns, chosen.advice.rows, chosen.advice.left)
    return join([tag("h3", "What would have helped most"), found])


def _withheld(chosen: Chosen, pages: Pages) -> Html:
    lines = [
        tag(
            "p",
            f"{plural(row['groups'], 'group')} from {_SOURCES.get(row['source'], row['source'])}: "
            f"{number(row['reproduced'])} of {plural(row['generations'] or 0, 'generation')} came out as they were; "
            f"{plural(row['withheld'] or 0, 'group')} withheld.",
            class_="dim",
        )
        for row in chosen.fidelity
    ]
    found = None
    if chosen.withheld.rows:
        columns = [Column("group", is_head=True), Column("faithful", True), Column("why it is withheld")]
        rows = ((link(row["group"], pages), percent(row["share"]), row["why"] or "") for row in chosen.withheld.rows)
        listed = table(columns, rows, chosen.withheld.left)
        found = folded(plural(chosen.withheld.total, "group") + " withheld", listed)
    return join([tag("h3", "How far to trust this"), *lines, found])


_SOURCES = {"events": "the server's events", "log": "the offsets log alone"}
