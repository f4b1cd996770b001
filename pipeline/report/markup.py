"""HTML from values. All text from a log is escaped here and nowhere else. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


Content = str | Iterable["Content"] | None
"""Html as it is, other text escaped, None nothing."""


def render(content: Content) -> str:
    """Content as HTML."""
    if content is None:
        return ""
    if isinstance(content, Html):
        return content
    if isinstance(content, str):
        return escape(content)
    return "".join(map(render, content))


def tag(name: str, *content: Content, **attributes: str | float | None) -> Html:
    """An element. `class_` is class, `data_l` is data-l; an attribute that is None is left out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{given}>{render(content)}</{name}>")


def join(content: Iterable[Content]) -> Html:
    """Content one behind the other."""
    return Html(render(content))


class Column(NamedTuple):
    """A column of a table."""

    title: str
    is_number: bool = False


def table(columns: Sequence[Column], rows: Iterable[Sequence[Content]], left: int = 0) -> Html:
    """A table that becomes a list of cards on a narrow screen. `left`: how many rows are not shown."""
    head = tag("tr", (tag("th", one.title, class_="n" if one.is_number else None, scope="col") for one in columns))
    body = (
        tag(
            "tr",
            (
                tag("td", tag("span", cell), class_="n" if column.is_number else None, data_l=column.title)
                for column, cell in zip(columns, row, strict=True)
            ),
        )
        for row in rows
    )
    more = tag("p", f"{left:,} more: see the tables.", class_="more") if left else None
    return join([tag("table", tag("thead", head), tag("tbody", body)), more])


Columns = Mapping[Column, Callable[[Mapping[str, Any]], Content]]
"""Columns of a table, each with what makes its cell of a row."""


def listing(columns: Columns, rows: Iterable[Mapping[str, Any]], left: int = 0) -> Html:
    """A table of rows."""
    return table(list(columns), ([cell(row) for cell in columns.values()] for row in rows), left)


def section(title: str, *content: Content, id_: str | None = None) -> Html:
    """A part of the page with its heading."""
    return tag("section", tag("h2", title), content, id=id_)
