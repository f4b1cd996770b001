"""Transactions on a whole node: their producers and readers, their faults, and the judge of the result.

The judge reads partitions as they are stored, with markers, as a read_committed consumer, and as an administrator.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Final

from muster.coordinator.log import batches
from muster.protocol.errors import ErrorCode, error_name
from muster.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from muster.protocol.messages.list_transactions import ListTransactionsRequest
from muster.simulation.actor import Actor, Script
from muster.simulation.consumer import fetch_of, offsets_of
from muster.simulation.producer import LATER, TransactionalProducer
from tests.simulation.transactions.ledger import Entry, Reading, TransactionLedger, only_committed

if TYPE_CHECKING:
    from tests.torture.node.world import World

TOPIC: Final = "txns"
PARTITIONS: Final = 3
TIMEOUTS_MS: Final = (3_000, 30_000)
CHECK_MS: Final = 2_000
CONTROL: Final = 1 << 5
OPEN_STATES: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")
LOOKS: Final = 400
"""How often the judge asks again, every 100 ms, before something counts as lost."""
ENDING_LOOKS: Final = 200
"""How many seconds open transactions may take to end."""
CHUNK_BYTES: Final = 1 << 16


class Transactions:
    """All transactions of one world."""

    def __init__(self, world: World, ids: int) -> None:
        self.world = world
        self.ids = ids
        self.ledger = TransactionLedger(world.fault)
        self.producers: list[TransactionalProducer] = []
        self._readers: list[Reader] = []
        self._named = 0
        self._cuts = 0

    def begin(self) -> None:
        """Start producers, readers and faults."""
        for number in range(self.ids):
            self._spawn(number)
        self._readers = [Reader(self, partition) for partition in range(PARTITIONS if self.ids else 0)]
        for reader in self._readers:
            reader.start()
        if self.ids:
            self._again()

    def calm(self) -> None:
        """No producer begins a transaction any more: open transactions time out."""
        for one in self.producers:
            one.kill()

    def was_cut(self) -> None:
        """A power cut happened: records were only promised to be in the page cache."""
        for transaction in self.ledger.transactions.values():
            transaction.is_excused = True
        for reader in self._readers:
            reader.begins_anew()

    def _spawn(self, number: int) -> None:
        world: Any = self.world
        self._named += 1
        one = TransactionalProducer(
            world, f"transactional-{self._named}", f"id-{number}", self.ledger, version=1 + number % 2,
            timeout_ms=TIMEOUTS_MS[int(world.random() * len(TIMEOUTS_MS))], topic=TOPIC, partitions=PARTITIONS,
            group_id=f"transactional-{number}",
        )  # fmt: skip
        self.producers.append(one)
        one.start()

    def _again(self) -> None:
        self.world.later(1 + int(self.world.random() * 6_000), self._tick)

    def _tick(self, _: None) -> None:
        world = self.world
        if world.calm:
            return
        self.producers = [one for one in self.producers if one.script is not None]
        one = self.producers[int(world.random() * len(self.producers))]
        what = world.random()
        number = int(one.transactional_id.removeprefix("id-"))
        if what < 0.3:
            world.note(f"{one.name} is killed, another one has {one.transactional_id}")
            one.kill()
            self._spawn(number)
        elif what < 0.6 and len(self.producers) < self.ids + 3:
            world.note(f"{one.transactional_id} has another producer beside {one.name}")
            self._spawn(number)
        elif len(self.producers) > self.ids:
            one.kill()
            if not any(other.script is not None and other.transactional_id == one.transactional_id
                       for other in self.producers):  # fmt: skip
                self._spawn(number)
        else:
            one.paused_until_ms = world.ms + int(world.random() * 10_000)
        self._again()


class Asker(Actor):
    """Reads partitions."""

    def fetch(self, partition: int, offset: int, *, read_committed: bool) -> Generator[Any, Any, PartitionData | None]:
        """One answer; None when there was none, or the partition is unavailable."""
        row = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=CHUNK_BYTES)
        response = yield FetchRequest(
            max_bytes=CHUNK_BYTES, isolation_level=int(read_committed), topics=[FetchTopic(TOPIC, partitions=[row])]
        )
        return None if response is None else response.responses[0].partitions[0]


class Reader(Asker):
    """A read_committed consumer of one partition, which reads all the time."""

    def __init__(self, transactions: Transactions, partition: int) -> None:
        super().__init__(transactions.world, f"reader-{partition}")
        self.partition = partition
        self.offset = 0
        self._ledger = transactions.ledger

    def begins_anew(self) -> None:
        """Start again: records that it has read may be gone."""
        self.offset = 0

    def live(self) -> Script:
        world: Any = self.world
        while not world.calm:
            yield 1 + int(world.random() * 500)
            offset = self.offset
            row = yield from self.fetch(self.partition, offset, read_committed=True)
            if row is None or offset != self.offset or row.error_code:
                if row is not None and row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    self.offset = 0
                continue
            entries = [one for one in entries_of(row) if one.offset >= offset]
            self._ledger.shown(self.partition, shown_by(row, entries, world))
            if entries:
                self.offset = entries[-1].next_offset


class TransactionJudge(Asker):
    """Asks one process for all that is left of transactions. `is_last`: everything has settled."""

    def __init__(self, transactions: Transactions, *, is_last: bool) -> None:
        super().__init__(transactions.world, "judge of transactions")
        self.done = False
        self.problem = "nobody has looked yet"
        self._transactions = transactions
        self._is_last = is_last

    def live(self) -> Script:
        ledger = self._transactions.ledger
        if self._is_last and not (yield from self._all_have_ended()):
            self.done = True
            return
        sure = {name for name, one in ledger.transactions.items() if one.is_answered}
        readings: dict[int, Reading] = {}
        for partition in range(PARTITIONS):
            reading = yield from self._read(partition)
            if reading is None:
                self.done = True
                return
            readings[partition] = reading
        offsets: dict[str, int] | None = yield from self._offsets()
        if offsets is not None:
            self._judge(readings, offsets, sure)
        self.done = True

    def _judge(self, readings: dict[int, Reading], offsets: dict[str, int], sure: set[str]) -> None:
        ledger = self._transactions.ledger
        if self._is_last:
            ledger.settled(readings, offsets)
            return
        for name in sure:
            ledger.keeps(ledger.transactions[name], readings)
        for group_id, number in offsets.items():
            ledger.offset_shown(group_id, number)

    def _all_have_ended(self) -> Generator[Any, Any, bool]:
        """Wait until all have ended; False when an unavailable partition, which may be so, prevents that."""
        world: Any = self.world
        quiet = 0
        """How many brokers, one after the other, have no open transaction."""
        for _ in range(ENDING_LOOKS):
            response = yield ListTransactionsRequest(list(OPEN_STATES))
            if response is not None and not response.error_code:
                names = [one.transactional_id for one in response.transaction_states]
                self.problem = f"open still: {names}" if names else ""
                quiet = 0 if names else quiet + 1
                if quiet == world.brokers:
                    return True
                if quiet:
                    continue
            yield 1_000
        if not any(name.startswith((TOPIC, "__")) for name in world.excused):
            world.fault(f"the transactions did not come to rest: {self.problem}")
        return False

    def _read(self, partition: int) -> Generator[Any, Any, Reading | None]:
        """Read the whole partition, both ways; None when it is unavailable, and may be."""
        world: Any = self.world
        ledger = self._transactions.ledger
        self.problem = f"partition {partition} is not there"
        rows = yield from self._all(partition, read_committed=False)
        committed = yield from self._all(partition, read_committed=True)
        if rows is None or committed is None:
            if not any(name.startswith(f"{TOPIC}-{partition}") for name in world.excused):
                world.fault(f"{TOPIC}-{partition} is away for good")
            return None
        entries = [entry for row in rows for entry in entries_of(row)]
        reading = ledger.read(partition, entries)
        values = [value for row in committed for value in shown_by(row, list(entries_of(row)), world)]
        ledger.shown(partition, values)
        if len(set(values)) != len(values):
            world.fault(f"a reader of partition {partition} was shown a record twice")
        if self._is_last:
            if set(values) != set(reading.committed):
                world.fault(f"a reader of partition {partition} was shown other records than are committed")
            last = committed[-1]
            if last.last_stable_offset != last.high_watermark:
                world.fault(f"{TOPIC}-{partition}: stable up to {last.last_stable_offset} of {last.high_watermark}")
        return reading

    def _all(self, partition: int, *, read_committed: bool) -> Generator[Any, Any, list[PartitionData] | None]:
        rows: list[PartitionData] = []
        offset = 0
        for _ in range(LOOKS):
            row = yield from self.fetch(partition, offset, read_committed=read_committed)
            if row is None or row.error_code in LATER:
                yield 100
                continue
            if row.error_code:
                self.world.fault(f"{TOPIC}-{partition} cannot be read from {offset}: {error_name(row.error_code)}")
                return None
            rows.append(row)
            entries = list(entries_of(row))
            if not entries:
                return rows
            offset = entries[-1].next_offset
        return None

    def _offsets(self) -> Generator[Any, Any, dict[str, int] | None]:
        found: dict[str, int] = {}
        for number in range(self._transactions.ids):
            group_id = f"transactional-{number}"
            for _ in range(LOOKS):
                response = yield fetch_of(group_id, None)
                if response is not None and response.groups[0].error_code not in LATER:
                    break
                yield 100
            else:
                return None  # the judge of the groups reports that
            found[group_id] = offsets_of(response).get(TOPIC, {}).get(0, 0)
        return found


def entries_of(row: PartitionData) -> Iterator[Entry]:
    """The batches of an answer: records, and markers."""
    for header, records in batches.read(bytes(row.records or b"")):
        if header.attributes & CONTROL:
            (record,) = records
            _, coordinator_epoch = struct.unpack(">hi", record.value or b"")
            is_commit = batches.control_kind(record) == batches.CONTROL_COMMIT
            yield Entry(
                header.base_offset, header.producer_id, header.producer_epoch, None, is_commit,
                coordinator_epoch, header.next_offset,
            )  # fmt: skip
        else:
            values = [record.value or b"" for record in records]
            yield Entry(
                header.base_offset, header.producer_id, header.producer_epoch, values, next_offset=header.next_offset
            )


def shown_by(row: PartitionData, entries: list[Entry], world: Any) -> Iterator[bytes]:
    """The values that a read_committed consumer takes from an answer; none may be behind the last stable offset."""
    for entry in entries:
        if entry.next_offset > row.last_stable_offset:
            world.fault(f"a reader was shown offset {entry.offset}; stable is {row.last_stable_offset}")
    return only_committed(entries, ((one.producer_id, one.first_offset) for one in row.aborted_transactions or ()))
