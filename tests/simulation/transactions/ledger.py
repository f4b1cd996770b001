"""What producers tried, what was acknowledged, and what partitions may show of it: the judge outside the server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from muster.simulation.producer import TransactionalProducer


class Transaction:
    """One transaction as its producer knows it. `values`: by partition, what it wrote, or tried to write. `offset`: of
    its group; 0: none. `asked`: the end that it asked for. `is_answered`: that end was acknowledged. `outcome`: the
    outcome that partitions have shown. `is_excused`: a power cut may have taken a part of it.
    """

    __slots__ = (
        "asked", "epoch", "group_id", "is_answered", "is_excused", "name", "offset", "outcome", "producer_id",
        "values", "version",
    )  # fmt: skip

    def __init__(self, name: str, producer: TransactionalProducer) -> None:
        self.name = name
        self.producer_id, self.epoch, self.version = producer.producer_id, producer.epoch, producer.version
        self.group_id = producer.group_id
        self.values: dict[int, list[bytes]] = {}
        self.offset = 0
        self.asked: bool | None = None
        self.is_answered = self.is_excused = False
        self.outcome: bool | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing was tried in it."""
        return not self.values and not self.offset

    @property
    def must_be(self) -> bool | None:
        """The certain outcome of a transaction: committed once the commit was acknowledged, aborted if no commit was
        requested.
        """
        if self.asked and not self.is_answered:
            return self.outcome
        return bool(self.asked)


class Entry(NamedTuple):
    """A batch of a partition: records of a transaction, or (without values) the marker that ends it."""

    offset: int
    producer_id: int
    epoch: int
    values: Sequence[bytes] | None
    is_commit: bool = False
    coordinator_epoch: int = -1
    next_offset: int = -1
    """The offset after its last record."""


class Run:
    """Records of one producer in a partition that no marker has ended yet."""

    __slots__ = ("epoch", "offset", "transaction", "values")

    def __init__(self, transaction: Transaction, offset: int, epoch: int) -> None:
        self.transaction = transaction
        self.offset = offset
        self.epoch = epoch
        self.values: list[bytes] = []


class Reading(NamedTuple):
    """What a partition's log says."""

    committed: dict[bytes, int]
    """The offset of each committed value."""
    open: dict[int, Run]
    """Open runs, by producer id."""


class TransactionLedger:
    """The ledger of this module. `fault`: called with a sentence for each violation."""

    def __init__(self, fault: Callable[[str], object]) -> None:
        self.transactions: dict[str, Transaction] = {}
        self.fault = fault
        self.owners: dict[tuple[int, int], TransactionalProducer] = {}
        self.acknowledged = 0
        self._holders: dict[str, tuple[TransactionalProducer, int]] = {}
        """By transactional id: the producer that was last answered that it has the id, and when."""
        self._of_value: dict[bytes, Transaction] = {}
        self._offsets: dict[str, int] = {}
        self._of_offset: dict[tuple[str, int], Transaction] = {}
        self._shown: dict[str, int] = {}

    # ---- `simulation.producer.Book`

    def owns(self, producer: TransactionalProducer) -> None:
        """No epoch of a producer id has two owners."""
        pair = producer.producer_id, producer.epoch
        owner = self.owners.setdefault(pair, producer)
        if owner is not producer:
            self.fault(f"{producer.name} was told {pair}, which {owner.name} has")
        holder = self._holders.get(producer.transactional_id)
        if holder is None or (holder[0].producer_id, holder[0].epoch) <= pair:
            self._holders[producer.transactional_id] = producer, producer.world.ms

    def succeeded(self, producer: TransactionalProducer) -> None:
        """A producer succeeds no more after another producer has taken its id over."""
        holder, since_ms = self._holders[producer.transactional_id]
        if holder is not producer and producer.asked_ms > since_ms:
            self.fault(f"{producer.name} succeeds though {holder.name} has {producer.transactional_id}")

    def begins(self, producer: TransactionalProducer) -> Transaction:
        """A producer begins another transaction."""
        name = f"{producer.transactional_id}/{len(self.transactions)}"
        transaction = self.transactions[name] = Transaction(name, producer)
        return transaction

    def writes(self, transaction: Transaction, partition: int, count: int) -> Sequence[bytes]:
        """Make values that no other transaction writes."""
        values = transaction.values.setdefault(partition, [])
        new = [b"%s %d %d" % (transaction.name.encode(), partition, len(values) + at) for at in range(count)]
        values += new
        self._of_value.update(dict.fromkeys(new, transaction))
        return new

    def commits_offset(self, transaction: Transaction) -> int:
        """Make an offset; they grow in each group."""
        number = self._offsets[transaction.group_id] = self._offsets.get(transaction.group_id, 0) + 1
        transaction.offset = number
        self._of_offset[transaction.group_id, number] = transaction
        return number

    def ends(self, transaction: Transaction, *, is_committed: bool) -> None:
        """From now on this may be its outcome."""
        transaction.asked = is_committed

    def ended(self, transaction: Transaction, *, is_committed: bool) -> None:
        """From now on this is its outcome."""
        assert transaction.asked == is_committed
        transaction.is_answered = True
        self.acknowledged += 1
        self._settles(transaction, is_committed, "its producer was told")

    # ---- judging

    def of(self, value: bytes) -> Transaction:
        """The transaction that wrote a value."""
        return self._of_value[value]

    def _settles(self, transaction: Transaction, is_committed: bool, where: str) -> None:
        """Check that a transaction has one outcome, which its producer asked for, unless it was aborted."""
        word = "committed" if is_committed else "aborted"
        if transaction.outcome not in (None, is_committed):
            self.fault(f"{transaction.name} is {word}, {where}; it had the other outcome before")
        elif is_committed and not transaction.asked:
            self.fault(f"{transaction.name} is committed, {where}; nobody asked for that")
        transaction.outcome = is_committed

    def read(self, partition: int, entries: Iterable[Entry]) -> Reading:
        """Read a whole partition, as it is stored: each transaction's records lie together until one marker ends
        them.
        """
        committed: dict[bytes, int] = {}
        runs: dict[int, Run] = {}
        ended: set[str] = set()
        seen: set[bytes] = set()
        epochs: dict[int, tuple[int, int]] = {}
        """By producer id: the newest epoch, and the newest coordinator epoch."""
        for entry in entries:
            where = f"partition {partition}, offset {entry.offset}"
            epoch, coordinator_epoch = epochs.get(entry.producer_id, (-1, -1))
            if entry.epoch < epoch:
                self.fault(f"{where}: epoch {entry.epoch} of producer {entry.producer_id} after {epoch}")
            if entry.values is None:
                if entry.coordinator_epoch < coordinator_epoch:
                    self.fault(f"{where}: a marker of coordinator epoch {entry.coordinator_epoch}")
                epochs[entry.producer_id] = entry.epoch, entry.coordinator_epoch
                run = runs.pop(entry.producer_id, None)
                if run is not None:
                    self._marked(where, entry, run)
                    ended.add(run.transaction.name)
                    if entry.is_commit:
                        committed.update(dict.fromkeys(run.values, entry.offset))
                continue
            epochs[entry.producer_id] = entry.epoch, coordinator_epoch
            transaction = self.of(entry.values[0])
            run = runs.setdefault(entry.producer_id, Run(transaction, entry.offset, entry.epoch))
            if run.transaction is not transaction:
                self.fault(f"{where}: records of {transaction.name} while {run.transaction.name} has no marker")
            if transaction.name in ended:
                self.fault(f"{where}: records of {transaction.name} behind its marker")
            if (transaction.producer_id, transaction.epoch) != (entry.producer_id, entry.epoch):
                self.fault(f"{where}: records of {transaction.name} under another epoch")
            for value in entry.values:
                if value in seen:
                    self.fault(f"{where}: {value!r} is there twice")
                seen.add(value)
                run.values.append(value)
        return Reading(committed, runs)

    def _marked(self, where: str, marker: Entry, run: Run) -> None:
        transaction = run.transaction
        if transaction.version == 2 and marker.epoch <= run.epoch:
            self.fault(f"{where}: a marker of epoch {marker.epoch} ends records of that epoch")
        self._settles(transaction, marker.is_commit, f"a marker at {where} says")

    def shown(self, partition: int, values: Iterable[bytes]) -> None:
        """A read_committed reader got these values: none of an open or aborted transaction may be among them."""
        for value in values:
            self._settles(self.of(value), True, f"a reader of partition {partition} was shown")

    def keeps(self, transaction: Transaction, readings: Mapping[int, Reading]) -> None:
        """The end of a transaction was answered before these were read: if it is committed, its records are there, or
        will be.
        """
        if not transaction.asked or transaction.is_excused:
            return
        for partition, values in transaction.values.items():
            reading = readings[partition]
            waiting = {value for run in reading.open.values() for value in run.values}
            lost = [value for value in values if value not in reading.committed and value not in waiting]
            if lost:
                self.fault(f"{transaction.name} was committed, and {lost[:5]} are not there")

    def offset_shown(self, group_id: str, number: int) -> None:
        """A group has this offset: it must be of a committed transaction, not older than the last one shown."""
        transaction = self._of_offset.get((group_id, number))
        if number and transaction is None:
            self.fault(f"{group_id} has offset {number}, which nobody committed")
        elif transaction is not None:
            self._settles(transaction, True, f"{group_id} has its offset")
        if number < self._shown.get(group_id, 0):
            self.fault(f"{group_id} has offset {number}, and had {self._shown[group_id]}")
        self._shown[group_id] = number

    def settled(self, readings: Mapping[int, Reading], offsets: Mapping[str, int]) -> None:
        """All is at rest: no transaction is open, and committed records and offsets are complete."""
        for partition, reading in readings.items():
            for run in reading.open.values():
                self.fault(f"partition {partition}: {run.transaction.name} has no marker (offset {run.offset})")
        newest: dict[str, int] = dict.fromkeys(self._offsets, 0)
        for transaction in self.transactions.values():
            there = [value in readings[at].committed for at, values in transaction.values.items() for value in values]
            if transaction.must_be is None:  # it was requested, without an answer, and no record shows its outcome
                shown = offsets.get(transaction.group_id, 0)
                if transaction.offset and shown == transaction.offset:
                    transaction.outcome = True
            is_committed = bool(transaction.must_be)
            if any(there) and not is_committed:
                self.fault(f"{transaction.name} is aborted, and records of it are there")
            if is_committed and not all(there) and not transaction.is_excused:
                self.fault(f"{transaction.name} is committed, and {there.count(False)} of its records are not there")
            if is_committed and transaction.offset:
                newest[transaction.group_id] = max(newest[transaction.group_id], transaction.offset)
        for group_id, number in newest.items():
            if offsets.get(group_id, 0) != number:
                self.fault(f"{group_id} has offset {offsets.get(group_id, 0)}; the last one committed is {number}")


def only_committed(entries: Iterable[Entry], aborted: Iterable[tuple[int, int]]) -> Iterator[bytes]:
    """The values that a read_committed consumer takes from a Fetch answer: `aborted` has producer id and first offset
    of each.
    """
    waiting = sorted(aborted, key=lambda one: one[1])
    dropped: set[int] = set()
    for entry in entries:
        while waiting and waiting[0][1] <= entry.offset:
            dropped.add(waiting.pop(0)[0])
        if entry.values is None:
            if not entry.is_commit:
                dropped.discard(entry.producer_id)
        elif entry.producer_id not in dropped:
            yield from entry.values
