"""The summary for a terminal: what the page begins with, in some twenty lines. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from textwrap import wrap

from muster.pipeline.episodes.verdict import FINE, HELP, LEVELS, LOOK
from muster.pipeline.facts.schema import LOG
from muster.pipeline.report import comparison, settings, transactions
from muster.pipeline.report.content import Chosen, Row
from muster.pipeline.report.formatting import cause_words, plain
from muster.pipeline.wording import duration, moment, number, plural

_LINES = 8
_NAME = 32
_VALUES = 8
"""Settings that are values of one question, at most."""
_WIDTH = 119


def text(chosen: Chosen) -> str:
    """The summary of what was chosen."""
    if chosen.first_ms is None or chosen.last_ms is None:
        return f"{plain(chosen.about.source)}: the log tells of no group"
    rebalances = sum(row["rebalances"] for row in chosen.causes)
    told = "" if chosen.about.has_events else " (inferred: there are no events; what they took is an estimate)"
    lines = [
        f"{plain(chosen.about.source)}: {plural(chosen.groups.total, 'group')}, {plural(chosen.commits, 'commit')}, "
        f"{plural(rebalances, 'rebalance')}{told}",
        f"{moment(chosen.first_ms)} to {moment(chosen.last_ms)} UTC ({duration(chosen.last_ms - chosen.first_ms)})",
        *_verdicts(chosen),
        *_compared(chosen),
        *_block("why groups rebalanced", chosen.causes, _cause),
        *_block(
            f"commits that went backwards: {number(chosen.regressions.total)}", chosen.regressions.rows, _regression
        ),
        *_block(f"partitions that stood still: {number(chosen.stalls.total)}", chosen.stalls.rows, _stall),
    ]
    lines += _block("transactions", chosen.transaction_ends, transactions.line)
    estimated = any(row["source"] == LOG and row["groups"] > (row["withheld"] or 0) for row in chosen.fidelity)
    told = "; times of groups without events are estimates" if estimated else ""
    if chosen.answers.rows:
        left = settings.untold(chosen)
        lines += ["", "what if", *(line for row in chosen.grid for line in _wrapped(settings.answer(row, left)))]
    else:
        lines += _block(f"what if (rebalances that left a group empty are not counted{told})", chosen.grid, _setting)
        if 1 < len(chosen.about.what_if) <= _VALUES and chosen.grid:
            # one question, of which several values were tried: the answer is the best of them
            lines += _wrapped(f"best: {settings.answer(chosen.grid[0], settings.untold(chosen))}")
    lines += _block("what would have helped most", chosen.advice.rows, _advice)
    odd = [f"{count:,} {kind}" for kind, count in chosen.odd_rows.items() if count]
    if odd:
        lines += ["", f"rows that could not be used: {', '.join(odd)} (tables malformed, unknown)"]
    title = "times of commits that cannot be, taken from the log around them (table commits, stated_ms)"
    lines += _block(title, chosen.odd_times.rows, _odd_time)
    return "\n".join(lines)


def _block(title: str, rows: Sequence[Row], line: Callable[[Row], str]) -> list[str]:
    if not rows:
        return []
    left = len(rows) - _LINES
    more = [f"  … {left:,} more"] if left > 0 else []
    return ["", title, *(f"  {line(row)}" for row in rows[:_LINES]), *more]


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
    return f"{row['rebalances']:>7,}  {title:<24} {duration(row['took_ms'])} in the mean"


def _compared(chosen: Chosen) -> list[str]:
    if chosen.compared is None:
        return []
    told = [row for row in chosen.comparison.rows if row["happenings_before"] or row["happenings_after"]]
    sums = _wrapped(comparison.total(chosen)) if chosen.comparison.rows else []
    return ["", "before and after", *sums, *_block("", told, _change)[2:]]


def _change(row: Row) -> str:
    return _named(row["group"], comparison.sentence(row))


def _verdicts(chosen: Chosen) -> list[str]:
    """How many groups need help, and what is to be said of the worst ones."""
    told = [row for row in chosen.groups.rows if row["verdict"] and (row["level"] != FINE or row["rebalances"])]
    counts = ", ".join(f"{chosen.levels[level]:,} {_LEVELS[level]}" for level in LEVELS if chosen.levels.get(level))
    # _block counts those that are left of what it is given
    return _block(f"groups: {counts}" if counts else "groups", told, _group)


_LEVELS = {HELP: "in need of help", LOOK: "to look at", FINE: "fine"}


def _group(row: Row) -> str:
    return _named(row["group"], row["verdict"])


def _advice(row: Row) -> str:
    return _named(row["group"], row["told"])


def _named(group: str, sentence: str) -> str:
    indent = " " * (_NAME + 3)
    told = f"\n{indent}".join(wrap(plain(sentence), _WIDTH - len(indent)))
    return f"{plain(group, _NAME):<{_NAME}} {told}"


def _place(row: Row) -> str:
    return f"{plain(row['group'], _NAME)} {plain(row['topic'], _NAME)}-{row['partition']}"


def _wrapped(sentence: str) -> list[str]:
    return wrap(plain(sentence), _WIDTH, initial_indent="  ", subsequent_indent="    ")


def _setting(row: Row) -> str:
    unread, was = (
        None if row[key] is None else row[key] * 1000 for key in ("unread_partition_s", "actual_unread_partition_s")
    )
    rebalances = plural(row["rebalances"] or 0, "rebalance")
    return (
        f"{row['setting']:<{_NAME}} {rebalances} (was {number(row['actual_rebalances'])}), "
        f"unread {duration(unread)} (was {duration(was)})"
    )
