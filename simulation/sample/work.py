"""A consumer's positions in its partitions, and the commits of these positions.

A position follows the producers at a small distance. After a break, it moves at a few times the producers' speed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from muster.protocol.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from muster.simulation.consumer import NO_ID, Offsets
from muster.simulation.sample.world import World

Owned = Mapping[str, Sequence[int]]
"""Partitions by topic."""

BEHIND_MS: Final = 200
BEHIND_SPREAD_MS: Final = 1_500
"""A consumer without trouble is BEHIND_MS behind its producers, and up to this time more."""
SPEED: Final = 4
"""A consumer that has fallen behind reads this many times faster than its producers write."""


class Work:
    """The partitions that one consumer has, and its position in each."""

    def __init__(self, world: World, owned: Owned, committed: Offsets) -> None:
        """`committed`: the offsets at which the consumer continues.

        A partition without an offset begins at its end (auto.offset.reset=latest).
        """
        self._world = world
        self._moved_ms = now_ms = world.wall_ms
        self._rows: list[tuple[OffsetCommitRequestPartition, int, int, int]] = []
        self.topics: list[OffsetCommitRequestTopic] = []
        """The rows of a commit. They always have the present positions."""
        for topic, partitions in owned.items():
            traffic = world.traffic[topic]
            offsets = committed.get(topic, {})
            rows = [OffsetCommitRequestPartition(one, offsets.get(one, -1), 0, "") for one in partitions]
            for row in rows:
                if row.committed_offset < 0:
                    row.committed_offset = traffic.end(row.partition_index, now_ms)
                self._rows.append((row, *traffic.position(row.partition_index)))
            self.topics.append(OffsetCommitRequestTopic(topic, NO_ID, rows))

    def move(self) -> None:
        """Move the positions up to the present time."""
        now_ms = self._world.wall_ms
        # the distances are spread evenly, without random numbers
        seen_ms = now_ms - BEHIND_MS - now_ms * 7_919 % BEHIND_SPREAD_MS
        passed_ms, self._moved_ms = now_ms - self._moved_ms, now_ms
        for row, first, since_ms, rate in self._rows:
            at = row.committed_offset
            left = first + (seen_ms - since_ms) * rate // 1_000_000 - at
            if left > 0:
                row.committed_offset = at + min(left, SPEED * rate * passed_ms // 1_000_000)

    def hold(self) -> None:
        self._moved_ms = self._world.wall_ms

    def rewind(self, records: int) -> dict[str, dict[int, list[int]]]:
        """Go back by `records` in each partition, at most to offset 0. Returns [from, to] by topic and partition."""
        moved: dict[str, dict[int, list[int]]] = {}
        for topic in self.topics:
            for row in topic.partitions:
                before = row.committed_offset
                row.committed_offset = max(before - records, 0)
                moved.setdefault(topic.name, {})[row.partition_index] = [before, row.committed_offset]
        return moved
