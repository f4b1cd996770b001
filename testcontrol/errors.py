"""The errors of the test control. The report of a failed wait names the interventions of the test, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from muster.coordinator.history.words import many


class CannotBeDone(Exception):
    """The action cannot be done now; the text says why."""


class WrongValue(ValueError):
    """A verb was given a wrong value. The text names the value, and what was expected."""


class WaitFailed(AssertionError):
    """A condition did not become true in time. The text explains the failure.

    `group_id`; `waited_for` and `now` in words; `timeline`: the lines of the group's history. `interventions`: the
    interventions of the test, which may be the cause.
    """

    def __init__(
        self,
        group_id: str,
        waited_for: str,
        timeout_s: float,
        now: str,
        timeline: Sequence[str],
        interventions: Sequence[str],
    ) -> None:
        self.group_id = group_id
        self.waited_for = waited_for
        self.timeout_s = timeout_s
        self.now = now
        self.timeline = tuple(timeline)
        self.interventions = tuple(interventions)
        self.meddling = self.interventions  # the old name of the field, for one release (docs/changes.md)
        lines = [
            f"group {group_id}: this was not true after {timeout_s:g} s: {waited_for}",
            *_indented("now", now.splitlines()),
        ]
        lines += _indented("what happened", self.timeline or ("its history has no event",))
        if interventions:
            lines += _indented("what the test has done to the server", self.interventions)
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.group_id, self.waited_for, self.timeout_s, self.now, self.timeline, self.interventions)


def _indented(head: str, lines: Sequence[str]) -> list[str]:
    return [f"  {head}:", *(f"    {line}" for line in lines)]


for _one in (CannotBeDone, WrongValue, WaitFailed):
    # tests know these errors by this short name, and reports of tests have little room
    _one.__module__ = "muster.testing"


class WrongFault(WrongValue):
    """A rule cannot be understood; the text says which part, and what was expected."""


class NoSuchFault(LookupError):
    """No rule or scenario has that id or name."""


MAX_INTERVENTIONS: Final = 10
"""The most lines about rules, and the most about scenarios."""
Json = Mapping[str, Any]


def intervention_lines(hits: Iterable[Json], scenarios: Iterable[Json], *, is_frozen: bool, ahead_ms: int) -> list[str]:
    """Lines about the kinds of requests in `hits` (the log of faults), the running scenarios, and frozen time."""
    lines = ["the server's time stands still" + (f", {ahead_ms} ms ahead" if ahead_ms > 0 else "")] if is_frozen else []
    lines += [f"scenario {one['name']} runs: {'; '.join(one['steps'][-3:])}" for one in scenarios]
    counted: dict[tuple[str, str, str, str], int] = {}
    for hit in hits:
        rule = f"{hit['rule']} ({hit['name']})" if hit["name"] else hit["rule"]
        key = (rule, hit["api"], hit["client_id"] or "", hit["did"])
        counted[key] = counted.get(key, 0) + 1
    rows = [
        f"rule {rule} hit {count} {api} {many('request', count)} of client {client or '(no name)'}: {did}"
        for (rule, api, client, did), count in counted.items()
    ]
    if len(rows) > MAX_INTERVENTIONS:
        rows = [*rows[:MAX_INTERVENTIONS], f"and {len(rows) - MAX_INTERVENTIONS} more like these"]
    return lines[: MAX_INTERVENTIONS + 1] + rows
