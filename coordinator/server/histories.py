"""The observers of the groups and transactions of each partition, and their history topics.

All nodes of a process share it: a new leader of a partition continues where the last one stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from muster.coordinator.groups.common.events import Event
from muster.coordinator.history.event_writer import Row
from muster.coordinator.history.journal import Journal
from muster.coordinator.history.observers import Observers, warn_restless
from muster.coordinator.history.settings import ObserveSettings
from muster.coordinator.system.clock import Clock
from muster.coordinator.topics.names import GROUP_EVENTS_TOPIC, TRANSACTION_EVENTS_TOPIC
from muster.coordinator.topics.topics import Topics


class Histories:
    """`of_groups` and `of_transactions` return the observer of a partition. Each is made at its first use."""

    def __init__(
        self,
        settings: ObserveSettings,
        topics: Topics,
        clock: Clock,
        told: Callable[[Sequence[Event]], object] | None = None,
    ) -> None:
        """`told`: also gets the events of groups."""
        self._told = told
        self._settings = settings
        self._topics = topics
        self._clock = clock
        self._observers: dict[tuple[str, int], Any] = {}
        """Observers by history topic and partition."""

    def of_groups(self, index: int) -> Observers:
        """The observer of a partition of __consumer_offsets."""
        found = self._observers.get((GROUP_EVENTS_TOPIC, index))
        if found is None:
            journal = None
            if self._settings.muster_group_events_enable:
                open_log = partial(self._topics.open.open_log, GROUP_EVENTS_TOPIC, index)
                journal = Journal(index, open_log, self._clock, warn_restless)
            found = self._observers[GROUP_EVENTS_TOPIC, index] = Observers(journal, self._told)
        observers: Observers = found
        return observers

    def of_transactions(self, index: int) -> Any:
        """The `history.transaction_journal.TransactionObservers` of a partition of __transaction_state."""
        found = self._observers.get((TRANSACTION_EVENTS_TOPIC, index))
        if found is None:
            # imported here: most servers have no transactions
            room = import_module("muster.coordinator.history.transaction_journal")
            lines = import_module("muster.coordinator.runtime.transaction_coordinator.log_lines")
            journal = None
            if self._settings.muster_transaction_events_enable:
                open_log = partial(self._topics.open.open_log, TRANSACTION_EVENTS_TOPIC, index)
                journal = room.TransactionJournal(index, open_log, self._clock)
            found = room.TransactionObservers(journal, lines.log_events)
            self._observers[TRANSACTION_EVENTS_TOPIC, index] = found
        return found

    def renew(self, topic: str, index: int) -> None:
        """The log of this history partition was opened again, or has another leader."""
        found = self._observers.get((topic, index))
        if found is not None and found.journal is not None:
            found.journal.renew()

    def hand_over(self, topic: str, index: int) -> Sequence[Row]:
        """Another process now leads this history partition. Returns the rows that are not written yet, for that
        process.
        """
        found = self._observers.get((topic, index))
        return () if found is None or found.journal is None else found.journal.hand_over()

    def take_over(self, topic: str, index: int, rows: Sequence[Row]) -> None:
        """Write the rows that the previous leader has handed over."""
        found = self.of_groups(index) if topic == GROUP_EVENTS_TOPIC else self.of_transactions(index)
        if found.journal is not None:
            found.journal.take_over(rows)

    def close(self) -> None:
        """Write the waiting rows. Nothing is reported after that."""
        for observers in self._observers.values():
            observers.close()
