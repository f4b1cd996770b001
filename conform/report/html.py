"""The report as one HTML page: no script, no network, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from muster.conform.report import words
from muster.conform.results import Outcome, Report, State, by_level

STYLE = """
:root { color-scheme: light dark; --line: #8884; --bad: #b3261e; --good: #2e7d32; --mark: #ffd54f; --soft: #8882 }
@media (prefers-color-scheme: dark) { :root { --bad: #ff8a80; --good: #81c784; --mark: #8d6e00 } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 70rem; padding: 1.5rem }
h1 { font-size: 1.5rem; margin: 0 } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem }
p.verdict { font-size: 1.1rem; margin: .3rem 0 1rem }
table { border-collapse: collapse }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .8rem; text-align: left }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
.bad { color: var(--bad) } .good { color: var(--good) }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0; padding: .4rem .8rem }
summary { cursor: pointer }
.severity { border: 1px solid currentColor; border-radius: 9px; font-size: .8rem; padding: 0 .5rem }
pre { background: var(--soft); border-radius: 6px; font-size: .85rem; overflow-x: auto; padding: .6rem }
mark { background: var(--mark); color: inherit } dt { font-weight: 600 } dd { margin: 0 0 .4rem 1rem }
"""


def render(report: Report) -> str:
    """The whole page."""
    return "\n".join(_page(report)) + "\n"


def _page(report: Report) -> Iterator[str]:
    title = f"{report.target} beside Kafka {report.release}"
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>"
    yield f"<h1>{escape(title)}</h1>"
    yield f'<p class="verdict {"bad" if report.count(State.FAILED) else "good"}">{escape(words.verdict(report))}</p>'
    about = report.software or "The broker does not say what it is"
    yield f"<p>{escape(about)}. Played at {escape(report.began)} in {report.seconds:.0f} s"
    yield f" by muster {escape(report.muster)}.</p>"
    yield from _levels(report)
    if report.left:
        yield "<h2>Left behind</h2>\n<ul>"
        yield from (f"<li>{escape(one)}</li>" for one in report.left)
        yield "</ul>"
    failed = words.failures(report)
    if failed:
        yield "<h2>Differences</h2>"
        for one in failed:
            yield from _failure(one)
    yield from _others(report)
    yield "</body>\n</html>"


def _levels(report: Report) -> Iterator[str]:
    heads = "".join(f'<th class="n" scope="col">{state.value}</th>' for state in State)
    yield f'<table>\n<tr><th scope="col">level</th>{heads}</tr>'
    for level in by_level(report.outcomes):
        cells = "".join(f'<td class="n">{report.count(state, level)}</td>' for state in State)
        yield f'<tr><th scope="row">{escape(level)}</th>{cells}</tr>'
    yield "</table>"


def _failure(one: Outcome) -> Iterator[str]:
    severity = one.severity.value if one.severity else "differs"
    yield f'<details open id="{escape(one.id)}">'
    yield f'<summary><b>{escape(one.id)}</b> <span class="severity bad">{escape(severity)}</span> '
    yield f"{escape(one.title)}</summary>"
    if one.diff:
        yield f"<pre>{escape(one.diff)}</pre>"
    if one.answer:
        where = f" The wrong field is {escape(words.about(one.wrong))}." if one.wrong else ""
        yield f"<p>The answer to {escape(one.request)} has {len(one.answer)} bytes.{where}</p>"
        yield f"<pre>{_bytes(one)}</pre>"
    rows = [("says so", one.kip)] if one.kip else []
    rows += [(f"hurts {hurt.client}", hurt.how) for hurt in one.hurts]
    if rows:
        yield "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in rows) + "</dl>"
    yield "</details>"


def _bytes(one: Outcome) -> str:
    out = []
    for line in words.lines(one.answer, one.wrong):
        if isinstance(line, int):
            out.append(f"      ({words.left_out(line)})")
            continue
        pairs = " ".join(f"<mark>{pair}</mark>" if marked else pair for pair, marked in line.pairs)
        gap = " " * (3 * (words.WIDTH - len(line.pairs)))
        out.append(f"{line.at:04x}  {pairs}{gap}  {escape(line.text)}")
    return "\n".join(out)


def _others(report: Report) -> Iterator[str]:
    """What was skipped or flaky, by its reason; and what passed."""
    for state in (State.FLAKY, State.SKIPPED, State.PASSED):
        mine = [one for one in report.outcomes if one.state is state]
        if mine:
            yield f"<details><summary>{len(mine)} {state.value}</summary>\n<table>"
            for one in mine:
                cells = f"<td>{escape(one.id)}</td><td>{escape(one.title)}</td><td>{escape(one.why)}</td>"
                yield f"<tr>{cells}</tr>"
            yield "</table></details>"
