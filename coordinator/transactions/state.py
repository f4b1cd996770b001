"""The state of one transaction core, and the one way in which records change it, live and in replay.

This module decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from muster.coordinator.state_machine.deadlines import Deadlines, Due
from muster.coordinator.state_machine.interface import Decoded, Respond
from muster.coordinator.transactions.settings import TransactionSettings
from muster.coordinator.transactions.states import IN_RECORDS, ONGOING
from muster.coordinator.transactions.transaction import NO_PRODUCER_EPOCH, Partitions, Transaction
from muster.protocol.message import Message
from muster.protocol.messages.transaction_records.transaction_log import TransactionLogKey, TransactionLogValue

TIMEOUTS: Final = "timeouts"
"""Kind of the deadline of a check for transactions that are open for too long."""


class Ending(NamedTuple):
    """The cause of an end whose markers are being written, and since when (wall ms). It is not in the log."""

    cause: str
    since_ms: int


class Timeouts(Due):
    """The deadline of the next check for timeouts, and the progress of the present one (`timeouts.on_deadline`)."""

    __slots__ = ("first_ms", "left", "next_producer_id")

    kind = TIMEOUTS

    def __init__(self, next_producer_id: Callable[[], int]) -> None:
        """`next_producer_id`: returns a fresh producer id, or -1, for a producer whose epochs are all used."""
        super().__init__("")
        self.next_producer_id = next_producer_id
        self.first_ms = 0
        """Monotonic time of the first check. The others are whole intervals later."""
        self.left: Iterator[str] | None = None


class State:
    """The transactional ids of one partition of the topic of transactions."""

    __slots__ = (
        "_timeouts_ms",
        "deadlines",
        "endings",
        "ongoing",
        "send_markers",
        "settings",
        "timeouts",
        "transactions",
    )

    def __init__(
        self,
        settings: TransactionSettings,
        send_markers: Callable[[str], Respond],
        timeouts: Timeouts,
    ) -> None:
        """`timeouts`: the deadline of the check for timeouts."""
        self.settings = settings
        self.timeouts = timeouts
        self.send_markers = send_markers
        """Returns, for a transactional id, the function that takes its WriteTxnMarkersRequest."""
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
        """Replay one record. Returns its `Transaction`, or None when the id was removed.

        A record of an unknown type or state (a later Kafka's) changes nothing. `last_producer_epoch`: see
        `Transaction`; records do not have it. `partitions`: the decoded rows of the value, if the caller has just made
        the value of them.
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
        """`evolve` for all records of a log. Returns their number."""
        evolve = self.evolve
        count = 0
        for key, value in records:
            evolve(key, value)
            count += 1
        return count
