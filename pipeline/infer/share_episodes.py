"""What became of a share group's records, in bounded form: episodes of deliveries, and the progress in steps. Pure.

A busy queue has too many records for a row each. An episode has records of one share partition with one outcome and one
number of deliveries. It goes on as long as such records are done.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from muster.coordinator.share_state.persister import StateKey
from muster.pipeline.infer.share_deliveries import Counts, Fate

JOIN_MS: Final = 10_000
"""Records of one episode are done at most this long after each other."""
MAX_RANGES: Final = 8
"""The largest number of ranges of offsets of an episode that are kept."""
MAX_MOMENTS: Final = 1_000
"""Of an episode, about this many times are counted at which deliveries ended."""
MAX_STEPS: Final = 60
"""A group has at most this many steps. With more steps, all become twice as long."""
_STEP_MS: Final = 1_000


@dataclass(slots=True)
class Episode:
    """Records of a share partition with the same outcome and the same number of deliveries."""

    outcome: str
    deliveries: int
    first: int
    last: int
    from_ms: int
    """When the first delivery of one of the records ended."""
    until_ms: int
    """When the last of the records was done."""
    records: int = 0
    least_ms: int | None = None
    """The shortest time from the end of a record's first delivery until it was done."""
    most_ms: int | None = None
    ranges: list[tuple[int, int]] = field(default_factory=list)
    held_ms: int | None = None
    """The longest time for which a member surely held some of the records before it gave them back."""
    moments: set[int] = field(default_factory=set)
    """The times at which deliveries ended without an acceptance, at most MAX_MOMENTS."""

    def add(self, fate: Fate) -> None:
        """Add records."""
        self.records += fate.last - fate.first + 1
        self.first, self.last = min(self.first, fate.first), max(self.last, fate.last)
        self.until_ms = fate.at_ms
        if fate.ended_ms:
            self.from_ms = min(self.from_ms, fate.ended_ms[0])
            age_ms = fate.at_ms - fate.ended_ms[0]
            self.least_ms = age_ms if self.least_ms is None else min(self.least_ms, age_ms)
            self.most_ms = age_ms if self.most_ms is None else max(self.most_ms, age_ms)
        if fate.held_ms is not None and fate.ended_ms:
            self.held_ms = fate.held_ms if self.held_ms is None else max(self.held_ms, fate.held_ms)
        if len(self.moments) < MAX_MOMENTS:
            self.moments.update(fate.ended_ms)
        if self.ranges and self.ranges[-1][1] + 1 == fate.first:
            self.ranges[-1] = self.ranges[-1][0], fate.last
        elif len(self.ranges) < MAX_RANGES:
            self.ranges.append((fate.first, fate.last))


class Episodes:
    """Makes episodes while fates arrive in the order of time."""

    def __init__(self) -> None:
        self._open: dict[tuple[StateKey, str, int], Episode] = {}

    def add(self, partition: StateKey, fate: Fate) -> Iterator[tuple[StateKey, Episode]]:
        """Add records. Yields the episode that has ended before."""
        key = partition, fate.outcome, fate.deliveries
        known = self._open.get(key)
        if known is None or fate.at_ms - known.until_ms > JOIN_MS:
            if known is not None:
                yield partition, known
            from_ms = fate.ended_ms[0] if fate.ended_ms else fate.at_ms
            known = self._open[key] = Episode(fate.outcome, fate.deliveries, fate.first, fate.last, from_ms, fate.at_ms)
        known.add(fate)

    def end(self) -> Iterator[tuple[StateKey, Episode]]:
        """Yield the rest at the end of the log."""
        yield from ((key[0], one) for key, one in self._open.items())


class Steps:
    """The progress of a group, in steps of one length."""

    def __init__(self) -> None:
        self.step_ms = _STEP_MS
        self._sums: dict[int, Counts] = {}

    def add(self, at_ms: int, counts: Counts) -> None:
        """Add what happened at a time."""
        number = at_ms // self.step_ms
        self._sums[number] = self._sums.get(number, Counts()).plus(counts)
        while len(self._sums) > MAX_STEPS:
            self.step_ms *= 2
            wider: dict[int, Counts] = {}
            for old, sums in self._sums.items():
                wider[old // 2] = wider.get(old // 2, Counts()).plus(sums)
            self._sums = wider

    def rows(self) -> Iterator[tuple[int, int, Counts]]:
        """The start, the end and the sums of each step in which anything happened."""
        for number, sums in sorted(self._sums.items()):
            yield number * self.step_ms, (number + 1) * self.step_ms, sums
