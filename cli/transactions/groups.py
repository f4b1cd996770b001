"""The groups whose offsets transactions committed. `__group_events` counts ends of transactions by producer, epoch and
time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from muster.client.connection import AskingFailed
from muster.client.event_reader import OF_GROUPS, Events
from muster.client.kafka_client import Cluster
from muster.coordinator.history.transaction_timeline import OFFSETS_TOPIC, Value

COUNTS: Final = {"transaction_committed": "transactions_committed", "transaction_aborted": "transactions_aborted"}
"""The event of a transaction's end, and the matching event of its groups."""
EARLIER_MS: Final = 100
"""A transaction may seem complete so much earlier than in the event of its group. Two readings of the clock are
compared, and one may be as old as an iteration of the event loop.
"""
COUNTED_MS: Final = 5_000
"""An event counts several transactions. The last of them ended at most so long after the first."""


class Groups:
    """The groups of some transactions."""

    def __init__(self, cluster: Cluster, ended: Iterable[Value]) -> None:
        """`ended`: events of transactional ids. The cluster is read only if some of their transactions have offsets."""
        partitions: set[int] = set()
        producers: set[int] = set()
        for value in ended:
            topics = (value.get("topics") or {}) if value["kind"] in COUNTS else {}
            if topics.get(OFFSETS_TOPIC):
                partitions.update(topics[OFFSETS_TOPIC])
                producers.add(value["producer_id"])
        self._counts = list(_counts(cluster, partitions, producers)) if partitions else []

    def of(self, value: Value) -> Sequence[str]:
        """The groups of a transaction that has ended; empty if they are not known, or it has none."""
        kind, epoch, at_ms = COUNTS[value["kind"]], value["producer_epoch"], value["time"]
        found = {
            one["group"]
            for one in self._counts
            if one["kind"] == kind
            and one["producer_id"] == value["producer_id"]
            and one["first_epoch"] <= epoch + 1  # the marker may have the next epoch already
            and epoch <= one["last_epoch"]
            and one["time"] - EARLIER_MS <= at_ms <= one["time"] + COUNTED_MS
        }
        return sorted(found)


def _counts(cluster: Cluster, partitions: set[int], producers: set[int]) -> Iterable[Value]:
    kinds = set(COUNTS.values())
    try:
        events = Events(cluster, OF_GROUPS)
        for partition in sorted(partitions):
            for value in events.of_partition(partition):
                if value["kind"] in kinds and value.get("producer_id") in producers:
                    yield value
    except AskingFailed:  # the history of groups is switched off, or may not be read
        return
