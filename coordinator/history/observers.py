"""The receivers of a shard's events: the server's log, and the journal if the server has one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from muster.coordinator.groups.common.events import Event
from muster.coordinator.history.journal import Journal
from muster.coordinator.runtime.group_coordinator.log_lines import log_event
from muster.coordinator.state_machine.interface import Now

log = structlog.get_logger("muster.groups")


def warn_restless(event: Event) -> None:
    """Log that members of a group leave and join in a loop. `Journal` calls it."""
    log.warning("a group is restless", group=event.group_id, what=event.facts["text"])


class Observers:
    """The `Observer` of a shard."""

    def __init__(self, journal: Journal | None, told: Callable[[Sequence[Event]], object] | None = None) -> None:
        """`told` gets the events too."""
        self.journal = journal
        self._told = told

    def tell(self, happened: Sequence[Event], now: Now) -> None:
        """Give the events to the journal first, because it must not lose any."""
        if self.journal is not None:
            self.journal.tell(happened, now)
        for event in happened:
            log_event(event)
        if self._told is not None:
            self._told(happened)

    def loaded(self, now: Now, *, groups: int, records: int, took_ms: int) -> None:
        """For the journal only: the server's log reports all shards at once."""
        if self.journal is not None:
            self.journal.loaded(now, groups=groups, records=records, took_ms=took_ms)

    def flush(self) -> None:
        """An answer is about to show the events."""
        if self.journal is not None:
            self.journal.flush()

    def close(self) -> None:
        """No more events will follow."""
        if self.journal is not None:
            self.journal.close()
