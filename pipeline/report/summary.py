"""The summary for a terminal: the content of the top of the page, in about twenty lines. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import Final

from muster.pipeline.episodes.verdict import FINE, HELP, LEVELS, LOOK, UNKNOWN
from muster.pipeline.report import cluster, comparison, offsets, settings
from muster.pipeline.report.content import Chosen, Row
from muster.pipeline.report.formatting import cause_words, plain, took_words
from muster.pipeline.report.groups import advised, cost
from muster.pipeline.schema import SOURCE_LOG
from muster.pipeline.wording import duration, moment, number, plural

WIDTH: Final = 119
"""The width of the summary's lines, unless the caller gives another one."""
_MIN_WIDTH, _MAX_WIDTH = 60, 160
"""Narrower or wider lines are hard to read."""
_LINES = 8
_HEAD = 60
_NAME = 32
_SETTING = 36
_FIXED: Final = "\xa0"
_BEFORE_UNIT: Final = re.compile(r"(?<=[0-9]) (?=(?:%|(?:ms|s|min|h|d)\b))")
_VALUES = 8
"""The largest number of settings that are values of one question."""


def text(chosen: Chosen, width: int = WIDTH) -> str:
    """The summary, for a terminal with this width."""
    if chosen.first_ms is None or chosen.last_ms is None:
        return f"{plain(chosen.about.source)}: the log has no group"
    return "\n".join(_Lines(chosen, max(_MIN_WIDTH, min(width, _MAX_WIDTH))).all())


class _Lines:
    """The lines of a summary, which are made one after the other."""

    def __init__(self, chosen: Chosen, width: int) -> None:
        self._chosen = chosen
        self._width = width

    def all(self) -> list[str]:
        chosen = self._chosen
        first_ms, last_ms = chosen.first_ms or 0, chosen.last_ms or 0
        rebalances = sum(row["rebalances"] for row in chosen.causes)
        remark = "" if chosen.about.has_events else " (inferred: there are no events; what they took is an estimate)"
        head = (
            f"{plain(chosen.about.source)}: {plural(chosen.groups.total, 'group')}, "
            f"{plural(chosen.commits, 'commit')}, {plural(rebalances, 'rebalance')}{remark}"
        )
        span = f"{moment(first_ms)} to {moment(last_ms)} UTC"
        return [
            *self._wrapped(head, 0),
            f"{span} ({duration(last_ms - first_ms)})" if last_ms > first_ms else f"{moment(first_ms)} UTC",
            *(line for one in cluster.silences(chosen) for line in self._wrapped(one, 0)),
            *self._verdicts(),
            *self._compared(),
            *self._block("why groups rebalanced", chosen.causes, _cause),
            *self._block(
                f"commits that went backwards: {number(chosen.regressions.total)}",
                chosen.regressions.rows, _regression, chosen.regressions.total,
            ),
            *self._block(
                f"partitions that stood still, or fell behind: {number(chosen.stalls.total)}",
                chosen.stalls.rows, _stall, chosen.stalls.total,
            ),
            *self._block("transactions", chosen.transaction_ends, offsets.transaction_line),
            *self._what_if(),
            *self._odd(),
        ]  # fmt: skip

    def _wrapped(self, sentence: str, indent: int = 2) -> list[str]:
        # the text is wrapped so that a number and its unit stay together
        lines = wrap(
            _BEFORE_UNIT.sub(_FIXED, plain(sentence)), self._width, break_on_hyphens=False,
            initial_indent=" " * indent, subsequent_indent=" " * (indent + 4),
        )  # fmt: skip
        return [line.replace(_FIXED, " ") for line in lines]

    def _block(
        self, title: str, rows: Sequence[Row], line: Callable[[Row], str], total: int | None = None
    ) -> list[str]:
        if not rows:
            return []
        left = (len(rows) if total is None else total) - min(len(rows), _LINES)
        more = [f"  … {left:,} more"] if left > 0 else []
        lines = [one for row in rows[:_LINES] for one in self._wrapped_line(line(row))]
        return ["", *self._wrapped(title, 0), *lines, *more]

    def _wrapped_line(self, line: str) -> list[str]:
        # a line that fits is not wrapped, so that its columns stay in place
        return [f"  {line}"] if len(line) + 2 <= self._width else self._wrapped(line)

    def _verdicts(self) -> list[str]:
        """How many groups need help. For the worst ones: what happened, what it cost, and what would have helped."""
        chosen = self._chosen
        counts = ", ".join(f"{chosen.levels[level]:,} {_LEVELS[level]}" for level in LEVELS if chosen.levels.get(level))
        lines = [f"groups: {counts}"] if counts else ["groups"]
        bad = [row for row in chosen.groups.rows if row["level"] in (HELP, LOOK) and row["verdict"]]
        calm = [row for row in chosen.groups.rows if row["level"] in (UNKNOWN, FINE) and row["rebalances"]]
        shown = (bad or calm)[:_LINES]
        if not shown:
            return ["", *lines] if counts else []
        level = None
        for row in shown:
            if row["level"] != level:
                level = row["level"]
                lines += ["", _LEVELS[level]]
            lines += self._group(row)
        left = sum(chosen.levels.get(one, 0) for one in (HELP, LOOK)) - len(shown) if bad else 0
        return ["", *lines, *([f"  … {plural(left, 'more group')} to look at: see the page"] if left > 0 else [])]

    def _group(self, row: Row) -> list[str]:
        lines = self._wrapped(f"{plain(row['group'], _HEAD)}: {row['verdict']}")
        found = advised(row)
        for title, words in found:
            lines += self._wrapped(f"{title.lower()}: {words}", 4)
        if not found and row["unadvised"]:
            lines += self._wrapped(f"nothing is advised: {row['unadvised']}", 4)
        if text := cost(row, self._chosen.about):
            lines += self._wrapped(f"cost: {text}", 4)
        return lines

    def _compared(self) -> list[str]:
        chosen = self._chosen
        if chosen.compared is None:
            return []
        rows = [row for row in chosen.comparison.rows if row["happenings_before"] or row["happenings_after"]]
        sums = self._wrapped(comparison.total(chosen)) if chosen.comparison.rows else []
        return ["", "before and after", *sums, *self._block("", rows, _change)[1:]]

    def _what_if(self) -> list[str]:
        chosen = self._chosen
        left = settings.withheld_groups(chosen)
        if chosen.answers.rows:
            return ["", "what if", *(line for row in chosen.grid for line in self._wrapped(settings.answer(row, left)))]
        estimated = any(
            row["source"] == SOURCE_LOG and row["groups"] > (row["withheld"] or 0) for row in chosen.fidelity
        )
        remark = "; times of groups without events are estimates" if estimated else ""
        title = f"what if (rebalances that left a group empty are not counted{remark})"
        lines = self._block(title, chosen.grid, _setting)
        if 1 < len(chosen.about.what_if) <= _VALUES and chosen.grid:
            # the settings are values of one question, so the best value is the answer
            lines += self._wrapped(f"best: {settings.answer(chosen.grid[0], left)}")
        return lines

    def _odd(self) -> list[str]:
        chosen = self._chosen
        odd = [f"{count:,} {kind}" for kind, count in chosen.odd_rows.items() if count]
        sentence = f"rows that could not be used: {', '.join(odd)} (tables malformed, unknown)"
        lines = ["", *self._wrapped(sentence, 0)] if odd else []
        title = "times of commits that cannot be, taken from the log around them (table commits, stated_ms)"
        return [*lines, *self._block(title, chosen.odd_times.rows, _odd_time, chosen.odd_times.total)]


def _regression(row: Row) -> str:
    went = f"{number(row['from_offset'])} → {number(row['to_offset'])}"
    more = len(row.get("partitions") or ()) - 1
    inside = f" and {plural(more, 'more partition')}" if more > 0 else ""
    return f"{moment(row['time_ms'])}  {_place(row)}: {went}{inside} ({row['cause'].replace('_', ' ')})"


def _stall(row: Row) -> str:
    lasted = "to the end" if row["end_ms"] is None else f"for {duration(row['end_ms'] - row['start_ms'])}"
    return f"{moment(row['start_ms'])}  {_place(row)}: {row['status']} {lasted}"


def _odd_time(row: Row) -> str:
    return f"{plain(row['group'], _NAME)}: {plural(row['commits'], 'commit')}, as of {moment(row['stated_ms'])}"


def _cause(row: Row) -> str:
    title = cause_words(row["cause"]).title
    took = "it is not known how long they took" if row["took_ms"] is None else f"{took_words(row)} on average"
    return f"{row['rebalances']:>7,}  {title:<24} {took}"


def _change(row: Row) -> str:
    return f"{plain(row['group'], _NAME)}: {comparison.sentence(row)}"


_LEVELS: Final = {HELP: "in need of help", LOOK: "to look at", UNKNOWN: "not known", FINE: "fine"}


def _place(row: Row) -> str:
    return f"{plain(row['group'], _NAME)} {plain(row['topic'], _NAME)}-{row['partition']}"


def _setting(row: Row) -> str:
    unread, was = (
        None if row[key] is None else row[key] * 1000 for key in ("unread_partition_s", "actual_unread_partition_s")
    )
    rebalances = plural(row["rebalances"] or 0, "rebalance")
    return (
        f"{row['setting']:<{_SETTING}} {rebalances} (was {number(row['actual_rebalances'])}), "
        f"unread {duration(unread)} (was {duration(was)})"
    )
