"""The pages: HTML files that need no other files. Pure. The first page has all sections about all groups.

If there are few groups, it is the only page. Otherwise each page has the table and the stories of a hundred groups. All
content is visible without scripts. A small script helps to search and to sort.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from muster.pipeline.report import cluster, comparison, groups, offsets, settings, shares, story, streams
from muster.pipeline.report.content import Chosen, Row, Story
from muster.pipeline.report.formatting import cause_words, mark, odd_times, percent, script, sheet, took_words
from muster.pipeline.report.markup import Column, Columns, Content, Html, join, listing, section, table, tag
from muster.pipeline.report.story import DETAILS, Detail
from muster.pipeline.wording import duration, moment, number, plural, to_the_second


def lead(chosen: Chosen) -> Html:
    """The sentence below the title: the time that the log covers, and how the rebalances are known."""
    if chosen.first_ms is None or chosen.last_ms is None:
        return tag("p", "The log has no group.", class_="warn")
    span_ms = chosen.last_ms - chosen.first_ms
    span = f"{moment(chosen.first_ms)} to {moment(chosen.last_ms)} UTC, {duration(span_ms)}."
    if not span_ms:
        span = f"{moment(chosen.first_ms)} UTC."
    if chosen.about.has_events:
        how = "The server has reported the rebalances (__group_events)."
    else:
        how = (
            "There are no events: rebalances are inferred from the offsets log, each with a confidence. "
            "Their starts are estimates, and so are their lengths and pauses."
        )
    return join([tag("p", span), tag("p", how, class_="dim")])


def made_of(chosen: Chosen) -> Html:
    """A sentence about the rows of the log, the filters, and the rows that could not be used."""
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
            tag("p", "This source does not have the ends of the topics: how far groups are behind is not known.")
        )
    if any(chosen.odd_rows.values()):
        unusable = " and ".join(f"{count:,} {kind}" for kind, count in chosen.odd_rows.items() if count)
        lines.append(tag("p", f"{unusable} rows could not be used:", class_="warn"))
        columns = [Column("kind"), Column("reason"), Column("rows", True)]
        lines.append(table(columns, ((row["kind"], row["reason"], number(row["rows"])) for row in chosen.odd_reasons)))
    if sentence := odd_times(chosen.odd_times.rows, chosen.odd_times.total):
        lines.append(tag("p", f"{sentence[0].upper()}{sentence[1:]}.", class_="warn"))
    lines.append(tag("p", "Times are UTC. What the tables are: docs/pipeline-tables.md of Muster.", class_="dim"))
    return section("What this was made of", lines, id_="made-of")


def overview(chosen: Chosen) -> Html:
    """The section about all groups together: figures and causes."""
    rebalances = sum(row["rebalances"] for row in chosen.causes)
    unread_ms = sum(row["unread_partition_ms"] or 0 for row in chosen.causes)
    lag = sum(row["lag"] or 0 for row in chosen.groups.rows)
    figures = [
        (number(chosen.groups.total), "group" if chosen.groups.total == 1 else "groups"),
        (number(rebalances), "rebalance" if rebalances == 1 else "rebalances"),
        (to_the_second(unread_ms), "unread, partitions added up"),
        (number(chosen.commits), "commit" if chosen.commits == 1 else "commits"),
        (number(chosen.regressions.total), "times commits went backwards"),
        (number(chosen.stalls.total), "times a partition stood still, or fell behind"),
    ]
    if chosen.about.has_ends:
        figures.append((number(lag), "records behind"))
    causes: Columns = {
        Column("cause", is_head=True): lambda row: [mark(row["cause"]), " ", cause_words(row["cause"]).title],
        Column("rebalances", True): lambda row: number(row["rebalances"]),
        Column("took on average", True): took_words,
        Column("unread", True): lambda row: to_the_second(row["unread_partition_ms"]),
        Column("confidence", True): lambda row: percent(row["confidence"]),
    }
    return section(
        "Overview",
        tag("div", (tag("div", tag("b", value), tag("span", name)) for value, name in figures), class_="figures"),
        tag("h3", "Why groups rebalanced"),
        listing(causes, chosen.causes) if chosen.causes else tag("p", "No group rebalanced.", class_="dim"),
        id_="overview",
    )


PAGE: Final = "report.html"
"""The name of the first page's file."""
GROUPS: Final = 100
"""The number of groups on one page."""
BYTES: Final = 1_000_000
"""No page has more bytes than this. If there is not enough space, unstable groups have fewer details."""


def names(chosen: Chosen) -> list[str]:
    """The names of the pages' files, the first page first."""
    count = max(1, -(-len(chosen.groups.rows) // GROUPS))
    return [PAGE, *(f"{PAGE.removesuffix('.html')}-{number}.html" for number in range(2, count + 1))]


def pages(chosen: Chosen) -> dict[str, str]:
    """The pages, by the names of their files."""
    files = names(chosen)
    rows = chosen.groups.rows
    story_of = {one.group: one for one in chosen.stories}
    where = {row["group"]: files[place // GROUPS] for place, row in enumerate(rows) if row["group"] in story_of}
    made = {}
    for place, file in enumerate(files):
        some = rows[place * GROUPS : (place + 1) * GROUPS]
        links = {group: "" if page == file else page for group, page in where.items()}
        stories = [story_of[row["group"]] for row in some if row["group"] in story_of]
        made[file] = _page(chosen, _Part(files, place, some, stories, links, len(rows)))
    return made


class _Part:
    """The groups of one page, and the facts that this page needs."""

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
        """The number of groups on all pages together."""

    @property
    def first(self) -> int:
        """The number of this page's first group among all groups, counted from 1."""
        return self.place * GROUPS + 1


def _page(chosen: Chosen, part: _Part) -> str:
    title = f"Groups of {chosen.about.source}"
    if part.place:
        title += f", {part.first} to {part.first + len(part.rows) - 1}"
        back = tag("p", tag("a", "Back to the overview", href=PAGE, class_="overview"))
        before: list[Content] = [back, cluster.time_filter(chosen)]
        after: list[Content] = []
    else:
        before = [
            lead(chosen), cluster.in_short(chosen, part.links), _contents(chosen), cluster.time_filter(chosen),
            cluster.timeline(chosen, part.links), groups.glance(chosen, part.links), overview(chosen),
        ]  # fmt: skip
        after = [
            comparison.sections(chosen, part.links),
            settings.sections(chosen, part.links),
            offsets.offset_sections(chosen, part.links),
            shares.share_section(chosen, part.links),
            streams.stream_section(chosen, part.links),
            offsets.transaction_sections(chosen),
        ]
    body: list[Content] = [tag("h1", title), before, _groups(chosen, part), after]
    head = tag(
        "head",
        Html('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        tag("title", title),
        tag("style", Html(sheet())),
    )
    end = None if part.place else made_of(chosen)
    frame = _whole(head, [join(body), end])
    stories = _fitting(chosen, part.stories, BYTES - len(frame.encode()))
    return _whole(head, [join(body), tag("div", stories, id="stories"), end])


def _whole(head: Html, body: Content) -> str:
    code = tag("script", Html(script()))
    return f'<!doctype html>\n<html lang="en">{head}{tag("body", tag("main", body), code)}</html>\n'


def _fitting(chosen: Chosen, stories: Sequence[Story], room: int) -> list[Html]:
    """The sections of the groups, with as much detail as fits into `room` bytes.

    The last groups, which need help least, get fewer details first.
    """
    begin = next((at for at, one in enumerate(DETAILS) if _about(stories, one) <= _FAR * room), len(DETAILS) - 1)
    ahead = [_AHEAD if place < _WORST else 0 for place in range(len(stories))]
    levels = [max(begin - one, 0) for one in ahead]
    made = [story.story_section(one, chosen, DETAILS[level]) for one, level in zip(stories, levels, strict=True)]
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
        made[place] = story.story_section(stories[place], chosen, DETAILS[level])
        size += len(made[place].encode())
    return made


_WORST: Final = 8
"""The number of groups at the top of the page, which need help most and have more details."""
_AHEAD: Final = 1
"""These groups are shown with this many more levels of detail."""
_SLACK: Final = 1_000
_FAR: Final = 3
"""A level of detail that would make the page this many times too large is not tried."""


def _about(stories: Sequence[Story], detail: Detail) -> int:
    """The estimated number of bytes of some stories."""
    return sum(
        _OF_REBALANCE * min(len(one.rebalances.rows), detail.rebalances)
        + _OF_SHARE * min(len(one.shares), detail.shares)
        for one in stories
    )


_OF_REBALANCE: Final = 500
_OF_SHARE: Final = 60


def _contents(chosen: Chosen) -> Html:
    places = [("#time", "Over time")] if chosen.first_ms is not None else []
    places += [("#help", "Which need help")] if chosen.groups.total else []
    places += [("#overview", "Overview"), ("#groups", "Groups")]
    places += [("#before-and-after", "Before and after")] if chosen.compared is not None else []
    places += [("#what-if", "What if")] if chosen.grid or chosen.fidelity else []
    places.append(("#offsets", "Offsets"))
    places += [("#shares", "Share groups")] if chosen.shared.rows else []
    places += [("#streams", "Streams groups")] if chosen.unready.rows or chosen.unowned.rows else []
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
