"""The transactions of one transactional id, from its records in `__transaction_state` and from `__transaction_events`.

Each record of a transaction has the time at which the transaction began. That time identifies the transaction. The
state topic may be compacted. Then the older transactions are gone, and perhaps only the end of the last one is left.
The records of both Muster and Kafka can be read. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from muster.coordinator.transactions import events as kinds
from muster.coordinator.transactions.events import BY_CLIENT, NEW_PRODUCER, TIMED_OUT
from muster.pipeline.schema import SOURCE_EVENTS, SOURCE_LOG
from muster.protocol.messages.transaction_records.transaction_log import TransactionLogValue

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(6)
COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
OUTCOMES: Final = {
    PREPARE_COMMIT: COMMITTED, COMPLETE_COMMIT: COMMITTED, PREPARE_ABORT: ABORTED, COMPLETE_ABORT: ABORTED,
}  # fmt: skip
TAKEOVER_MS: Final = 2_000
"""The next producer has its own epoch within this time after the abort: it repeats its request each 100 ms."""

SURE: Final = 1.0
_EPOCH_OF_EVERY_END: Final = 2
"""From this transaction version on, each end of a transaction raises the epoch.

Before, only an end by the server raised the epoch (KIP-890).
"""

Row = dict[str, Any]
"""A row of the table `transactions`, without the columns about offsets."""


class Logged(NamedTuple):
    """A record: when it was logged, and its value (None: the id was deleted)."""

    at_ms: int
    value: TransactionLogValue | None


def transactions_of_states(transactional_id: str, records: Iterable[Logged]) -> list[Row]:
    """Rows in the order in which the transactions began. `records` must be in the order of the log."""
    story = _StateReader(transactional_id)
    for record in records:
        story.apply(record)
    return story.done()


class _Open:
    """A transaction whose records are being read."""

    def __init__(self, value: TransactionLogValue) -> None:
        self.began: TransactionLogValue | None = None
        """The first record with the state Ongoing; None: it was compacted away."""
        self.last = value
        self.topics: dict[str, set[int]] = {}
        self.ending_ms: int | None = None
        self.end_ms: int | None = None
        self.ended_by: TransactionLogValue | None = None
        """The record with the decision to commit or to abort."""
        self.next_empty: Logged | None = None
        """The first record of the next producer, which was initialized after this transaction."""


class _StateReader:
    def __init__(self, transactional_id: str) -> None:
        self._id = transactional_id
        self._by_start: dict[int, _Open] = {}
        self._last: _Open | None = None

    def apply(self, record: Logged) -> None:
        value = record.value
        if value is None:
            self._last = None
        elif value.transaction_start_timestamp_ms <= 0 or value.transaction_status == EMPTY:
            if self._last is not None and self._last.next_empty is None:
                self._last.next_empty = record
        else:
            self._apply_status(record.at_ms, value)

    def _apply_status(self, at_ms: int, value: TransactionLogValue) -> None:
        one = self._by_start.get(value.transaction_start_timestamp_ms)
        if one is None:
            one = self._by_start[value.transaction_start_timestamp_ms] = _Open(value)
        self._last = one
        one.last = value
        for topic in value.transaction_partitions or ():
            one.topics.setdefault(topic.topic, set()).update(topic.partition_ids)
        status = value.transaction_status
        if status == ONGOING:
            one.began = one.began or value
        elif status in (PREPARE_COMMIT, PREPARE_ABORT):
            one.ending_ms, one.ended_by = at_ms, value
        elif status in (COMPLETE_COMMIT, COMPLETE_ABORT):
            one.end_ms = at_ms

    def done(self) -> list[Row]:
        return [self._row(start_ms, one) for start_ms, one in sorted(self._by_start.items())]

    def _row(self, start_ms: int, one: _Open) -> Row:
        outcome = OUTCOMES.get(one.last.transaction_status)
        producer_id, epoch = _producer(one)
        cause, confidence = _cause(start_ms, one, outcome)
        fenced = _fenced_ms(one, cause)
        return {
            "transactional_id": self._id,
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "start_ms": start_ms,
            "ending_ms": one.ending_ms,
            "end_ms": one.end_ms,
            "timeout_ms": one.last.transaction_timeout_ms,
            "outcome": outcome,
            "cause": cause,
            "topics": one.topics or None,
            "fenced_ms": fenced,
            "transaction_version": (one.began or one.last).client_transaction_version,
            "source": SOURCE_LOG,
            "confidence": confidence,
        }


def _producer(one: _Open) -> tuple[int, int]:
    """The producer that wrote the records of the transaction. The record of the end may already have a raised epoch."""
    if one.began is not None:
        return one.began.producer_id, one.began.producer_epoch
    value = one.last
    raised = value.client_transaction_version >= _EPOCH_OF_EVERY_END and value.producer_epoch > 0
    return value.producer_id, value.producer_epoch - raised


def _cause(start_ms: int, one: _Open, outcome: str | None) -> tuple[str | None, float | None]:
    """Who ended the transaction, and how sure that is."""
    if outcome is None:
        return None, None
    if outcome == COMMITTED:
        return BY_CLIENT, SURE
    decided = one.ended_by
    if decided is None or one.ending_ms is None or one.began is None:
        return None, None
    is_late = one.ending_ms - start_ms >= one.last.transaction_timeout_ms
    raised = (decided.producer_id, decided.producer_epoch) != (one.began.producer_id, one.began.producer_epoch)
    if one.began.client_transaction_version < _EPOCH_OF_EVERY_END:
        # only the server raises the epoch
        return (BY_CLIENT if not raised else TIMED_OUT if is_late else NEW_PRODUCER), SURE
    if is_late:
        return TIMED_OUT, 0.95
    after = one.next_empty
    if after is not None and after.at_ms - (one.end_ms or one.ending_ms) <= TAKEOVER_MS:
        return NEW_PRODUCER, 0.8
    return BY_CLIENT, 0.9


def _fenced_ms(one: _Open, cause: str | None) -> int | None:
    """When the next producer got the transactional id, if this transaction was the last one of its producer."""
    if cause == NEW_PRODUCER:
        return one.ending_ms
    return None if one.next_empty is None else one.next_empty.at_ms


Value = Mapping[str, Any]

OFFSETS_TOPIC: Final = "__consumer_offsets"
_ENDED: Final = {kinds.COMMITTED: COMMITTED, kinds.ABORTED: ABORTED}


def read_event(data: bytes | None) -> dict[str, Any] | None:
    """Read the JSON of an event; the result is None if the value is no event."""
    try:
        value = json.loads(data or b"")
    except ValueError:
        return None
    return value if isinstance(value, dict) and isinstance(value.get("kind"), str) else None


def transactions_of_events(transactional_id: str, values: Iterable[Value]) -> list[Row]:
    """Rows in the order in which the transactions began. `values` must be in the order of the log.

    Unknown kinds and fields, and fields of another type, are skipped.
    """
    story = _EventReader(transactional_id)
    for value in values:
        story.apply(value)
    return story.done()


class _EventReader:
    def __init__(self, transactional_id: str) -> None:
        self._id = transactional_id
        self._rows: dict[int, Row] = {}

    def apply(self, value: Value) -> None:
        kind = value["kind"]
        if kind in (kinds.INITIALIZED, kinds.FENCED):
            self._fence(kind, value)
            return
        began = _number(value, "began")
        if began is None:
            return
        row = self._rows.get(began)
        if row is None:
            row = self._rows[began] = self._new(began, value)
        if kind == kinds.BEGUN:
            row |= {name: value.get(name) for name in ("timeout_ms", "client_id", "host")}
        elif kind == kinds.PARTITIONS_ADDED:
            _add(row, value.get("topics"))
        elif kind == kinds.ENDING:
            row["ending_ms"] = _number(value, "time")
            row["outcome"] = COMMITTED if value.get("is_committed") else ABORTED
            row["cause"], row["confidence"] = value.get("cause"), SURE
            row["transaction_version"] = _number(value, "transaction_version")
        elif kind in _ENDED:
            row["end_ms"], row["outcome"] = _number(value, "time"), _ENDED[kind]
            row["transaction_version"] = _number(value, "transaction_version")
            if value.get("cause"):
                row["cause"], row["confidence"] = value["cause"], SURE
            _add(row, value.get("topics"))

    def _new(self, began: int, value: Value) -> Row:
        return {
            "transactional_id": self._id,
            "producer_id": _number(value, "producer_id"),
            "producer_epoch": _number(value, "producer_epoch"),
            "start_ms": began,
            "source": SOURCE_EVENTS,
            "fenced_requests": 0,
        }

    def _fence(self, kind: str, value: Value) -> None:
        """Handle an event about the last transaction of a fenced producer."""
        if kind == kinds.INITIALIZED:
            who = _number(value, "fenced_producer_id"), _number(value, "fenced_producer_epoch")
        else:
            who = _number(value, "producer_id"), _number(value, "producer_epoch")
        if who[0] is None or who[0] < 0:
            return
        row = self._last_of(*who)
        if row is None:
            return
        if kind == kinds.FENCED:
            row["fenced_requests"] += _number(value, "count") or 0
        row.setdefault("fenced_ms", _number(value, "time"))

    def _last_of(self, producer_id: int | None, epoch: int | None) -> Row | None:
        """The newest transaction of this producer with this epoch or a lower one."""
        for row in reversed(self._rows.values()):
            if row["producer_id"] == producer_id and (row["producer_epoch"] or 0) <= (epoch or 0):
                return row
        return None

    def done(self) -> list[Row]:
        return [self._rows[began] for began in sorted(self._rows)]


def merged(of_states: Iterable[Row], of_events: Iterable[Row]) -> list[Row]:
    """The transactions of both sources, by the times at which they began.

    The events have more facts. The state topic is used where events are missing.
    """
    found = {row["start_ms"]: dict(row) for row in of_states}
    for row in of_events:
        known = found.setdefault(row["start_ms"], {})
        topics = _union(known.get("topics"), row.get("topics"))
        known |= {name: value for name, value in row.items() if value is not None}
        known["topics"] = topics
    return [found[start_ms] for start_ms in sorted(found)]


def _union(one: Mapping[str, set[int]] | None, other: Mapping[str, set[int]] | None) -> dict[str, set[int]] | None:
    if not one or not other:
        return dict(one or other or {}) or None
    return {topic: set(one.get(topic, ())) | set(other.get(topic, ())) for topic in {*one, *other}}


def _add(row: Row, topics: object) -> None:
    if isinstance(topics, dict):
        mine = row.setdefault("topics", {})
        for topic, partitions in topics.items():
            if isinstance(partitions, list):
                mine.setdefault(topic, set()).update(one for one in partitions if isinstance(one, int))


def _number(value: Value, name: str) -> int | None:
    found = value.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) else None
