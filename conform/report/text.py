"""The report for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from muster.conform.report import words
from muster.conform.results import Outcome, Report, State, by_level

MOST_REASONS = 12
"""How many reasons for skipping are listed; the other reports have all."""


def render(report: Report) -> str:
    """The whole report."""
    return "\n".join(_parts(report)) + "\n"


def _parts(report: Report) -> Iterator[str]:
    for one in words.failures(report):
        yield from failure(one)
        yield ""
    for one in report.outcomes:
        if one.state is State.FLAKY:
            yield f"flaky    {one.id}: {one.why}"
    yield from _reasons(report)
    yield f"{'level':<10} {'passed':>7} {'failed':>7} {'flaky':>7} {'skipped':>8}"
    for level in by_level(report.outcomes):
        passed, failed, flaky, skipped = (report.count(state, level) for state in State)
        yield f"{level:<10} {passed:>7} {failed:>7} {flaky:>7} {skipped:>8}"
    yield ""
    yield f"{report.target}: {report.software or 'a broker that does not say what it is'}"
    yield f"{words.verdict(report)} ({report.seconds:.0f} s, muster {report.muster})"
    for left in report.left:
        yield f"left behind: {left}"


def _reasons(report: Report) -> Iterator[str]:
    """Why something was skipped, and how often."""
    counts: dict[str, int] = {}
    for one in report.outcomes:
        if one.state is State.SKIPPED:
            counts[one.why] = counts.get(one.why, 0) + 1
    rows = sorted(counts.items(), key=lambda row: -row[1])
    for why, count in rows[:MOST_REASONS]:
        yield f"skipped  {count:>4}: {why}"
    if len(rows) > MOST_REASONS:
        yield f"skipped  {sum(count for _, count in rows[MOST_REASONS:]):>4}: other reasons (see --json or --html)"
    if rows:
        yield ""


def failure(one: Outcome) -> Iterator[str]:
    """One failure: what was sent, what is wrong, and whom that hurts."""
    severity = one.severity.value if one.severity else "differs"
    yield f"FAILED   {one.id} ({one.level}): {severity}"
    yield f"  {one.title}"
    if one.request:
        yield f"  request: {one.request}"
    yield from (f"  | {line}" for line in one.diff.splitlines())
    if one.answer:
        yield from _bytes(one)
    if one.kip:
        yield f"  says so: {one.kip}"
    for hurt in one.hurts:
        yield f"  hurts {hurt.client}: {hurt.how}"


def _bytes(one: Outcome) -> Iterator[str]:
    where = f"; [wrong] {words.about(one.wrong)}" if one.wrong else ""
    yield f"  the answer has {len(one.answer)} bytes{where}"
    for line in words.lines(one.answer, one.wrong):
        if isinstance(line, int):
            yield f"    ({words.left_out(line)})"
            continue
        raw = ""
        inside = False
        for pair, marked in line.pairs:
            raw += ("]" if inside and not marked else "[" if marked and not inside else " ") + pair
            inside = marked
        raw += "]" if inside else " "
        yield f"    {line.at:04x} {raw:<49} {line.text}"
