"""How old the oldest unread records are, of the groups with the greatest lag. Each costs a read of a batch's header."""

from __future__ import annotations

import heapq
from typing import Final

from muster.coordinator.log.errors import LogError
from muster.coordinator.server.exposition import GAUGE, Metric
from muster.coordinator.server.server import Server
from muster.coordinator.system.jobs import Job

OF_GROUP: Final = "muster_group_oldest_unread_seconds"
ABOUT_GROUP: Final = "The age of the oldest unread record, by the first timestamp of its batch."
OF_PARTITION: Final = "muster_partition_oldest_unread_seconds"
ABOUT_PARTITION: Final = "The age of the first unread record of a partition, by the first timestamp of its batch."
MAX_OF_GROUP: Final = 50
"""The most partitions of a group: those with the greatest lags."""
MAX_PARTITIONS: Final = 1_000
"""The most partitions of all groups."""
_Behind = tuple[int, str, int, int]
"""Lag, topic, partition and committed offset."""


class GreatestLags:
    """The partitions with unread records of each group, those with the greatest lags."""

    def __init__(self) -> None:
        self._of_groups: dict[str, list[_Behind]] = {}

    def note(self, group: str, topic: str, partition: int, offset: int, lag: int) -> None:
        """Note a partition that has unread records."""
        known, row = self._of_groups.setdefault(group, []), (lag, topic, partition, offset)
        if len(known) < MAX_OF_GROUP:
            heapq.heappush(known, row)
        else:
            heapq.heappushpop(known, row)

    def metrics(self, server: Server, most: int) -> Job[list[Metric]]:
        """The ages, of at most `most` groups."""
        wall_ms = server.clock.now().wall_ms
        of_groups: dict[tuple[str], float] = {}
        of_partitions: dict[tuple[str, str, str], float] = {}
        left = MAX_PARTITIONS
        for group, rows in heapq.nlargest(most, self._of_groups.items(), key=_greatest):
            for _, topic, partition, offset in sorted(rows, reverse=True)[:left]:
                left -= 1
                written_ms = _written_ms(server, topic, partition, offset)
                if written_ms is not None:
                    age_s = max(wall_ms - written_ms, 0) / 1000
                    of_partitions[group, topic, str(partition)] = age_s
                    of_groups[group,] = max(of_groups.get((group,), 0.0), age_s)
                yield None
        return [
            Metric(OF_GROUP, GAUGE, ABOUT_GROUP, of_groups, ("group",)),
            Metric(OF_PARTITION, GAUGE, ABOUT_PARTITION, of_partitions, ("group", "topic", "partition")),
        ]


def _greatest(row: tuple[str, list[_Behind]]) -> int:
    return max(row[1])[0]


def _written_ms(server: Server, topic: str, index: int, offset: int) -> int | None:
    """The first timestamp of the batch with this offset. None: it is not here, or has no timestamp."""
    partition = server.topics.open.partition(topic, index)
    if partition is None:
        return None
    log = partition.log
    try:
        header = next(log.headers(max(offset, log.start_offset)), None)
    except (LogError, OSError):
        return None  # readers of the log get the error
    return None if header is None or header.base_timestamp < 0 else header.base_timestamp
