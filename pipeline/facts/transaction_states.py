"""The transactions of one transactional id, from its records in `__transaction_state` alone: Muster's or Kafka's.

A transaction is known by the time it began: each of its records has it. A log may be compacted: then older transactions
are gone, and of the last one there may only be its end. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from muster.coordinator.transactions.events import BY_CLIENT, NEW_PRODUCER, TIMED_OUT
from muster.pipeline.facts.schema import LOG
from muster.protocol.messages.transaction_records.transaction_log import TransactionLogValue

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(6)
COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
OUTCOMES: Final = {
    PREPARE_COMMIT: COMMITTED, COMPLETE_COMMIT: COMMITTED, PREPARE_ABORT: ABORTED, COMPLETE_ABORT: ABORTED,
}  # fmt: skip
TAKEOVER_MS: Final = 2_000
"""So soon after its abort the producer that took the id over has its own epoch: it asks again each 100 ms."""

SURE: Final = 1.0
_EPOCH_OF_EVERY_END: Final = 2
"""The transaction version from which on each end raises the epoch, not only that by the server (KIP-890)."""

Row = dict[str, Any]
"""A row of the table, without the columns about offsets."""


class Logged(NamedTuple):
    """A record: when it was logged, and its value (None: the id is gone)."""

    at_ms: int
    value: TransactionLogValue | None


def transactions_of_states(transactional_id: str, records: Iterable[Logged]) -> list[Row]:
    """Rows in the order in which they began; `records` are in the order of the log."""
    story = _Story(transactional_id)
    for record in records:
        story.take(record)
    return story.done()


class _Open:
    """One transaction as far as it was read."""

    def __init__(self, value: TransactionLogValue) -> None:
        self.began: TransactionLogValue | None = None
        """Its first record as Ongoing; None: compacted away."""
        self.last = value
        self.topics: dict[str, set[int]] = {}
        self.ending_ms: int | None = None
        self.end_ms: int | None = None
        self.ended_by: TransactionLogValue | None = None
        """The record of the decision."""
        self.next_empty: Logged | None = None
        """The record of the producer that was initialized next."""


class _Story:
    def __init__(self, transactional_id: str) -> None:
        self._id = transactional_id
        self._by_start: dict[int, _Open] = {}
        self._last: _Open | None = None

    def take(self, record: Logged) -> None:
        value = record.value
        if value is None:
            self._last = None
        elif value.transaction_start_timestamp_ms <= 0 or value.transaction_status == EMPTY:
            if self._last is not None and self._last.next_empty is None:
                self._last.next_empty = record
        else:
            self._go_on(record.at_ms, value)

    def _go_on(self, at_ms: int, value: TransactionLogValue) -> None:
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
            "source": LOG,
            "confidence": confidence,
        }


def _producer(one: _Open) -> tuple[int, int]:
    """Who wrote the records of the transaction: its end may have raised the epoch already."""
    if one.began is not None:
        return one.began.producer_id, one.began.producer_epoch
    value = one.last
    raised = value.client_transaction_version >= _EPOCH_OF_EVERY_END and value.producer_epoch > 0
    return value.producer_id, value.producer_epoch - raised


def _cause(start_ms: int, one: _Open, outcome: str | None) -> tuple[str | None, float | None]:
    """Who ended it, and how sure that is."""
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
    """When another producer took the id over, whose last transaction this was."""
    if cause == NEW_PRODUCER:
        return one.ending_ms
    return None if one.next_empty is None else one.next_empty.at_ms
