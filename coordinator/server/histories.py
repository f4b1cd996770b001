"""What is told of the groups and the transactions of each partition, and the topics of history that it is written to.

All nodes of a process share it: whoever leads a partition goes on where the last one stopped.
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
    """`of_groups` and `of_transactions` give the observer of a partition; each is made when it is first asked for."""

    def __init__(
        self,
        settings: ObserveSettings,
        topics: Topics,
        clock: Clock,
        told: Callable[[Sequence[Event]], object] | None = None,
    ) -> None:
        """`told`: is told besides what happens in groups."""
        self._told = told
        self._settings = settings
        self._topics = topics
        self._clock = clock
        self._observers: dict[tuple[str, int], Any] = {}
        """By the topic of the history, and the partition."""

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
        """The `observe.transaction_journal.TransactionObservers` of a partition of __transaction_state."""
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
        """The log of this partition of a history was opened anew, or has another leader."""
        found = self._observers.get((topic, index))
        if found is not None and found.journal is not None:
            found.journal.renew()

    def hand_over(self, topic: str, index: int) -> Sequence[Row]:
        """Another process leads this partition of a history now: what is not written yet, for that one to write."""
        found = self._observers.get((topic, index))
        return () if found is None or found.journal is None else found.journal.hand_over()

    def take_over(self, topic: str, index: int, rows: Sequence[Row]) -> None:
        """Write what the leader before has handed over."""
        found = self.of_groups(index) if topic == GROUP_EVENTS_TOPIC else self.of_transactions(index)
        if found.journal is not None:
            found.journal.take_over(rows)

    def close(self) -> None:
        """What is not written yet is written; nothing more is told."""
        for observers in self._observers.values():
            observers.close()
