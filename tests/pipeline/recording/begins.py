"""The truth of a log that begins in mid-life: what is over before its beginning is unknown to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

_GOES_ON: Final = frozenset({"too_slow", "keeps_up", "behind", "poison", "two_topics"})
"""Incidents that go on after their script has ended."""
_LOOPS: Final = frozenset({"crash_loop", "flapping", "slow_poller"})
"""Episodes of which the log may show enough, though not the beginning."""


def since(lines: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The lines that the log shows. What began earlier is cut, and no earlier rebalance counts.

    Earlier episodes are kept, because old records may show them. Nobody has to find those that are `cut`.
    """
    some = list(lines)
    at = max((line["at"] for line in some if line["kind"] == "begins"), default=None)
    if at is None:
        yield from some
        return
    unknown: dict[str, int] = {}
    for line in some:
        group = line.get("group")
        if line["kind"] == "rebalance" and line["acted"] < at:
            unknown[group] = max(unknown.get(group, 0), line["generation"])
        elif "from" not in line or line["from"] >= at:
            yield line
        elif line["kind"] == "episode" and line["what"] not in _LOOPS:
            yield {**line, "cut": True}
        elif line["until"] >= at or line.get("what") in _GOES_ON:
            yield {**line, "from": at, "until": max(line["until"], at)}
    for group, last in unknown.items():
        yield {"kind": "unsure", "group": group, "first": 1, "last": last}
