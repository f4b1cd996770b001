"""The interventions of a test in words, for the report of a failed wait or a failed test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from muster.coordinator.history.words import many

MOST_LINES: Final = 10
"""The most lines about rules, and the most about scenarios."""
Json = Mapping[str, Any]


def told(hits: Iterable[Json], scenarios: Iterable[Json], *, is_frozen: bool, ahead_ms: int = 0) -> list[str]:
    """A line for each kind of request that a rule hit, for each running scenario, and for frozen time. `hits`: rows of
    the log of faults.
    """
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
    if len(rows) > MOST_LINES:
        rows = [*rows[:MOST_LINES], f"and {len(rows) - MOST_LINES} more of such"]
    return lines[: MOST_LINES + 1] + rows
