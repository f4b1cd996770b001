"""What all reports say alike: the order of failures, one sentence about the run, and the bytes of an answer."""

from __future__ import annotations

from typing import NamedTuple

from muster.conform.results import Outcome, Report, Severity, Span, State

ORDER = (Severity.CLIENTS_BREAK, Severity.DIFFERS, Severity.COSMETIC, None)
WIDTH = 16
MOST_LINES = 24
AROUND = 3
"""How many lines before and behind the wrong field are shown."""


def failures(report: Report) -> list[Outcome]:
    """What failed, the worst first."""
    failed = [one for one in report.outcomes if one.state is State.FAILED]
    return sorted(failed, key=lambda one: ORDER.index(one.severity))


def verdict(report: Report) -> str:
    """One sentence about the whole run."""
    failed, passed = report.count(State.FAILED), report.count(State.PASSED) + report.count(State.FLAKY)
    if not failed + passed:
        return f"Nothing could be compared with Kafka {report.release}."
    if not failed:
        return f"{passed} of {passed} stories and probes are as on Kafka {report.release}."
    bad = sum(one.severity is Severity.CLIENTS_BREAK for one in failures(report))
    breaks = f"; {bad} of {failed} differences break clients" if bad else ""
    return f"{passed} of {passed + failed} stories and probes are as on Kafka {report.release}{breaks}."


class Line(NamedTuple):
    """One line of an answer's bytes."""

    at: int
    pairs: tuple[tuple[str, bool], ...]
    """Each byte as hex, and whether it belongs to the wrong field."""
    text: str
    """The bytes as ASCII, with points for others."""


def lines(answer: bytes, wrong: Span | None) -> list[Line | int]:
    """The bytes around the wrong field. A number stands for that many bytes that are left out."""
    rows: list[Line] = []
    for at in range(0, len(answer), WIDTH):
        part = answer[at : at + WIDTH]
        pairs = tuple((f"{byte:02x}", _is_in(wrong, at + number)) for number, byte in enumerate(part))
        rows.append(Line(at, pairs, "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)))
    first, last = 0, len(rows) - 1
    if wrong is not None:
        first = max(0, wrong.start // WIDTH - AROUND)
        last = min(last, max(wrong.end - 1, wrong.start) // WIDTH + AROUND)
    last = min(last, first + MOST_LINES - 1)
    out: list[Line | int] = [*rows[first : last + 1]]
    if first:
        out.insert(0, first * WIDTH)
    left = len(answer) - (last + 1) * WIDTH
    if left > 0:
        out.append(left)
    return out


def left_out(count: int) -> str:
    """The number of bytes that are not shown."""
    return f"{count} byte{' is' if count == 1 else 's are'} left out"


def _is_in(wrong: Span | None, at: int) -> bool:
    return wrong is not None and wrong.start <= at < wrong.end


def about(wrong: Span) -> str:
    """Where the wrong field stands."""
    size = wrong.end - wrong.start
    return f"{wrong.field}: {size} byte{'' if size == 1 else 's'} from byte {wrong.start} on"
