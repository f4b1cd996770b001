"""The letters of causes, and bars beside figures. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from muster.pipeline.report.formatting import cause_words
from muster.pipeline.report.markup import Html, join, tag
from muster.pipeline.report.style import cause_class


def mark(cause: str | None) -> Html:
    """The letter of a cause in its colour. The cause's name stands beside it."""
    words = cause_words(cause)
    return tag("span", words.mark, class_=f"mark {cause_class(cause)}", title=words.title, aria_hidden="true")


def legend(causes: Iterable[str | None]) -> Html:
    """What the letters and colours mean."""
    return tag("p", (tag("span", mark(one), " ", cause_words(one).title) for one in causes), class_="legend")


def meter(value: float | None, actual: float | None) -> Html | None:
    """A figure as a bar beside what it really was: full is twice as much, half the same."""
    if value is None or not actual:
        return None
    share = min(value / actual / 2, 1.0)
    bar = tag("i", style=f"width:{share * 100:.1f}%")
    told = f"{value / actual * 100:.0f} % of what it was"
    return tag("span", bar, class_="meter up" if value > actual else "meter", title=told, role="img", aria_label=told)


def compared(row: Mapping[str, float | None], name: str, text: str) -> Html:
    """A figure of a setting, in words and as a bar."""
    return join([text, meter(row[name], row[f"actual_{name}"])])
