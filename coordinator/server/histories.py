"""The observers of groups and transactions: log lines about groups, and the history topics.

All nodes of a process share the observers. The start and the end of a rebalance are logged at info. A member that
expired, was removed or was fenced is logged at info too. Members that join and leave by themselves, and refused
requests, are logged at debug.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import structlog

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event, MemberFacts, Trigger
from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.history.event_writer import HistorySettings, Row
from muster.coordinator.history.journal import Journal
from muster.coordinator.state_machine.interface import Now
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.logging.output import LEVELS
from muster.coordinator.telemetry.figures import last_poll
from muster.coordinator.telemetry.reports import ClientReports
from muster.coordinator.topics.names import GROUP_EVENTS_TOPIC, TRANSACTION_EVENTS_TOPIC
from muster.coordinator.topics.topics import Topics

log = structlog.get_logger("muster.groups")
_is_enabled: Final = LEVELS.logger("muster.groups").isEnabledFor
"""`log.is_enabled_for`, in a fifth of the time."""


def log_event(event: Event) -> None:
    """Log one event."""
    found = _LINES.get(event.kind)
    if found is not None:
        line, fields = found
        log.info(line, group=event.group_id, **fields(event.facts))
    elif _is_enabled(logging.DEBUG):
        log.debug(event.kind.replace("_", " "), group=event.group_id, **_plain(event.facts))


def _started(facts: dict[str, Any]) -> dict[str, Any]:
    who: Trigger | None = facts["trigger"]
    trigger = {} if who is None else {"trigger": who.member, "instance": who.instance, "reason": who.reason}
    return {"cause": events.WORDS[facts["cause"]], "generation": facts["generation"], "members": facts["members"],
            **_without_empty(trigger)}  # fmt: skip


def _completed(facts: dict[str, Any]) -> dict[str, Any]:
    return {"generation": facts["generation"], "leader": facts["leader"], "members": len(facts["members"]),
            "took_ms": facts["took_ms"]}  # fmt: skip


def _expired(facts: dict[str, Any]) -> dict[str, Any]:
    member: MemberFacts = facts["member"]
    return {"cause": events.WORDS[events.SESSION_EXPIRED], "session_timeout_ms": member.session_timeout_ms,
            **_who(member)}  # fmt: skip


def _reconciled(facts: dict[str, Any]) -> dict[str, Any]:
    names = ("epoch", "members", "changed", "took_ms")
    cause = {} if facts["cause"] is None else {"cause": events.WORDS[facts["cause"]]}
    return cause | {name: facts[name] for name in names}


def _migrated(facts: dict[str, Any]) -> dict[str, Any]:
    who: Trigger | None = facts["trigger"]
    return {"epoch": facts["epoch"], "members": facts["members"], **({} if who is None else {"trigger": who.member})}


def _who(member: MemberFacts) -> dict[str, Any]:
    return _without_empty({"member": member.member, "instance": member.instance, "client_id": member.client_id,
                           "host": member.host})  # fmt: skip


def _plain(facts: dict[str, Any]) -> dict[str, Any]:
    who = facts.get("member")
    return _without_empty(facts | _who(who) if isinstance(who, MemberFacts) else facts)


def _without_empty(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts without empty values, collections and images."""
    return {
        name: value for name, value in facts.items() if value not in (None, "") and not isinstance(value, _COLLECTIONS)
    }


_OF_LOST_MEMBERS: Final = frozenset({events.MEMBER_LEFT, events.MEMBER_EXPIRED, events.MEMBER_REMOVED})
"""The events that say when the member has polled last, if its client has reported that it no longer polls."""
_COLLECTIONS: Final = (list, tuple, dict, TopicsImage)

_LINES: Final[dict[str, tuple[str, Callable[[dict[str, Any]], dict[str, Any]]]]] = {
    events.REBALANCE_STARTED: ("a rebalance began", _started),
    events.REBALANCE_COMPLETED: ("a rebalance is done", _completed),
    events.GROUP_EMPTIED: ("a group has no members left", dict),
    events.GROUP_DELETED: ("a group was deleted", lambda _: {}),
    events.EPOCH_RECONCILED: ("all members have their new assignments", _reconciled),
    events.TARGET_FAILED: ("the assignor failed; the assignments that are in force stay", dict),
    events.GROUP_UPGRADED: ("a classic group has become a consumer group", _migrated),
    events.GROUP_DOWNGRADED: ("a consumer group has become a classic group", _migrated),
    events.MEMBER_EXPIRED: ("a member was removed", _expired),
    events.MEMBER_REMOVED: (
        "a member was removed", lambda facts: {"cause": events.WORDS[facts["cause"]], **_who(facts["member"])}
    ),
    events.MEMBER_REPLACED: (
        "a static member took the place of its predecessor, which is fenced",
        lambda facts: {"replaced": facts["replaced"], **_who(facts["member"])},
    ),
}  # fmt: skip


def warn_unstable(event: Event) -> None:
    """Log that members of a group leave and join again and again. `Journal` calls this function."""
    log.warning("a group has unstable members", group=event.group_id, what=event.facts["text"])


class GroupObservers:
    """The `Observer` of a shard."""

    def __init__(
        self,
        journal: Journal | None,
        on_group_events: Callable[[Sequence[Event], Now], object] | None,
        client_reports: ClientReports | None,
        on_loaded: Callable[[int], object] | None = None,
    ) -> None:
        """`client_reports`: what members have pushed about themselves, which may explain why they left. `on_loaded` is
        called with the time that the shard took to load, in ms.
        """
        self._on_loaded = on_loaded
        self.journal = journal
        self._client_reports = client_reports
        self.flush: Callable[[], None] = _nothing if journal is None else journal.flush
        self._on_group_events = on_group_events

    def report(self, happened: Sequence[Event], now: Now) -> None:
        """Give the events to the journal first, because the journal must lose no event."""
        if self._client_reports is not None and self._client_reports.pushes:
            happened = [self._explained(event, now) if event.kind in _OF_LOST_MEMBERS else event for event in happened]
        if self.journal is not None:
            self.journal.report(happened, now)
        for event in happened:
            log_event(event)
        if self._on_group_events is not None:
            self._on_group_events(happened, now)

    def _explained(self, event: Event, now: Now) -> Event:
        member: Any = event.facts["member"]
        assert self._client_reports is not None
        report = self._client_reports.of_member(event.group_id, member.member, now.mono_ms)
        return event if report is None else event._replace(facts={**event.facts, **last_poll(report)})

    def loaded(self, now: Now, *, groups: int, records: int, took_ms: int) -> None:
        """Report the load to the journal and `on_loaded`: the server's log reports all shards at once."""
        if self._on_loaded is not None:
            self._on_loaded(took_ms)
        if self.journal is not None:
            self.journal.loaded(now, groups=groups, records=records, took_ms=took_ms)

    def close(self) -> None:
        if self.journal is not None:
            self.journal.close()


def _nothing() -> None:
    pass


class Histories:
    """`of_groups` and `of_transactions` return the observer of a partition, which is made at its first use."""

    def __init__(
        self,
        settings: HistorySettings,
        topics: Topics,
        clock: Clock,
        on_group_events: Callable[[Sequence[Event], Now], object] | None = None,
        client_reports: ClientReports | None = None,
        on_loaded: Callable[[int], object] | None = None,
    ) -> None:
        self._on_loaded = on_loaded
        self._on_group_events = on_group_events
        self._client_reports = client_reports
        self._settings = settings
        self._topics = topics
        self._clock = clock
        self._observers: dict[tuple[str, int], Any] = {}
        """The observers, by history topic and partition."""

    def of_groups(self, index: int) -> GroupObservers:
        """The observer of a partition of __consumer_offsets."""
        found = self._observers.get((GROUP_EVENTS_TOPIC, index))
        if found is None:
            journal = None
            if self._settings.muster_group_events_enable:
                open_log = partial(self._topics.open.open_log, GROUP_EVENTS_TOPIC, index)
                journal = Journal(index, open_log, self._clock, warn_unstable)
            found = GroupObservers(journal, self._on_group_events, self._client_reports, self._on_loaded)
            self._observers[GROUP_EVENTS_TOPIC, index] = found
        observers: GroupObservers = found
        return observers

    def of_transactions(self, index: int) -> Any:
        """The `history.transaction_journal.TransactionObservers` of a partition of __transaction_state."""
        found = self._observers.get((TRANSACTION_EVENTS_TOPIC, index))
        if found is None:
            # imported here: most servers have no transactions
            from muster.coordinator.history.transaction_journal import TransactionJournal, TransactionObservers
            from muster.coordinator.runtime.transaction_coordinator.log_lines import log_events

            journal = None
            if self._settings.muster_transaction_events_enable:
                open_log = partial(self._topics.open.open_log, TRANSACTION_EVENTS_TOPIC, index)
                journal = TransactionJournal(index, open_log, self._clock)
            found = TransactionObservers(journal, log_events)
            self._observers[TRANSACTION_EVENTS_TOPIC, index] = found
        return found

    def renew(self, topic: str, index: int) -> None:
        """Begin again: the log of this history partition was opened again, or has another leader."""
        found = self._observers.get((topic, index))
        if found is not None and found.journal is not None:
            found.journal.writer.renew()

    def hand_over(self, topic: str, index: int) -> Sequence[Row]:
        """Hand over a history partition that another process leads now. Returns the rows that are not written yet."""
        found = self._observers.get((topic, index))
        return () if found is None or found.journal is None else found.journal.hand_over()

    def take_over(self, topic: str, index: int, rows: Sequence[Row]) -> None:
        """Write the rows that the previous leader has handed over."""
        found = self.of_groups(index) if topic == GROUP_EVENTS_TOPIC else self.of_transactions(index)
        if found.journal is not None:
            found.journal.writer.write(rows, self._clock.now())

    def close(self) -> None:
        """Write the waiting rows. Nothing is reported afterwards."""
        for observers in self._observers.values():
            observers.close()
