"""Which rebalances of a history were forming, or a stop on purpose: they are no trouble, and nothing is to spare there.
Pure.

A member that comes to a group that has just formed, or leaves one that is being stopped, begins a rebalance of its own
unless an empty group waits for company, and always in a KIP-848 group.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from muster.pipeline.episodes.thresholds import FORM_MS, SECOND_ROUND_MS, STOP_MS
from muster.pipeline.whatif.history import LEFT, REPLACED, History

_LATE_MS = 1_000
"""A rebalance begins so long after the member came, or went, that caused it."""

Span = tuple[int, int]
"""From when to when (ms)."""


def planned(history: History) -> frozenset[int]:
    """Places in `History.generations`."""
    spans = [*_formations(history), *_stops(history)]
    found: set[int] = set()
    for number, one in enumerate(history.generations):
        before = history.generations[number - 1] if number else None
        # the second round of a cooperative strategy
        goes_on = (
            before is not None
            and number - 1 in found
            and before.shares.keys() == one.shares.keys()
            and one.stopped_ms - before.start_ms <= SECOND_ROUND_MS
        )
        if goes_on or any(from_ms <= one.stopped_ms <= until_ms + _LATE_MS for from_ms, until_ms in spans):
            found.add(number)
    return frozenset(found)


def _formations(history: History) -> Iterator[Span]:
    """From when a member comes to an empty group, as long as others come soon after each other and nobody goes."""
    came = sorted(one.joined_ms for one in history.spells if one.joined_ms is not None)
    went = sorted(one.end_ms for one in history.spells if one.end_ms is not None)
    for ms in (*((history.start_ms,) if history.given is None else ()), *history.emptied):
        first = at = bisect_left(came, ms)
        while at + 1 < len(came) and came[at + 1] - came[at] <= FORM_MS and not _between(went, came[at], came[at + 1]):
            at += 1
        if first < len(came):
            yield came[first], came[at]


def _stops(history: History) -> Iterator[Span]:
    """Until the group was empty: since members left one soon after the other, and nobody came."""
    came = sorted(one.joined_ms for one in history.spells if one.joined_ms is not None)
    went = sorted((one.end_ms, one.end) for one in history.spells if one.end_ms is not None and one.end != REPLACED)
    for ms in history.emptied:
        from_ms = ms
        for end_ms, how in reversed(went[: bisect_right(went, (ms + _LATE_MS, ""))]):
            if how != LEFT or ms - end_ms > STOP_MS or _between(came, end_ms, from_ms):
                break
            from_ms = min(from_ms, end_ms)
        yield from_ms, ms


def _between(times: list[int], since_ms: int, until_ms: int) -> bool:
    return bisect_right(times, since_ms) < bisect_left(times, until_ms)
