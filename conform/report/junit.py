"""The report as JUnit's XML, which build servers read. A level is a suite; a story or probe is a case."""

from __future__ import annotations

import re
from xml.sax.saxutils import escape, quoteattr

from muster.conform.report import text, words
from muster.conform.results import Outcome, Report, State, by_level

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: Report) -> str:
    """The whole report."""
    counts = f'tests="{len(report.outcomes)}" failures="{report.count(State.FAILED)}"'
    out = ['<?xml version="1.0" encoding="UTF-8"?>']
    out.append(f'<testsuites name="muster conform" {counts} time="{report.seconds:.3f}">')
    for level, outcomes in by_level(report.outcomes).items():
        out += _suite(report, level, outcomes)
    out.append("</testsuites>")
    return "\n".join(out) + "\n"


def _suite(report: Report, level: str, outcomes: list[Outcome]) -> list[str]:
    counts = (
        f'tests="{len(outcomes)}" failures="{report.count(State.FAILED, level)}" errors="0" '
        f'skipped="{report.count(State.SKIPPED, level)}"'
    )
    seconds = sum(one.seconds for one in outcomes)
    out = [f' <testsuite name={_attr(level)} {counts} time="{seconds:.3f}" timestamp={_attr(report.began)}>']
    out.append("  <properties>")
    for name, value in (("target", report.target), ("software", report.software), ("release", report.release)):
        out.append(f"   <property name={_attr(name)} value={_attr(value)}/>")
    out.append("  </properties>")
    for one in outcomes:
        out += _case(level, one)
    out.append(" </testsuite>")
    return out


def _case(level: str, one: Outcome) -> list[str]:
    head = f'  <testcase classname={_attr("conform." + level)} name={_attr(one.id)} time="{one.seconds:.3f}"'
    if one.state is State.PASSED:
        return [head + "/>"]
    if one.state is State.SKIPPED:
        return [head + ">", f"   <skipped message={_attr(one.why)}/>", "  </testcase>"]
    if one.state is State.FLAKY:
        return [head + ">", f"   <system-out>{_text(one.why)}</system-out>", "  </testcase>"]
    kind = one.severity.value if one.severity else "differs"
    first = (one.diff.splitlines() or [one.title])[0]
    if one.wrong:
        first = f"{first} ({words.about(one.wrong)})"
    body = _text("\n".join(text.failure(one)))
    return [head + ">", f"   <failure type={_attr(kind)} message={_attr(first)}>{body}</failure>", "  </testcase>"]


def _clean(value: str) -> str:
    return _NOT_IN_XML.sub("?", value)


def _attr(value: str) -> str:
    return quoteattr(_clean(value))


def _text(value: str) -> str:
    return escape(_clean(value))
