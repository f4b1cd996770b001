"""Which groups need help: the section at the top of the page, and the table of groups. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from muster.pipeline.episodes.model import CRASH_LOOP
from muster.pipeline.episodes.verdict import FINE, HELP, LEVELS, LOOK, UNKNOWN
from muster.pipeline.report import evidence, markup
from muster.pipeline.report.content import About, Chosen, Row, Story
from muster.pipeline.report.curves import catching_up
from muster.pipeline.report.markup import Column, Content, Html, Line, folded, join, section, table, tag
from muster.pipeline.wording import SECOND, number, plural, to_the_second

LEVEL_WORDS: Final[Mapping[str, str]] = {
    HELP: "needs help", LOOK: "to look at", UNKNOWN: "not known", FINE: "fine",
}  # fmt: skip
_COUNTED: Final = {
    HELP: ("needs help", "need help"), LOOK: ("to look at",) * 2, UNKNOWN: ("not known",) * 2, FINE: ("fine",) * 2,
}  # fmt: skip
_MAX_LISTED: Final = 8
"""The largest number of groups that the top of the page describes."""
_NAME: Final = 200
"""A name is cut to this number of characters."""
_NOT_KNOWN: Final = "not told"

Pages = Mapping[str, str]
"""The page of each group, by the group's name. The text "" means this page."""


def name(group: str) -> str:
    """A group's name. It is cut if it would fill the page. It is in quotes if it has blanks at its start or end."""
    seen = group if group == group.strip() else f"“{group}”"
    return seen if len(seen) <= _NAME else f"{seen[:_NAME]}…"


def link(group: str, pages: Pages) -> Content:
    """A group's name. If the group has a section, the name is a link to it."""
    page = pages.get(group)
    return name(group) if page is None else tag("a", name(group), href=f"{page}#{markup.group_anchor(group)}")


def badge(level: str | None) -> Html:
    """The level of a verdict as a word in its colour: whether a group needs help."""
    return tag("span", LEVEL_WORDS.get(level or "", _NOT_KNOWN), class_=f"badge {level or 'unknown'}")


def glance(chosen: Chosen, pages: Pages) -> Html | None:
    """The top of the page: what a reader wants to know first."""
    if not chosen.groups.total:
        return None
    counts = [
        tag("div", tag("b", number(chosen.levels.get(level, 0))),
            tag("span", _COUNTED[level][chosen.levels.get(level) != 1]), class_=level)
        for level in LEVELS if level != UNKNOWN or chosen.levels.get(UNKNOWN)
    ]  # fmt: skip
    bad = [row for row in chosen.groups.rows if row["level"] in (HELP, LOOK)]
    worst = [row for row in bad if row["level"] == HELP] or bad
    more = sum(chosen.levels.get(level, 0) for level in (HELP, LOOK)) - len(worst[:_MAX_LISTED])
    none = "No group needs help." if chosen.levels and not chosen.levels.get(HELP) else None
    return section(
        "Which groups need help",
        tag("div", counts, class_="figures levels") if chosen.levels else None,
        tag("p", none, class_="good") if none else None,
        tag("ul", (_worst(row, chosen.about, pages) for row in worst[:_MAX_LISTED]), class_="worst") if worst else None,
        tag("p", tag("a", f"{plural(more, 'more group')} to look at", href="#groups"), class_="dim")
        if more > 0
        else None,
        id_="help",
    )


def _worst(row: Row, about: About, pages: Pages) -> Html:
    return tag(
        "li",
        tag("p", badge(row["level"]), " ", tag("b", link(row["group"], pages)), ": ", row["verdict"] or ""),
        advice(row),
        tag("p", tag("b", "Cost: "), cost_text, class_="cost") if (cost_text := cost(row, about)) else None,
        evidence.of_group(row),
    )


def cost(row: Row, about: About) -> str | None:
    """The cost of a group's trouble, to the second. It is None without cost, or without trouble."""
    if not row["trouble_ms"]:
        return None
    near = "" if about.has_events else "about "
    return f"partitions were not read for {near}{to_the_second(row['trouble_ms'])}, all added up"


def advice(row: Row) -> Html | None:
    """What to do, and the one change that would have spared most.

    Or why there is no such change, if the group's rebalances are trouble.
    """
    found = [tag("p", tag("b", f"{title}: "), text, class_="advice") for title, text in advised(row)]
    if found:
        return join(found)
    why = row["unadvised"]
    return tag("p", tag("b", "Nothing is advised: "), f"{why}.", class_="dim") if why else None


def advised(row: Row) -> list[tuple[str, str]]:
    """The advice about a group: what its claims say, and the setting that would have spared most, with titles."""
    claims = row.get("claims") or ()
    found = [("What to do", one["advice"]) for one in claims if one["advice"]][:1]
    if row["advice"] and not is_hiding(claims):
        found.append(("One change", row["advice"]))
    return found


def is_hiding(claims: Iterable[Row] | None) -> bool:
    """Whether a change of a setting would only hide the trouble: a member ends again and again."""
    return any(one["rule"] == CRASH_LOOP for one in claims or ())


_COLUMNS: Final = (
    Column("group", is_head=True), Column("needs help?"), Column("what happened"), Column("rebalances", True),
    Column("cost", True), Column("flapping", True), Column("behind", True),
)  # fmt: skip


def listed(rows: Sequence[Row], stories: Sequence[Story], pages: Pages, left: int = 0) -> Html:
    """The table of some groups."""
    progress = {story.group: story.progress for story in stories}
    return table(_COLUMNS, (_line(row, pages, progress) for row in rows), left, class_="sortable")


def about() -> Html:
    """The explanation of the columns of the table of groups."""
    text = (
        "Worst first: who had trouble for the longest time. Forming, restarts, scaling and stops on purpose are none. "
        "Cost: how long trouble kept partitions from being read, all added up; all: what all its rebalances cost. "
        "Flapping: 0 (calm) to 100. Behind: records not yet committed at the end."
    )
    return tag("p", text, class_="dim")


def search() -> Html:
    """A field that searches for a group. It is only visible where the script runs."""
    label = tag("label", "Find a group ", Html('<input type="search" autocomplete="off" spellcheck="false">'))
    sorting = tag("label", "Sort by ", tag("select"))
    return tag("div", label, sorting, tag("span", class_="found", role="status"), class_="tools", hidden="")


def index(chosen: Chosen, pages: Pages) -> Html | None:
    """A list of all groups by name, if the groups are on several pages."""
    if len(set(pages.values())) < 2:
        return None
    names = sorted(row["group"] for row in chosen.groups.rows)
    links = tag("ul", (tag("li", link(group, pages)) for group in names), class_="index")
    return folded(f"All {plural(len(names), 'group')} by name", links)


def _line(row: Row, pages: Pages, progress: Mapping[str, Sequence[Row]]) -> Line:
    level = row["level"]
    trouble_ms, all_ms = row["trouble_ms"], row["cost_ms"] or 0
    catching = catching_up(progress.get(row["group"], ()), row["lag"])
    behind: Content = [number(row["lag"]), tag("small", catching) if catching else None]
    cells = (
        link(row["group"], pages),
        badge(level),
        row["verdict"] or "",
        number(row["rebalances"]),
        [
            to_the_second(trouble_ms),
            tag("small", f"all: {to_the_second(all_ms)}") if all_ms - (trouble_ms or 0) >= SECOND else None,
        ],
        number(row["score"]),
        behind,
    )
    rank = LEVELS.index(level) if level in LEVELS else len(LEVELS)
    values = (None, rank, None, row["rebalances"], trouble_ms, row["score"], row["lag"])
    return Line(cells, values=values)
