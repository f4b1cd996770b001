"""Makes HTML of values, and the names of places on a page for links. Pure.

All text from a log is escaped here, and nowhere else. The names of places are readable, and each analysis gives the
same names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from html import escape
from typing import Any, Final, NamedTuple

from muster.pipeline.wording import moment
from muster.protocol.printable import shown


class Html(str):
    """A text that is HTML already."""

    __slots__ = ()


Content = str | Iterable["Content"] | None
"""Content is HTML, which is not changed; or another text, which is escaped; or None, which is nothing."""


def render(content: Content) -> str:
    """Content as HTML."""
    if content is None:
        return ""
    if isinstance(content, Html):
        return content
    if isinstance(content, str):
        return escape(_visible(content))
    return "".join(map(render, content))


def _visible(text: str) -> str:
    """A text in which every character is visible.

    A character that would end a line, or reverse the words after it, is written as an escape (`shown`). Joined letters
    and emoji are not changed.
    """
    if text.isprintable():
        return text
    return "".join(one if one in _JOINERS else shown(one) for one in text)


_JOINERS: Final = frozenset("\u200c\u200d")


def tag(name: str, *content: Content, **attributes: str | float | None) -> Html:
    """An HTML element. The argument `class_` is the attribute class, and `data_l` is data-l.

    An attribute that is None is left out.
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{given}>{render(content)}</{name}>")


def _attribute(value: str | float) -> str:
    # a title may have several lines
    return escape("\n".join(map(_visible, value.split("\n")))) if isinstance(value, str) else str(value)


def join(content: Iterable[Content]) -> Html:
    """Several contents, one after the other."""
    return Html(render(content))


class Column(NamedTuple):
    """A column of a table."""

    title: str
    is_number: bool = False
    is_head: bool = False
    """Whether the cells are the heads of their rows."""
    is_time: bool = False
    """Whether the cells have times, which are not broken into lines."""
    is_name: bool = False
    """Whether the cells have names, which may be broken: a line has space for only some letters."""

    @property
    def class_(self) -> str | None:
        """The CSS class of the column's cells."""
        if self.is_number:
            return "n"
        return "t" if self.is_time else "name" if self.is_name else None


Span = tuple[int | None, int | None]
"""The start and the end of a time (ms). None as the end: it still lasts."""


class Line(NamedTuple):
    """A row of a table with more facts than its cells."""

    cells: Sequence[Content]
    id_: str | None = None
    """The name of the row's place on the page, for links."""
    values: Sequence[str | float | None] = ()
    """The values by which the table is sorted, one for each column."""
    span: Span | None = None
    """The time of the row, for the filter of times."""


def table(columns: Sequence[Column], rows: Iterable[Sequence[Content] | Line], left: int = 0, **given: str) -> Html:
    """A table that becomes a list of cards on a narrow screen.

    `left`: the number of rows that are not shown; `given`: attributes of the table.
    """
    head = tag("tr", (tag("th", one.title, class_="n" if one.is_number else None, scope="col") for one in columns))
    body = (_row(columns, row if isinstance(row, Line) else Line(row)) for row in rows)
    more = tag("p", f"{left:,} more: see the tables.", class_="more") if left else None
    return join([tag("table", tag("thead", head), tag("tbody", body), **given), more])


def _row(columns: Sequence[Column], line: Line) -> Html:
    values = line.values or (None,) * len(columns)
    cells = (
        tag(
            "th" if column.is_head else "td",
            _inside(cell),
            class_=column.class_,
            scope="row" if column.is_head else None,
            data_l=column.title,
            data_v=value,
        )
        for column, cell, value in zip(columns, line.cells, values, strict=True)
    )
    begin, end = line.span or (None, None)
    until = None if begin is None else LAST if end is None else end
    return tag("tr", cells, id=line.id_, data_f=begin, data_u=None if until == begin else until)


LAST: Final = 8_640_000_000_000_000
"""The last time that a browser knows (ms)."""


def _inside(cell: Content) -> Html:
    """The content of a cell. Several elements stand as one beside the title of a card."""
    text = Html(render(cell))
    return tag("span", text) if "<" in text else text


Columns = Mapping[Column, Callable[[Mapping[str, Any]], Content]]
"""The columns of a table. Each has the function that makes its cell from a row."""


def listing(
    columns: Columns,
    rows: Iterable[Mapping[str, Any]],
    left: int = 0,
    span: Callable[[Mapping[str, Any]], Span | None] = lambda _: None,
) -> Html:
    """A table that is made from rows. `span`: the time of a row."""
    lines = (Line([cell(row) for cell in columns.values()], span=span(row)) for row in rows)
    return table(list(columns), lines, left)


def section(title: Content, *content: Content, id_: str | None = None) -> Html:
    """A section of the page with its heading."""
    return tag("section", tag("h2", title), content, id=id_)


def folded(title: str, *content: Content, class_: str | None = None) -> Html:
    """Content that is visible only after a click, and on paper."""
    return tag("details", tag("summary", title), content, class_=class_)


def figures(*content: Content) -> Html:
    """The figures of a picture as a table, which is not printed on paper."""
    return folded("The figures", *content, class_="of-picture")


_ODD: Final = re.compile(r"[^A-Za-z0-9._-]+")
_MARKED: Final = re.compile(r"-[0-9a-f]{8}$")
_LONGEST: Final = 60
_DIGITS: Final = 8


def slug(name: str) -> str:
    """A name in the form for a link: `payments` is not changed. Characters that a link cannot have are replaced.

    If that could make two names equal, digits are added that distinguish them.
    """
    plain = _ODD.sub("_", name)
    if plain == name and 0 < len(plain) <= _LONGEST and not _MARKED.search(plain):
        return plain
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{plain[:_LONGEST]}-{digest}"


def group_anchor(name: str) -> str:
    """The name of a group's place on its page."""
    return f"group-{slug(name)}"


def rebalance_anchor(row: Mapping[str, Any]) -> str:
    """The name of a rebalance's place on its page.

    If a group was deleted and created again, two rebalances may have the same generation. So the name has the time too.
    A later page, without the oldest rebalances, gives the same name.
    """
    at = "" if row["end_ms"] is None else re.sub(r"[-:]", "", moment(row["end_ms"])).replace(" ", "T")
    number = "none" if row["generation"] is None else row["generation"]
    return f"rebalance-{slug(row['group'])}-{number}{f'-{at}' if at else ''}"
