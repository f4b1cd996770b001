"""How a group read: curves, and when it will have read everything."""

from __future__ import annotations

import re

from muster.pipeline.report.curves import catching_up, pictures
from tests.pipeline.report.made import END_MS, HOUR, START_MS, progress


def test_the_time_to_catch_up_is_estimated() -> None:
    rows = progress()
    behind = [row | {"lag": 10_000 - at * 400} for at, row in enumerate(rows)]
    assert catching_up(behind, 800) == "will have read all in 2 h, if it reads as since 2025-06-15 16:06"
    grows = [row | {"lag": 50_000 + at * 40_000} for at, row in enumerate(rows)]
    assert catching_up(grows, 970_000) == "falls behind at 11 records/s, as since 2025-06-15 16:06"
    assert catching_up([row | {"lag": 1_000} for row in rows], 1_000) is None


def test_an_unknown_time_to_catch_up_is_not_shown() -> None:
    rows = progress()
    up_and_down = [row | {"lag": 5_000 - at * 100 + at % 2 * 3_000} for at, row in enumerate(rows)]
    assert catching_up(up_and_down, 3_000) is None
    # 7,200 records an hour are 120 a minute
    assert catching_up([row | {"lag": 100} for row in rows], 100) is None
    assert catching_up([row | {"lag": None} for row in rows], 5_000) is None
    assert catching_up(rows, None) is None
    assert catching_up(rows[:2], 5_000) is None


def test_a_gap_in_the_data_is_a_gap_in_the_curve() -> None:
    rows = [row | {"lag": None if 5 <= at < 8 else 1_000} for at, row in enumerate(progress(12))]
    drawn = pictures(rows, START_MS, END_MS, with_figures=False) or ""
    [line] = re.findall(r'<path d="([^"]*)" class="line behind"', drawn)
    assert line.count("M") == 2
    assert "The figures" not in drawn


def test_a_short_step_at_the_end_has_no_rate() -> None:
    rows = progress(12)
    rows.append(rows[-1] | {"start_ms": rows[-1]["until_ms"], "until_ms": rows[-1]["until_ms"] + 1_000})
    drawn = pictures(rows, START_MS, START_MS + 13 * HOUR, with_figures=False) or ""
    assert "Most: 2 records/s" in drawn


def test_few_rows_have_no_curve() -> None:
    assert pictures(progress(2), START_MS, END_MS, with_figures=True) is None
    none = [row | {"lag": None} for row in progress(4)]
    drawn = pictures(none, START_MS, END_MS, with_figures=True) or ""
    assert "Behind" not in drawn
    assert drawn.count("<svg") == 2
