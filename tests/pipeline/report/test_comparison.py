"""The text of a comparison of before and after."""

from __future__ import annotations

from typing import Any

import pytest

from muster.pipeline.report.comparison import sentence, total
from muster.pipeline.report.content import About
from tests.pipeline.report.made import chosen


def row(**changed: Any) -> dict[str, Any]:
    sides = {"rebalances": (38, 2), "happenings": (19, 1), "hours": (12.0, 12.0), "cost_ms": (720_000, 5_000)}
    reported = {
        f"{name}_{side}": pair[at] for name, pair in sides.items() for at, side in enumerate(("before", "after"))
    }
    return {**reported, "p": 4e-5, "judgement": "significant", **changed}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, "more than chance (by chance once in 25,000)"),
        ({"p": 1e-12}, "more than chance (by chance less than once in 1,000,000)"),
        ({"p": 0.11, "judgement": "chance"}, "may be chance (by chance once in 9)"),
        ({"p": 0.51, "judgement": "chance"}, "may be chance (by chance in most cases)"),
        ({"p": 1e-5, "judgement": "too_few"}, "too few happenings to judge (19 → 1)"),
        ({"p": 1.0, "judgement": "too_few", "happenings_before": 0, "happenings_after": 0}, "nothing happened"),
        ({"p": None, "judgement": "one_side", "hours_after": 0.0}, "only before"),
        ({"p": None, "judgement": "one_side", "hours_before": 0.0}, "only after"),
    ],
)
def test_a_difference_is_judged_in_words(changed: dict[str, Any], expected: str) -> None:
    assert sentence(row(**changed)).split(": ", 1)[1] == expected


def test_the_comparison_of_a_group_is_a_sentence() -> None:
    assert sentence(row()).startswith("38 → 2 rebalances (3.2 → 0.2 an hour), unread 12 min → 5 s: more than chance")


@pytest.mark.parametrize(
    ("compare", "overlap_ms", "begin", "end"),
    [
        (
            0,
            0,
            "before and after 1970-01-01 00:00:00 UTC: 38 → 2 rebalances besides first formations",
            "1 on one side only",
        ),
        ("last-week", 3_600_000, "last-week (before) and now (after): 38 → 2 rebalances", "cover the same 1 h"),
    ],
)
def test_the_comparison_of_all_groups_is_a_sentence(compare: str | int, overlap_ms: int, begin: str, end: str) -> None:
    about = About("log", {}, has_events=True, has_ends=True, compare=compare, overlap_ms=overlap_ms)
    judged = {"groups": 9, "significant": 1, "chance": 3, "too_few": 4, "one_side": 1}
    reported = total(chosen(about=about, compared=row(**judged)))
    assert reported.startswith(begin)
    assert "9 groups: 1 differs by more than chance, 3 may differ by chance, 4 with too few happenings" in reported
    assert reported.endswith(end)
