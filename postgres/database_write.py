"""One database write: its changes, and the logs that they belong to. When the write counts, these logs are informed. A
log that another node leads meanwhile is left out.
"""

from __future__ import annotations

from collections.abc import Callable

from muster.postgres.database_log import DatabaseLog
from muster.postgres.store import Changes


class Turn:
    """The content of one database write."""

    __slots__ = ("changes", "taken")

    def __init__(self) -> None:
        self.changes = Changes()
        self.taken: list[tuple[DatabaseLog, int, set[int]]] = []
        """For each log: its end offset in this write (-1: no batch of it), and the segments that change."""

    def take(self, log: DatabaseLog, bring: Callable[[], int]) -> None:
        """Let `bring` add changes of a log; it returns the offset."""
        changes = self.changes
        batches, live, dead, facts = len(changes.batches), len(changes.live), len(changes.dead), len(changes.facts)
        next_offset = bring()
        segments = {row.segment_no for row in changes.batches[batches:]}
        segments.update(row.segment_no for row in changes.facts[facts:])
        self.taken.append((log, next_offset, segments.union(changes.live[live:], changes.dead[dead:])))

    def leave_out(self, log: DatabaseLog) -> None:
        """Remove the changes of this log: another node leads it now."""
        for one, _, segments in self.taken:
            if one is log:
                self.changes.leave_out(log.log_no, segments)
        self.taken = [one for one in self.taken if one[0] is not log]

    def confirm(self) -> None:
        """Inform the logs that the database has this write."""
        for log, next_offset, _ in self.taken:
            if next_offset >= 0:
                log.confirm(next_offset)
            log.counts()
