"""Checks each record of the log and each requested marker: may it follow the one before?

The table of allowed successors comes from Kafka's TransactionState.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from muster.coordinator.state_machine.interface import Record
from muster.coordinator.transactions.commands import MarkersWritten, TransactionCommand
from muster.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from muster.protocol.messages.end_txn import EndTxnRequest
from muster.protocol.messages.write_txn_markers import WritableTxnMarker

if TYPE_CHECKING:
    from tests.simulation.transactions.world import World

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(6)
AT_REST: Final = (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)
GONE: Final = None
FOLLOWS: Final[Mapping[int, tuple[int | None, ...]]] = {
    EMPTY: (GONE, *AT_REST),
    ONGOING: (ONGOING, *AT_REST),
    PREPARE_COMMIT: (ONGOING,),
    PREPARE_ABORT: (ONGOING, *AT_REST),  # an abort without a transaction, by clients of version 2
    COMPLETE_COMMIT: (PREPARE_COMMIT,),
    COMPLETE_ABORT: (PREPARE_ABORT,),
}
"""By the state of a record: the states that it may follow."""
ENDS: Final = {True: (PREPARE_COMMIT, COMPLETE_COMMIT), False: (PREPARE_ABORT, COMPLETE_ABORT)}
Seen = tuple[str, int, int, int]
"""The values of a record: id, producer id, epoch and state."""


class Watch:
    """See the module."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.values: dict[str, Any] = {}
        """The last record of each id."""
        self._cause: TransactionCommand | MarkersWritten | None = None
        self._log: list[Seen] = []
        self._seen: Counter[Seen] = Counter()

    def decided(self, records: Sequence[Record], cause: TransactionCommand | MarkersWritten | None) -> None:
        """A command, or (None) time, makes these records: none may be of a fenced producer."""
        self._cause = cause
        request: Any = getattr(cause, "request", None)
        if isinstance(request, EndTxnRequest):
            present = self.values[request.transactional_id]
            if (request.producer_id, request.producer_epoch) != (present.producer_id, present.producer_epoch):
                self._world.fault(f"{request.transactional_id}: a fenced producer ends a transaction")
        elif isinstance(request, AddPartitionsToTxnRequest):
            for row in request.transactions:
                present = self.values[row.transactional_id]
                if row.verify_only:
                    self._world.fault("a question makes a record")
                if (row.producer_id, row.producer_epoch) != (present.producer_id, present.producer_epoch):
                    self._world.fault(f"{row.transactional_id}: a fenced producer adds partitions")

    def record(self, record: Record) -> None:
        """One record is appended."""
        key, value, world = record.key, record.value, self._world
        assert hasattr(key, "transactional_id")
        name: str = key.transactional_id
        old, new = self.values.get(name), _Value.of(value)
        if new is None:
            if old is None or old.state not in AT_REST:
                world.fault(f"{name} is removed in state {old}")
            self.values.pop(name, None)
            self._log.append((name, -1, -1, -1))
            world.happened.add("expired")
            return
        self.values[name] = new
        self._log.append((name, new.producer_id, new.producer_epoch, new.state))
        self._seen[self._log[-1]] += 1
        if (None if old is None else old.state) not in FOLLOWS[new.state]:
            world.fault(f"{name}: {new} follows {old}")
        world.happened.add(f"state {new.state}")
        if old is None:
            return
        if new.producer_id == old.producer_id and new.producer_epoch < old.producer_epoch:
            world.fault(f"{name}: {new} follows {old}: a lesser epoch")
        if new.producer_id != old.producer_id:
            world.happened.add("another producer id")
            if new.state not in AT_REST or new.producer_epoch:
                world.fault(f"{name}: {new} follows {old}: another producer id in the middle")
        if new.state == ONGOING and old.state == ONGOING and (old.start_ms != new.start_ms or old.topics - new.topics):
            world.fault(f"{name}: {new} follows {old}: not the same transaction")
        if new.state in (PREPARE_COMMIT, PREPARE_ABORT):
            self._prepared(name, old, new)
        if new.state in (COMPLETE_COMMIT, COMPLETE_ABORT):
            self._completed(name, old)

    def _prepared(self, name: str, old: _Value, new: _Value) -> None:
        world = self._world
        if new.topics != (old.topics if old.state == ONGOING else frozenset()):
            world.fault(f"{name}: {new} follows {old}: other partitions")
        if self._cause is None:
            world.happened.add("timed out")
            if world.wall_ms - old.start_ms < old.timeout_ms or new.state != PREPARE_ABORT:
                world.fault(f"{name}: ended before its timeout: {old}")
        elif isinstance(self._cause, TransactionCommand):
            request: Any = self._cause.request
            if isinstance(request, EndTxnRequest):
                if request.committed != (new.state == PREPARE_COMMIT):
                    world.fault(f"{name}: {new} for {request}")
            else:
                world.happened.add("taken over")

    def _completed(self, name: str, prepared: _Value) -> None:
        """Check that each partition has its marker."""
        is_commit = prepared.state == PREPARE_COMMIT
        for pair in prepared.topics:
            if not any(
                entry.values is None
                and (entry.producer_id, entry.epoch) == (prepared.producer_id, prepared.producer_epoch)
                and entry.is_commit == is_commit
                for entry in reversed(self._world.partitions[pair].entries)
            ):
                self._world.fault(f"{name} is complete, and {pair} has no marker")

    def asked_for_markers(self, name: str, marker: WritableTxnMarker) -> None:
        """Check that the requested markers are those of a durable record."""
        value = self.values.get(name)
        topics = frozenset((row.name, number) for row in marker.topics for number in row.partition_indexes)
        state = PREPARE_COMMIT if marker.transaction_result else PREPARE_ABORT
        asked = state, marker.producer_id, marker.producer_epoch, topics
        if value is None or asked != (value.state, value.producer_id, value.producer_epoch, value.topics):
            self._world.fault(f"markers of {name} are asked for: {asked}; the log says {value}")

    def ended(self, request: EndTxnRequest) -> None:
        """A producer was answered that its transaction ended as it wanted: the log must say so."""
        name, producer_id, epoch = request.transactional_id, request.producer_id, request.producer_epoch
        ends = [(name, producer_id, epoch + more, state) for more in (0, 1) for state in ENDS[request.committed]]
        if not any(self._seen[one] for one in ends):
            self._world.fault(f"{request} was acknowledged, and the log does not say so")

    def lost(self, count: int) -> None:
        """The last `count` records were not durable when the server crashed: forget them."""
        for _ in range(count):
            self._seen[self._log.pop()] -= 1

    def reloaded(self, records: Iterable[Record]) -> None:
        """Begin with a new core of these records."""
        self.values = {}
        for record in records:
            key: Any = record.key
            self.values[key.transactional_id] = _Value.of(record.value)
        self.values = {name: value for name, value in self.values.items() if value is not None}

    def open(self) -> list[str]:
        """The ids with a transaction that has not ended."""
        return [name for name, value in self.values.items() if value.state not in AT_REST]


class _Value:
    """The content of a record."""

    def __init__(self, value: Any) -> None:
        self.state: int = value.transaction_status
        self.producer_id: int = value.producer_id
        self.producer_epoch: int = value.producer_epoch
        self.start_ms: int = value.transaction_start_timestamp_ms
        self.timeout_ms: int = value.transaction_timeout_ms
        self.topics = frozenset(
            (row.topic, number) for row in value.transaction_partitions or () for number in row.partition_ids
        )

    @staticmethod
    def of(value: Any) -> _Value | None:
        """The content of a record; None for a tombstone."""
        return None if value is None else _Value(value)

    def __repr__(self) -> str:
        return f"state {self.state}, producer {self.producer_id}, epoch {self.producer_epoch}, {sorted(self.topics)}"
