"""The writer of one partition of `__transaction_events`, for the events of one shard's transactional ids.

A busy id has several events in each transaction. So events are appended together, at most `LATEST_MS` after they
happened. A killed process loses the events of this time; the state of each id is in `__transaction_state`. If the log
fails, events are lost, and transactions continue. `docs/events.md` describes the values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from json.encoder import encode_basestring as quote
from typing import Any, Final

import structlog

from muster.coordinator.history.counts import SECOND_MS, RefusalCounts, key_of
from muster.coordinator.history.event_writer import EventLog, EventWriter, Row, record_key
from muster.coordinator.state_machine.interface import Now
from muster.coordinator.system.clock import Clock
from muster.coordinator.topics.names import TRANSACTION_EVENTS_TOPIC
from muster.coordinator.transactions import events
from muster.coordinator.transactions.events import Event
from muster.coordinator.transactions.transaction import SharedPartitions
from muster.protocol.errors import error_name

log = structlog.get_logger("muster.events")

VERSION: Final = 1
"""The version of the schema, which grows only if old readers would misread a value."""

MAX_PARTITIONS: Final = 2_000
"""An event with at most this many partitions names them. Larger events have only the number."""

_RENAMED: Final = {"start_ms": "began", "version": "transaction_version"}
"""Facts of the core that the schema names differently. Times (ms since 1970) have no `_ms`; durations have it."""

_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


_NUMBERS: Final = frozenset((
    "start_ms", "timeout_ms", "open_ms", "took_ms", "idle_ms", "partitions", "version",
    "next_producer_id", "next_producer_epoch", "fenced_producer_id", "fenced_producer_epoch",
))  # fmt: skip
"""The facts that are always numbers."""


def transaction_json(event: Event, wall_ms: int) -> bytes:
    """The record value of an event. A general encoder takes twice the time, and each transaction has five events."""
    kind, name, producer_id, producer_epoch, facts = event
    form, others = _form(kind, *facts)
    values: list[Any] = [*facts.values()]
    for at, make in others:
        values[at] = make(values[at])
    text: str = form % (quote(name), wall_ms, producer_id, producer_epoch, *values)
    return text.encode("utf-8", "surrogatepass")


@lru_cache(maxsize=100)
def _form(kind: str, *facts: str) -> tuple[str, list[tuple[int, Callable[[Any], str]]]]:
    """The constant text of an event with these facts, with a %s for each value. And the places of the values that are
    no numbers, each with the function that makes its text.
    """
    names = "".join(f',"{_RENAMED.get(fact, fact)}":%s' for fact in facts)
    topics = _topics if "partitions" in facts else _counted_topics
    return (
        f'{{"v":{VERSION},"kind":"{kind}","transactional_id":%s,"time":%s,"producer_id":%s,"producer_epoch":%s{names}}}',
        [(at, topics if fact == "topics" else _text) for at, fact in enumerate(facts) if fact not in _NUMBERS],
    )


def _text(value: Any) -> str:
    return quote(value) if type(value) is str else str(value) if type(value) is int else _json(value)


def _topics(partitions: Any) -> str:
    """Partitions by topic, if they are not too many."""
    is_shared = type(partitions) is SharedPartitions
    if is_shared and partitions.text is not None:
        text: str = partitions.text
        return text
    text = "null"
    if sum(map(len, partitions.values())) <= MAX_PARTITIONS:
        rows = ",".join([f"{quote(topic)}:[{','.join(map(str, ids))}]" for topic, ids in partitions.items()])
        text = f"{{{rows}}}"
    if is_shared:
        partitions.text = text
    return text


def _counted_topics(partitions: Any) -> str:
    """`_topics`, and the number of partitions, which no other fact of the event has."""
    return f'{_topics(partitions)},"partitions":{sum(map(len, partitions.values()))}'


def partitions_of(event: Event) -> int:
    """How many partitions the event would name."""
    topics: Any = event.facts.get("topics")
    return sum(map(len, topics.values())) if topics else 0


def plain_transaction_json(kind: str, transactional_id: str | None, wall_ms: int, facts: Mapping[str, Any]) -> bytes:
    """The record value of an event that the core does not report. `facts` are JSON values."""
    head = {"v": VERSION, "kind": kind, "transactional_id": transactional_id, "time": wall_ms}
    return _json(head | dict(facts)).encode("utf-8", "surrogatepass")


COUNTED: Final = frozenset((events.FENCED, events.REQUEST_REFUSED))
"""Kinds of events that clients can cause without limit, so the journal counts them."""


LATEST_MS: Final = 1_000
MAX_WAITING: Final = 500
"""Waiting events are appended at once when the events and their partitions together reach this number."""
SHARD_LOADED: Final = "shard_loaded"
"""partition, transactional_ids, records, took_ms. The event belongs to no id."""
REQUESTS_REFUSED: Final = "requests_refused"
"""producer_id, producer_epoch, api, error, error_code, client_id, host, count (in one second)."""
PRODUCER_FENCED: Final = "producer_fenced"
"""The facts of REQUESTS_REFUSED, with current_producer_id and current_producer_epoch: of the id's present producer."""
_FACTS: Final = (
    "kind", "producer_id", "producer_epoch", "api", "error_code", "client_id", "host", "current_producer_id",
    "current_producer_epoch", "count",
)  # fmt: skip


class TransactionJournal:
    """The writer of the events of one shard's transactional ids."""

    def __init__(self, partition: int, open_log: Callable[[], tuple[EventLog, int]], clock: Clock) -> None:
        """`open_log`: see `EventWriter`."""
        self.partition = partition
        self._clock = clock
        self.writer = EventWriter(partition, open_log, clock, TRANSACTION_EVENTS_TOPIC)
        self._waiting: list[Row] = []
        self._size = 0
        """The number of waiting events, plus the number of partitions that they name."""
        self._refused = RefusalCounts(_FACTS)

    def report(self, happened: Sequence[Event], now: Now) -> None:
        """Take events that have just happened."""
        for event in happened:
            if event.kind in COUNTED:
                self._count(event, now)
                continue
            if not self._waiting:
                self._clock.machine.call_at(self._clock.machine.mono_ms() + LATEST_MS, self.write)
            self._waiting.append((record_key(event.transactional_id), transaction_json(event, now.wall_ms)))
            self._size += 1
            if "topics" in event.facts:
                self._size += min(partitions_of(event), MAX_PARTITIONS)
            if self._size >= MAX_WAITING:
                self.write()

    def write(self) -> None:
        """Write the waiting events."""
        waiting, self._waiting, self._size = self._waiting, [], 0
        if waiting:
            self.writer.write(waiting, self._clock.now())

    def loaded(self, now: Now, *, transactional_ids: int, records: int, took_ms: int) -> None:
        """Write that the shard has loaded its state from the log."""
        facts = {
            "partition": self.partition, "transactional_ids": transactional_ids, "records": records, "took_ms": took_ms,
        }  # fmt: skip
        self.writer.append([(None, plain_transaction_json(SHARD_LOADED, None, now.wall_ms, facts))], now)

    def hand_over(self) -> list[Row]:
        """Note that another process now leads the partition, and return the rows that this process must write."""
        return self.writer.hand_over(self.close)

    def close(self) -> None:
        """Write the remaining events and the counted refusals."""
        self.write()
        self._write_refused()

    def _count(self, event: Event, now: Now) -> None:
        if self._refused.began_ms is None:
            self._clock.machine.call_at(self._clock.machine.mono_ms() + SECOND_MS, self._write_refused)
        facts = event.facts
        kind = PRODUCER_FENCED if event.kind == events.FENCED else REQUESTS_REFUSED
        counted = (kind, event.producer_id, event.producer_epoch, facts["api"], facts["error"], facts["client_id"],
                facts["host"], facts.get("current_producer_id"), facts.get("current_producer_epoch"))  # fmt: skip
        self._refused.count(event.transactional_id, counted, now.wall_ms)  # type: ignore[arg-type]  # facts are objects

    def _write_refused(self) -> None:
        if self._refused.began_ms is None:  # the journal was closed before
            return
        rows: list[Row] = []
        for name, first_ms, facts in self._refused.take():
            kind, code = facts.pop("kind") or REQUESTS_REFUSED, facts["error_code"]
            facts["error"] = None if code is None else error_name(code)
            if kind != PRODUCER_FENCED:
                del facts["current_producer_id"], facts["current_producer_epoch"]
            rows.append((key_of(name), plain_transaction_json(kind, name, first_ms, facts)))
        self.writer.append(rows, self._clock.now())


class TransactionObservers:
    """The `Observer` of a transaction shard, which writes events to the server's log, and to a journal (or None)."""

    def __init__(self, journal: TransactionJournal | None, log_events: Callable[[Sequence[Event]], object]) -> None:
        self.journal = journal
        self._log_events = log_events

    def report(self, happened: Sequence[Event], now: Now) -> None:
        """Report events that have just happened, in their order."""
        if self.journal is not None:
            self.journal.report(happened, now)
        self._log_events(happened)

    def flush(self) -> None:
        """Do nothing, since no answer waits for events of transactions."""

    def loaded(self, now: Now, *, transactional_ids: int, records: int, took_ms: int) -> None:
        """Report to the journal only, because the server's log has one line for all shards."""
        if self.journal is not None:
            self.journal.loaded(now, transactional_ids=transactional_ids, records=records, took_ms=took_ms)

    def close(self) -> None:
        """Close the journal: no more events will follow."""
        if self.journal is not None:
            self.journal.close()
