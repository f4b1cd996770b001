"""The summary for a terminal."""

from __future__ import annotations

import pytest

from muster.pipeline.report.content import About, Some
from muster.pipeline.report.summary import text
from tests.pipeline.report.made import START_MS, chosen, group, setting


def test_the_summary_has_its_lines() -> None:
    lines = text(chosen()).splitlines()
    assert lines[:2] == [
        "/data/muster: 203 groups, 1,000 commits, 3 rebalances",
        "2025-06-15 15:06:40 to 2025-06-16 15:06:40 UTC (1 d)",
    ]
    assert "        2  session expired          3.2 s on average" in lines
    at = lines.index("groups: 1 to look at, 202 fine")
    assert lines[at + 1 : at + 5] == [
        "",
        "to look at",
        "  payments: payments-2 was lost and nobody took its place: 1 rebalance",
        "    cost: partitions were not read for 51.2 s, all added up",
    ]
    assert "  2025-06-15 15:06:40  payments orders-3: 1,200 → 900 (zombie)" in lines
    assert "  2025-06-15 15:06:40  payments orders-3: STOP to the end" in lines
    assert "  static                               1 rebalance (was 3), unread 25 s (was 3 min 24 s)" in lines
    assert lines[-4:-1] == [
        "rows that could not be used: 2 malformed (tables malformed, unknown)",
        "",
        "times of commits that cannot be, taken from the log around them (table commits, stated_ms)",
    ]
    assert lines[-1].endswith(": 3 commits, as of 1970-01-01 00:00:00")
    assert max(map(len, lines)) <= 120


def test_the_summary_says_why_a_troubled_group_gets_no_advice() -> None:
    lines = text(chosen(groups=Some([group("odd", level="help", unadvised="mostly members differ")], 1))).splitlines()
    assert "    nothing is advised: mostly members differ" in lines


def test_a_time_without_a_sign_of_life_is_named_first() -> None:
    rows = [
        {"from_ms": START_MS + 60_000, "until_ms": START_MS + 187_000, "groups": 9, "only": None},
        {"from_ms": START_MS + 60_000, "until_ms": START_MS + 90_000, "groups": 4, "only": ["a", "b", "c", "d"]},
    ]
    lines = text(chosen(silences=Some(rows, 4))).splitlines()
    assert lines[2:5] == [
        "no group committed from 15:07:40 to 15:09:47: coordinator or network were away",
        "a, b and 2 more committed nothing from 15:07:40 to 15:08:10, while others did: "
        "perhaps their coordinator was away",
        "2 more such times: see the table silences",
    ]


def test_unknown_values_are_shown_as_unknown() -> None:
    """The first record of a compacted log does not say how long its rebalance took."""
    cause = {"cause": None, "rebalances": 4, "took_ms": None, "unread_partition_ms": 0, "confidence": 0.2}
    lines = text(chosen(causes=[cause])).splitlines()
    assert "        4  not known                it is not known how long they took" in lines


def test_few_what_if_settings_are_answered_in_a_sentence() -> None:
    static = setting("static", 1, 20.0, '{"static":true}')
    lines = text(chosen(grid=[static], answers=Some([static | {"group": "payments", "why": None}], 1))).splitlines()
    at = lines.index("what if")
    assert " ".join(line.strip() for line in lines[at + 1 : at + 3]) == (
        "static: 1 instead of 3 rebalances (fewer in 1 of 1 group, more in 0); partitions unread for 25 s instead of "
        "3 min 24 s (less in 1, longer in 0); 1 group cannot be judged"
    )


def test_the_best_value_of_a_what_if_question_is_shown() -> None:
    best, worse = setting("session 45 s", 1, 20.0, "{}"), setting("session 6 s", 9, 99.0, "{}")
    about = About("log", {}, True, False, what_if=tuple(f"session {number} s" for number in (6, 10, 30, 45)))
    lines = text(chosen(about=about, grid=[best, worse])).splitlines()
    assert any(line.startswith("  best: session 45 s: 1 instead of 3 rebalances (fewer in ") for line in lines)
    every = About("log", {}, True, False, what_if=tuple(map(str, range(26))))
    assert "best: " not in text(chosen(about=every, grid=[best, worse]))


def test_long_lists_and_names_are_cut() -> None:
    many = [group(f"group-{'x' * 60}-{number}") for number in range(12)]
    lines = text(chosen(groups=Some(many, 12), levels={"look": 12, "fine": 9})).splitlines()
    assert "  … 4 more groups to look at: see the page" in lines
    assert sum(line.startswith("  group-xxxx") for line in lines) == 8
    assert max(map(len, lines)) <= 120


def test_names_cannot_control_the_terminal() -> None:
    row = {"time_ms": 0, "group": "a\nb\x1b[2J", "topic": "t\u202e" + "x" * 300, "partition": 1}
    row |= {"from_offset": 2, "to_offset": 1, "cause": "reset"}
    reported = text(chosen(groups=Some([group("c\rd")], 1), regressions=Some([row], 1)))
    assert "  c\\rd: " in reported
    assert f"  a\\nb\\x1b[2J t\\u202e{'x' * 24}…-1: 2 → 1 (reset)" in reported
    assert max(map(len, reported.splitlines())) <= 120


def test_groups_that_need_help_come_first_with_their_advice() -> None:
    rows = [
        group("a", level="help", verdict="a-1 crash-loops", advice="static ids would have spared 3 of 4 rebalances"),
        group("b", level="look", trouble_ms=0),
        group("c", level="fine", verdict="fine: 1 rolling restart"),
    ]
    lines = text(chosen(groups=Some(rows, 3), levels={"help": 1, "look": 1, "fine": 1})).splitlines()
    at = lines.index("groups: 1 in need of help, 1 to look at, 1 fine")
    assert [line.split(" (")[0] for line in lines[at + 2 : at + 8]] == [
        "in need of help",
        "  a: a-1 crash-loops",
        "    one change: static ids would have spared 3 of 4 rebalances",
        "    cost: partitions were not read for 51.2 s, all added up",
        "",
        "to look at",
    ]
    assert not any(line.startswith("  c: ") for line in lines), "those that are fine only if all are"
    calm = text(chosen(groups=Some(rows[2:], 1), levels={"fine": 1}))
    assert "\ngroups: 1 fine\n\nfine\n  c: fine: 1 rolling restart\n" in calm


@pytest.mark.parametrize("width", [60, 79, 119, 400])
def test_the_summary_fits_the_terminal(width: int) -> None:
    rows = [group("payments-of-a-name " * 4, verdict="it was " * 60, advice="do this " * 40)]
    lines = text(chosen(groups=Some(rows, 1)), width).splitlines()
    assert max(map(len, lines)) <= min(width, 160)
    assert max(map(len, lines)) > min(width, 160) - 12


def test_a_number_stays_beside_its_unit() -> None:
    verdict = "it took " + ", ".join(f"{at} s of 1{at} min" for at in range(40))
    for width in range(60, 100):
        lines = text(chosen(groups=Some([group("a", verdict=verdict)], 1)), width).splitlines()
        assert not [line for line in lines if line.split()[:1] in (["s"], ["min"])]


def test_inferred_values_are_marked() -> None:
    of_log = {"source": "log", "groups": 2, "generations": 4, "reproduced": 3, "withheld": 1}
    shown = text(chosen(about=About("log", {}, False, False), fidelity=[of_log]))
    assert "3 rebalances (inferred: there are no events; what they took is an estimate)" in shown
    assert (
        "\nwhat if (rebalances that left a group empty are not counted; times of groups without events are estimates)\n"
        in shown
    )
    assert "\nwhat if (rebalances that left a group empty are not counted)\n" in text(chosen())


def test_the_summary_of_an_empty_log_says_so() -> None:
    assert text(chosen(first_ms=None)) == "/data/muster: the log has no group"


def test_groups_without_known_lag_are_counted_apart() -> None:
    rows = [group("a", level="unknown", verdict="not known: no end offsets")]
    found = text(chosen(groups=Some(rows, 1), levels={"unknown": 1, "fine": 2}))
    assert "\ngroups: 1 not known, 2 fine\n\nnot known\n  a: not known: no end offsets\n" in found
