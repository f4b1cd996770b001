"""The truth of a log that begins in mid-life: what is over before its beginning is unknown to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

_GOES_ON: Final = frozenset({"too_slow", "keeps_up", "behind", "poison", "two_topics"})
"""Incidents that go on after their script has ended."""
CUT: Final = "cut"
"""How a log begins without its earlier segments."""
_LOOPS: Final = frozenset({"crash_loop", "flapping", "slow_poller"})
"""The log may show enough of these episodes, even if it lacks their beginning."""


def since(lines: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The lines that the log shows. What began earlier is cut, and no earlier rebalance counts.

    Earlier episodes are kept, because old records may show them. Nobody has to find those that are `cut`.
    """
    some = list(lines)
    begins = next((line for line in some if line["kind"] == "begins"), None)
    if begins is None:
        yield from some
        return
    at, unknown = begins["at"], dict[str, int]()
    first = _first(some, at) if begins["how"] == CUT else {}
    for line in some:
        group = line.get("group")
        if line["kind"] == "rebalance" and (line["acted"] < at or line["acted"] == first.get(group)):
            unknown[group] = max(unknown.get(group, 0), line["generation"])
        elif line["kind"] == "episode" and line["what"] not in _LOOPS and line["from"] <= first.get(group, at - 1):
            yield {**line, "cut": True}
        elif "from" not in line or line["from"] >= at:
            yield line
        elif line["until"] >= at or line.get("what") in _GOES_ON:
            yield {**line, "from": at, "until": max(line["until"], at)}
    for group, last in unknown.items():
        yield {"kind": "unsure", "group": group, "first": 1, "last": last}


def _first(lines: Iterable[Mapping[str, Any]], at: int) -> dict[str, int]:
    """By group: when its first rebalance in the log began. Nobody knows who was a member before."""
    found: dict[str, int] = {}
    for line in lines:
        if line["kind"] == "rebalance" and line["acted"] >= at:
            found[line["group"]] = min(found.get(line["group"], line["acted"]), line["acted"])
    return found
