"""Ends of transactions that have committed offsets of groups, counted for a second: one event for each group, producer
and outcome. A busy producer ends a hundred a second. Sets no timer and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event

COMMITTED: Final = "transactions_committed"
"""producer_id, first_epoch, last_epoch, transactions (how many), offsets (how many, of all together): of one second."""
ABORTED: Final = "transactions_aborted"
"""As COMMITTED; none of these offsets ever counts."""
KINDS: Final = {events.TRANSACTION_COMMITTED: COMMITTED, events.TRANSACTION_ABORTED: ABORTED}
"""What is counted, and as what it is told."""
MOST: Final = 500
"""Different ones are written at once when there are so many."""


class TransactionCounts:
    """The ends of the present second."""

    __slots__ = ("_counts", "began_ms")

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, int], list[int]] = {}
        self.began_ms: int | None = None
        """When the first of them came (wall ms); None: there is none."""

    def add(self, event: Event, wall_ms: int) -> None:
        """Count a TRANSACTION_COMMITTED or TRANSACTION_ABORTED."""
        if self.began_ms is None:
            self.began_ms = wall_ms
        facts: dict[str, Any] = event.facts
        epoch = facts["producer_epoch"]
        kind = event.kind, event.group_id, facts["producer_id"]
        counted = self._counts.setdefault(kind, [epoch, epoch, 0, 0, wall_ms])
        counted[1] = epoch
        counted[2] += 1
        counted[3] += sum(map(len, facts["offsets"].values()))

    @property
    def is_full(self) -> bool:
        """Whether there are as many as are kept."""
        return len(self._counts) >= MOST

    def take(self) -> Iterator[tuple[str, str, int, dict[str, int]]]:
        """Kind and group of each event to write, when the first that it counts came (wall ms), and its facts.
        Nothing is counted any more.
        """
        counts, self._counts, self.began_ms = self._counts, {}, None
        for (kind, group_id, producer_id), (first, last, transactions, offsets, first_ms) in counts.items():
            facts = {
                "producer_id": producer_id, "first_epoch": first, "last_epoch": last, "transactions": transactions,
                "offsets": offsets,
            }  # fmt: skip
            yield KINDS[kind], group_id, first_ms, facts
