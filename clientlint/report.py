"""The report of a linter, as text and as JSON. Pure: a report is what was found until one moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from muster.clientlint.calls import Certainty, Client
from muster.clientlint.findings import Finding
from muster.clientlint.linter import Linter
from muster.clientlint.trails import Played

ClockTime = Callable[[int], str]
"""Shows a time of the wall clock, given in ms."""


class Report(NamedTuple):
    """See the module. `wall_offset_ms`: how much later the wall clock is than the linter's clock."""

    requests: int
    clients: Sequence[Client]
    findings: Sequence[Finding]
    not_kept: int
    wall_offset_ms: int
    rehearsal: Sequence[Played] = ()
    """The moments that were played."""

    @property
    def breaks(self) -> bool:
        """Whether a client surely breaks a rule in a way that loses records or members."""
        return any(one.certainty is Certainty.SURE and one.rule.harm == "breaks" for one in self.findings)

    @property
    def sure(self) -> int:
        """How many findings are sure."""
        return sum(one.certainty is Certainty.SURE for one in self.findings)


def report_of(linter: Linter, wall_offset_ms: int, rehearsal: Sequence[Played]) -> Report:
    """The present report. Its parts may then be shown by another thread."""
    found = linter.findings
    return Report(linter.requests, linter.clients.all_keys(), found.all, found.not_kept, wall_offset_ms, rehearsal)


def as_json(report: Report) -> dict[str, Any]:
    """The report as JSON."""
    return {
        "requests": report.requests,
        "clients": [one._asdict() for one in report.clients],
        "findings": [one.to_json(report.wall_offset_ms) for one in report.findings],
        "not_kept": report.not_kept,
        "rehearsal": [one.to_json() for one in report.rehearsal],
    }


def as_text(report: Report, clock_time: ClockTime) -> str:
    """The report as text: each client with its findings."""
    return "\n".join(_lines(report, clock_time))


def _lines(report: Report, clock_time: ClockTime) -> Iterator[str]:
    for moment in report.rehearsal:
        yield f"moment {moment.name}: {moment.about}"
        for reaction in moment.reactions:
            yield f"  {_name(reaction.client)}: {reaction.words}"
        if not moment.reactions:
            yield "  no client was hit"
    if report.rehearsal:
        yield ""
    yield (
        f"client lint: {report.requests} requests of {len(report.clients)} clients; "
        f"{report.sure} findings are sure, {len(report.findings) - report.sure} say perhaps"
    )
    of_client: dict[Client, list[Finding]] = {one: [] for one in report.clients}
    for one in report.findings:
        of_client.setdefault(one.client, []).append(one)
    for client, found in of_client.items():
        yield ""
        yield f"{_name(client)}: {_count(len(found))}"
        for finding in found:
            yield from _finding(finding, lambda ms: clock_time(ms + report.wall_offset_ms))
    if report.not_kept:
        yield ""
        yield f"{report.not_kept} further breaches were not kept"


def _count(number: int) -> str:
    return "nothing was found" if not number else "1 finding" if number == 1 else f"{number} findings"


def _name(client: Client) -> str:
    return f"{client.client_id or '(no client id)'} ({client.name}, {client.host.removeprefix('/')})"


def _finding(one: Finding, clock_time: ClockTime) -> Iterator[str]:
    times = "once" if one.count == 1 else f"{one.count} times, from {clock_time(one.first_ms)} on"
    yield f"  [{one.certainty}] {one.rule.id} ({one.rule.harm}): {one.rule.wrong} {one.api}, {times}."
    for at_ms, words in one.evidence:
        yield f"    {clock_time(at_ms)} {words}"
    yield f"    Do: {one.rule.do}"
