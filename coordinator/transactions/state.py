"""The state of one transaction core, and a step: one call of the core. This module decides nothing.

Records change the state in one way, live and in replay (`State.evolve`). A step collects the output of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from muster.coordinator.state_machine.deadlines import Deadlines, Due
from muster.coordinator.state_machine.interface import NO_LIMIT, Command, Decoded, Now, Record, Respond
from muster.coordinator.state_machine.output import Output
from muster.coordinator.transactions import events
from muster.coordinator.transactions.commands import TransactionSettings
from muster.coordinator.transactions.events import Event
from muster.coordinator.transactions.transaction import (
    EMPTY,
    IN_RECORDS,
    NO_PARTITIONS,
    NO_PRODUCER_EPOCH,
    ONGOING,
    STATUS,
    Partitions,
    Transaction,
    after,
    rows_of,
)
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.transaction_records.transaction_log import TransactionLogKey, TransactionLogValue

TIMEOUTS: Final = "timeouts"
"""The kind of the deadline of a check for transactions that are open for too long."""


class Ending(NamedTuple):
    """The cause of a decided end, and the time of the decision (wall ms), which are not in the log."""

    cause: str
    since_ms: int


class Timeouts(Due):
    """The deadline of the next check for timeouts, and the progress of the present check
    (`timeouts.on_timeouts_deadline`).
    """

    __slots__ = ("first_ms", "left", "next_producer_id")

    kind = TIMEOUTS

    def __init__(self, next_producer_id: Callable[[], int]) -> None:
        """`next_producer_id`: returns a fresh producer id or -1, for a producer whose epochs are all used."""
        super().__init__("")
        self.next_producer_id = next_producer_id
        self.first_ms = 0
        """Monotonic time of the first check. Later checks are a whole number of intervals after this time."""
        self.left: Iterator[str] | None = None


class State:
    """The transactional ids of one partition of `__transaction_state`."""

    __slots__ = (
        "_timeouts_ms", "deadlines", "endings", "ongoing", "send_markers", "settings", "timeouts", "transactions",
    )  # fmt: skip

    def __init__(
        self, settings: TransactionSettings, send_markers: Callable[[str], Respond], timeouts: Timeouts
    ) -> None:
        """`timeouts`: the deadline of the check for timeouts."""
        self.settings = settings
        self.timeouts = timeouts
        self.send_markers = send_markers
        """A function of a transactional id: returns the function that takes the id's WriteTxnMarkersRequest."""
        self.transactions: dict[str, Transaction] = {}
        self.ongoing: dict[str, Transaction] = {}
        """The ids whose transaction is open."""
        self.endings: dict[str, Ending] = {}
        self.deadlines = Deadlines()
        self._timeouts_ms: dict[int, int] = {}

    def evolve(
        self,
        key: Message,
        value: Message | None,
        last_producer_epoch: int = NO_PRODUCER_EPOCH,
        partitions: Partitions | None = None,
    ) -> Transaction | None:
        """Replay one record. Returns the id's `Transaction`, or None when the id was removed, or the record is of a
        later Kafka.

        `last_producer_epoch`: see `Transaction`; records do not have it. `partitions`: the decoded partitions of the
        value.
        """
        if type(key) is not TransactionLogKey:
            return None
        transactional_id = key.transactional_id
        if value is None:
            self.transactions.pop(transactional_id, None)
            self.ongoing.pop(transactional_id, None)
            self.endings.pop(transactional_id, None)
            return None
        if type(value) is not TransactionLogValue or not 0 <= value.transaction_status < len(IN_RECORDS):
            return None
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            transaction = self.transactions[transactional_id] = Transaction(transactional_id)
        timeout_ms = value.transaction_timeout_ms
        transaction.take(value, last_producer_epoch, self._timeouts_ms.setdefault(timeout_ms, timeout_ms), partitions)
        if transaction.state == ONGOING:
            self.ongoing[transactional_id] = transaction
        elif transactional_id in self.ongoing:
            del self.ongoing[transactional_id]
        return transaction

    def evolve_all(self, records: Iterable[Decoded]) -> int:
        """`evolve` for all records of a log. Returns the number of records."""
        evolve = self.evolve
        count = 0
        for key, value in records:
            evolve(key, value)
            count += 1
        return count


VALUE_VERSION: Final = 1
"""The version that Kafka 4.4 writes once transaction.version is 1 or 2."""
_FENCED: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
_SAID_ONLY: Final = (ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS)


class Step(Output):
    """The output of one call while it grows, and the call's input: state, time, and the limit for records' bytes."""

    __slots__ = ("max_bytes", "now", "state")

    def __init__(self, state: State, now: Now, max_bytes: int = NO_LIMIT) -> None:
        self.state = state
        self.now = now
        self.max_bytes = max_bytes
        self.replies = []
        self.records = []
        self.events = []

    def reply(self, respond: Respond, response: Message) -> None:
        """Answer a request, or start other work, when the records are durable."""
        self.replies.append((respond, response))

    def change(
        self,
        transaction: Transaction,
        event: str,
        *,
        state: str | None = None,
        producer_id: int | None = None,
        next_producer_id: int | None = None,
        producer_epoch: int | None = None,
        last_producer_epoch: int | None = None,
        timeout_ms: int | None = None,
        partitions: Partitions | None = None,
        start_ms: int | None = None,
        version: int | None = None,
    ) -> None:
        """Let `event` happen to an id: write a record, which changes the state. A parameter of None leaves its field
        unchanged. `state`: the state before the event, if that state exists only within this step.
        """
        one = transaction
        transactional_id = one.transactional_id
        next_state = after(transactional_id, one.state if state is None else state, event)
        if partitions is None:
            partitions = one.partitions
        if next_state == EMPTY:
            partitions = NO_PARTITIONS
        value = TransactionLogValue(
            one.producer_id if producer_id is None else producer_id,
            one.producer_id,
            one.next_producer_id if next_producer_id is None else next_producer_id,
            one.producer_epoch if producer_epoch is None else producer_epoch,
            -1,
            one.timeout_ms if timeout_ms is None else timeout_ms,
            STATUS[next_state],
            None if next_state == EMPTY else rows_of(partitions),
            self.now.wall_ms,
            one.start_ms if start_ms is None else start_ms,
            one.version if version is None else version,
        )
        last = one.last_producer_epoch if last_producer_epoch is None else last_producer_epoch
        key = TransactionLogKey(transactional_id)
        self.records.append(Record(key, value, VALUE_VERSION))
        self.state.evolve(key, value, last, partitions)

    def remove(self, transaction: Transaction, event: str) -> None:
        """Remove an id because of `event`, and write its tombstone."""
        transactional_id = transaction.transactional_id
        after(transactional_id, transaction.state, event)
        key = TransactionLogKey(transactional_id)
        self.records.append(Record(key, None, 0))
        self.state.evolve(key, None)

    def event(self, kind: str, transaction: Transaction, *, producer_epoch: int | None = None, **facts: object) -> None:
        """Report an event for the history (`events`). `producer_epoch`: the epoch, if not the present one."""
        one = transaction
        epoch = one.producer_epoch if producer_epoch is None else producer_epoch
        self.events.append(Event(kind, one.transactional_id, one.producer_id, epoch, facts))

    def refused(
        self, command: Command, transactional_id: str, producer_id: int, producer_epoch: int, error: int
    ) -> None:
        """Report for the history that a request was refused, if `error` means a refusal."""
        if error in _SAID_ONLY:
            return
        present = self.state.transactions.get(transactional_id)
        facts: dict[str, object] = {}
        kind = events.REQUEST_REFUSED
        is_other = error == ErrorCode.INVALID_PRODUCER_ID_MAPPING and present is not None
        if present is not None and (error in _FENCED or is_other):
            kind = events.FENCED
            facts = {"current_producer_id": present.producer_id, "current_producer_epoch": present.producer_epoch}
        self.events.append(
            events.refused(
                kind, command.request, command.client, transactional_id, producer_id, producer_epoch, error, **facts
            )
        )
