"""Counts of ended transactions that have committed offsets of groups, for one second.

There is one event for each group, producer and outcome: a busy producer ends a hundred transactions a second. It sets
no timer and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event

COMMITTED: Final = "transactions_committed"
"""producer_id, first_epoch, last_epoch, transactions (how many), offsets (how many in total): of one second."""
ABORTED: Final = "transactions_aborted"
"""As COMMITTED; none of these offsets ever counts."""
KINDS: Final = {events.TRANSACTION_COMMITTED: COMMITTED, events.TRANSACTION_ABORTED: ABORTED}
"""The kinds that are counted, and the kind of the event with the count."""
MOST: Final = 500
"""When there are this many different counts, they are written at once."""


class TransactionCounts:
    """The ends of the present second."""

    __slots__ = ("_counts", "began_ms")

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, int], list[int]] = {}
        self.began_ms: int | None = None
        """The time of the first end (wall ms). None before the first."""

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
        """Whether the number of kept counts has reached its limit."""
        return len(self._counts) >= MOST

    def take(self) -> Iterator[tuple[str, str, int, dict[str, int]]]:
        """The events to write: kind and group, the time of the first end (wall ms), and the facts. All counts are
        reset.
        """
        counts, self._counts, self.began_ms = self._counts, {}, None
        for (kind, group_id, producer_id), (first, last, transactions, offsets, first_ms) in counts.items():
            facts = {
                "producer_id": producer_id, "first_epoch": first, "last_epoch": last, "transactions": transactions,
                "offsets": offsets,
            }  # fmt: skip
            yield KINDS[kind], group_id, first_ms, facts
