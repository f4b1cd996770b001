"""The pages: HTML files that need nothing else, of which the first tells all that is of all groups. Pure.

If there are few groups, the first page is the only one. Of many, each page has the table and the stories of a hundred.
Without scripts nothing is missing; a small one helps to search and to sort.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from muster.pipeline.report import about, comparison, groups, offsets, settings, story, transactions
from muster.pipeline.report.content import Chosen, Row, Story
from muster.pipeline.report.markup import Content, Html, join, section, tag
from muster.pipeline.report.overview import overview
from muster.pipeline.report.story import DETAILS, Detail
from muster.pipeline.report.style import script, sheet
from muster.pipeline.wording import plural

PAGE: Final = "report.html"
"""The first page."""
GROUPS: Final = 100
"""Groups on one page."""
BYTES: Final = 1_000_000
"""No page is larger: of groups that were restless less is told where there is no room."""


def names(chosen: Chosen) -> list[str]:
    """The files' names, the first page first."""
    count = max(1, -(-len(chosen.groups.rows) // GROUPS))
    return [PAGE, *(f"{PAGE.removesuffix('.html')}-{number}.html" for number in range(2, count + 1))]


def pages(chosen: Chosen) -> dict[str, str]:
    """The pages of what was chosen, by the names of their files."""
    files = names(chosen)
    rows = chosen.groups.rows
    told = {one.group: one for one in chosen.stories}
    where = {row["group"]: files[place // GROUPS] for place, row in enumerate(rows) if row["group"] in told}
    made = {}
    for place, file in enumerate(files):
        some = rows[place * GROUPS : (place + 1) * GROUPS]
        links = {group: "" if page == file else page for group, page in where.items()}
        stories = [told[row["group"]] for row in some if row["group"] in told]
        made[file] = _page(chosen, _Part(files, place, some, stories, links, len(rows)))
    return made


class _Part:
    """What one page has of the groups."""

    def __init__(
        self,
        files: Sequence[str],
        place: int,
        rows: Sequence[Row],
        stories: Sequence[Story],
        links: Mapping[str, str],
        count: int,
    ) -> None:
        self.files, self.place, self.rows, self.stories, self.links = files, place, rows, stories, links
        self.count = count
        """How many groups there are on all pages."""

    @property
    def first(self) -> int:
        """The place of its first group among all."""
        return self.place * GROUPS + 1


def _page(chosen: Chosen, part: _Part) -> str:
    title = f"Groups of {chosen.about.source}"
    if part.place:
        title += f", {part.first} to {part.first + len(part.rows) - 1}"
        before: list[Content] = [tag("p", tag("a", "Back to the overview", href=PAGE, class_="overview"))]
        after: list[Content] = []
    else:
        before = [about.lead(chosen), _contents(chosen), groups.glance(chosen, part.links), overview(chosen)]
        after = [
            comparison.sections(chosen, part.links),
            settings.sections(chosen, part.links),
            offsets.sections(chosen, part.links),
            transactions.sections(chosen),
        ]
    body: list[Content] = [tag("h1", title), before, _groups(chosen, part), after]
    head = tag(
        "head",
        Html('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        tag("title", title),
        tag("style", Html(sheet())),
    )
    end = None if part.place else about.made_of(chosen)
    frame = _whole(head, [join(body), end])
    stories = _fitting(chosen, part.stories, BYTES - len(frame.encode()))
    return _whole(head, [join(body), tag("div", stories, id="stories"), end])


def _whole(head: Html, body: Content) -> str:
    code = tag("script", Html(script()))
    return f'<!doctype html>\n<html lang="en">{head}{tag("body", tag("main", body), code)}</html>\n'


def _fitting(chosen: Chosen, stories: Sequence[Story], room: int) -> list[Html]:
    """As much of each group as there is room for, in bytes: of the last ones, that need the least help, less first."""
    begin = next((at for at, one in enumerate(DETAILS) if _about(stories, one) <= _FAR * room), len(DETAILS) - 1)
    ahead = [_AHEAD if place < _WORST else 0 for place in range(len(stories))]
    levels = [max(begin - one, 0) for one in ahead]
    made = [story.told(one, chosen, DETAILS[level]) for one, level in zip(stories, levels, strict=True)]
    size = sum(len(one.encode()) for one in made)
    steps = sorted(
        (level + ahead[place], -place, place, level)
        for place in range(len(stories))
        for level in range(levels[place] + 1, len(DETAILS))
    )
    for _, _, place, level in steps:
        if size <= room - _SLACK:
            break
        size -= len(made[place].encode())
        made[place] = story.told(stories[place], chosen, DETAILS[level])
        size += len(made[place].encode())
    return made


_WORST: Final = 8
"""So many groups that need help most, those of which the top of the page tells, are told more of:"""
_AHEAD: Final = 1
"""by so many details."""
_SLACK: Final = 1_000
_FAR: Final = 3
"""What would be so many times too large is not even tried."""


def _about(stories: Sequence[Story], detail: Detail) -> int:
    """About how many bytes stories have."""
    return sum(
        _OF_REBALANCE * min(len(one.rebalances.rows), detail.rebalances)
        + _OF_SHARE * min(len(one.shares), detail.shares)
        for one in stories
    )


_OF_REBALANCE: Final = 500
_OF_SHARE: Final = 60


def _contents(chosen: Chosen) -> Html:
    places = [("#help", "Which need help")] if chosen.groups.total else []
    places += [("#overview", "Overview"), ("#groups", "Groups")]
    places += [("#before-and-after", "Before and after")] if chosen.compared is not None else []
    places += [("#what-if", "What if")] if chosen.grid or chosen.fidelity else []
    places.append(("#offsets", "Offsets"))
    places += [("#static", "Came back")] if chosen.static_candidates.rows else []
    places += [("#transactions", "Transactions")] if chosen.transaction_ends else []
    places += [("#stories", "Each group")] if chosen.stories else []
    places.append(("#made-of", "What this was made of"))
    return tag("nav", (tag("a", text, href=where) for where, text in places), aria_label="Parts of the page")


def _groups(chosen: Chosen, part: _Part) -> Html:
    last = part.place == len(part.files) - 1
    return section(
        "Groups",
        groups.about(),
        _other_pages(part) if len(part.files) > 1 else None,
        groups.search(),
        groups.listed(part.rows, part.stories, part.links, chosen.groups.left if last else 0),
        _other_pages(part) if len(part.files) > 1 else None,
        groups.index(chosen, part.links) if not part.place else None,
        id_="groups",
    )


def _other_pages(part: _Part) -> Html:
    links: list[Content] = []
    for place, file in enumerate(part.files):
        text = f"{place * GROUPS + 1}–{min((place + 1) * GROUPS, part.count)}"
        here = place == part.place
        links.append(tag("b", text, aria_current="page") if here else tag("a", text, href=f"{file}#groups"))
    return tag("nav", tag("span", f"{plural(len(part.files), 'page')} of groups, the worst first: "), links,
               aria_label="Pages of groups", class_="pages")  # fmt: skip
