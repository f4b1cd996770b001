"""What scrapes want to know of the coordinator of groups: its waits, and the commits of each group.

Only a server with an HTTP door has these figures (docs/metrics.md). Repeated work is timed some times a second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

from muster.coordinator.system.clock import Clock

MAX_GROUPS: Final = 10_000
"""The most groups whose commits are counted by group. The commits of further groups are counted together."""
KEPT: Final = 1_000
"""The most durations of one kind that are kept: the latest."""
KEPT_MS: Final = 60_000
"""Older durations do not count any more."""


class Recent:
    """The latest durations of one kind, in microseconds."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: deque[tuple[int, int]] = deque(maxlen=KEPT)

    def add(self, ended_us: int, took_us: int) -> None:
        """Keep a duration that ended at a monotonic time."""
        self._kept.append((ended_us, took_us))

    def sorted_us(self, mono_ms: int) -> list[int]:
        """The durations of the last minute, in order."""
        return sorted(took_us for ended_us, took_us in [*self._kept] if mono_ms - ended_us // 1000 <= KEPT_MS)


class Commits:
    """The committed offsets of one group. An offset of each partition counts, as in Kafka's metrics."""

    __slots__ = ("offsets",)

    def __init__(self) -> None:
        self.offsets = 0


NOT_COUNTED: Final = Commits()
"""Stands for the commits of all groups while there is no HTTP door."""


class CommitCounts:
    """The committed offsets by group, since the start."""

    def __init__(self) -> None:
        self.of_groups: dict[str, Commits] = {}
        self.others = Commits()
        """Groups that were deleted, and groups above `MAX_GROUPS`."""

    def of(self, group_id: str) -> Commits:
        """The object that counts the commits of a group."""
        found = self.of_groups.get(group_id)
        if found is None:
            if len(self.of_groups) >= MAX_GROUPS:
                return self.others
            found = self.of_groups[group_id] = Commits()
        return found

    def forget(self, group_id: str) -> None:
        """Count what a deleted group has committed with the others."""
        found = self.of_groups.pop(group_id, None)
        if found is not None:
            self.others.offsets += found.offsets
            found.offsets = 0

    @property
    def all(self) -> int:
        """The committed offsets of all groups."""
        return self.others.offsets + sum([one.offsets for one in self.of_groups.values()])

    def counting(self, group_id: str, respond: Callable[[Any], None]) -> Callable[[Any], None]:
        """A `Respond` that counts the rows without an error, and hands the response on."""
        commits = self.of(group_id)

        def counted(response: Any) -> None:
            commits.offsets += sum(_accepted(response))
            respond(response)

        return counted


def _accepted(response: Any) -> Iterator[bool]:
    for topic in () if response is None else response.topics:
        for one in topic.partitions:
            yield not one.error_code


class ShardFigures:
    """The figures of all shards of groups in this process. `linger`: how long records were gathered. `flush`: how long
    an append took. `purgatory`: from an append until it was durable.
    """

    def __init__(self) -> None:
        self.commits = CommitCounts()
        self.linger = Recent()
        self.flush = Recent()
        self.purgatory = Recent()
        self.flushes = 0
        self.loads: deque[int] = deque(maxlen=KEPT)
        """How long the latest shards took to load, in ms."""
        self.is_due = False
        """Whether the next append is timed."""

    def time_append(
        self, clock: Clock, linger_ms: int, began_us: int, when_durable: Callable[[Callable[[Any], object]], object]
    ) -> None:
        """Take the durations of an append that is done. `when_durable` calls its argument when that is durable."""
        self.is_due = False
        now_us = clock.mono_us()
        self.linger.add(now_us, linger_ms * 1000)
        self.flush.add(now_us, now_us - began_us)

        def durable(error: Exception | None) -> None:
            if error is None:
                durable_us = clock.mono_us()
                self.purgatory.add(durable_us, durable_us - now_us)

        when_durable(durable)


def commits_of(figures: ShardFigures | None, group_id: str) -> Commits:
    """The object that counts the commits of a group, also if nothing is counted (None)."""
    return NOT_COUNTED if figures is None else figures.commits.of(group_id)
