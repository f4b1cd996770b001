"""A log of records instead of bytes, for tests of the layers above the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from muster.coordinator.log import BatchError, CorruptBatch, DamagedLog
from muster.coordinator.log.errors import Place
from muster.coordinator.log.settings import LogConfig
from muster.coordinator.state_machine.interface import Now, Producer, Record
from muster.protocol.message import Message

ROW_BYTES = 16 * 1024
"""The size of a record of the group "g", as FakeCodec counts; a record of "gg" is twice as large."""


class FakeProducers:
    """The producers of a log that accepts every write: every transaction is open already."""

    is_loaded = True

    def verification(self, producer_id: int, epoch: int, sequence: int, **_: Any) -> None:
        pass

    def check_transactional(self, producer_id: int, epoch: int, guard: Any) -> None:
        pass


class FakeLog:
    """A log of records instead of bytes. A test can let its writes fail, or become durable later."""

    knows_producers = True

    def __init__(self) -> None:
        self.rows: list[Record] = []
        self.config = LogConfig()
        self.start_offset = 0
        self.durable_offset = 0
        self.sync = False
        self.fail: Exception | None = None
        self.epochs: list[int] = []
        self.waiting: list[tuple[int, Callable[[Exception | None], object]]] = []
        self.producers = FakeProducers()

    @property
    def segments(self) -> FakeLog:
        return self

    durability = segments

    @property
    def end_offset(self) -> int:
        return len(self.rows)

    def append(self, leader_epoch: int, batch: Any, *, wall_ms: int) -> None:
        if self.fail is not None:
            raise self.fail
        self.epochs.append(leader_epoch)
        self.rows += batch
        if not self.sync:
            self.durable_offset = self.end_offset

    def when_durable(self, position: int, callback: Callable[[Exception | None], object]) -> None:
        if self.durable_offset >= position:
            callback(None)
        else:
            self.waiting.append((position, callback))

    def synced(self, position: int | None = None, error: Exception | None = None) -> None:
        if error is None:
            self.durable_offset = self.end_offset if position is None else position
        waiting, self.waiting = self.waiting, []
        for wanted, callback in waiting:
            if error is not None or wanted <= self.durable_offset:
                callback(error)
            else:
                self.waiting.append((wanted, callback))

    def damaged_at(self, offset: int, error: BatchError) -> DamagedLog:
        return DamagedLog(Place("data/__consumer_offsets-7/0.log", offset), str(error))

    def replay(self, offset: int | None = None, *, chunk_bytes: int = 0) -> Iterator[Any]:
        yield from ([row] for row in list(self.rows))


class FakeCodec:
    """A codec whose rows are the records; it is its own reader."""

    def __init__(self) -> None:
        self.offset = -1
        self.replaced = 0
        self.damaged = False
        self.producers: list[Producer | None] = []

    def reader(self) -> FakeCodec:
        return self

    def encode(self, records: Sequence[Record]) -> tuple[list[Record], int]:
        return list(records), sum(len(_group(record.key)) for record in records) * ROW_BYTES

    def build(self, rows: Sequence[Record], now: Now, producer: Producer | None) -> Any:
        self.producers.append(producer)
        return list(rows)

    def read(self, chunk: Any) -> Iterator[Any]:
        if self.damaged:
            self.offset = 90
            raise CorruptBatch("the CRC is wrong")
        yield ((row.key, row.value) for row in chunk)

    def rest(self) -> Iterator[Any]:
        return iter(())


def _group(key: Message) -> str:
    """The name of the group of a record; consumer groups have another field for it."""
    name: str = getattr(key, "group", None) or getattr(key, "group_id", "")
    return name
