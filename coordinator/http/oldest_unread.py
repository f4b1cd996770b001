"""How old the oldest unread records are, of the groups with the greatest lag. Each costs a read of a batch's header."""

from __future__ import annotations

import heapq
from typing import Final

from muster.coordinator.log.errors import LogError
from muster.coordinator.server.exposition import GAUGE, Metric
from muster.coordinator.server.server import Server
from muster.coordinator.system.jobs import Job

NAME: Final = "muster_group_oldest_unread_seconds"
ABOUT: Final = (
    "The age of the first unread record in the partition with the greatest lag, by its batch's first timestamp."
)


class GreatestLags:
    """The partition with the greatest lag of each group: lag, topic, partition and committed offset."""

    def __init__(self) -> None:
        self._of_groups: dict[str, tuple[int, str, int, int]] = {}

    def note(self, group: str, topic: str, partition: int, offset: int, lag: int) -> None:
        """Note a partition that has unread records."""
        known = self._of_groups.get(group)
        if known is None or known[0] < lag:
            self._of_groups[group] = lag, topic, partition, offset

    def metric(self, server: Server, most: int) -> Job[Metric]:
        """The ages, of at most `most` groups."""
        wall_ms = server.clock.now().wall_ms
        ages: dict[tuple[str], float] = {}
        for group, (_, topic, partition, offset) in heapq.nlargest(most, self._of_groups.items(), key=_lag):
            written_ms = _written_ms(server, topic, partition, offset)
            if written_ms is not None:
                ages[group,] = max(wall_ms - written_ms, 0) / 1000
            yield None
        return Metric(NAME, GAUGE, ABOUT, ages, ("group",))


def _lag(row: tuple[str, tuple[int, str, int, int]]) -> int:
    return row[1][0]


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
