"""A state machine that is no group: it adds numbers to sums. It shows that the runtime knows nothing of groups."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any

from muster.coordinator.groups.common.events import Event
from muster.coordinator.log import MemoryStorage, batches
from muster.coordinator.log.records.building import build_packed
from muster.coordinator.runtime.shard import CoordinatorShard
from muster.coordinator.state_machine.deadlines import Deadline, Deadlines, LateAnswers
from muster.coordinator.state_machine.interface import (
    Client,
    Command,
    EndTransaction,
    Now,
    Producer,
    Respond,
    TransactionalBatch,
)
from muster.coordinator.state_machine.output import Output
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.system.jobs import Job
from muster.protocol.message import Message
from muster.protocol.wire import uv
from tests.coordinator.log.support import PendingResult, manage

TOPIC = "__sums"
CLIENT = Client("c", "/1.2.3.4")
LARGE = 3
"""The number of records of a transaction that does not end at once."""


class Add(Message):
    """Add a number to the sum of a name. The answer is the sum; `alarm_ms`: report after that time."""

    def __init__(self, name: str, number: int, alarm_ms: int | None = None, size: int = 0) -> None:
        self.name, self.number, self.alarm_ms = name, number, alarm_ms
        self.size = size


class Read(Message):
    """Ask for the sum, without a record."""

    def __init__(self, name: str) -> None:
        self.name = name


class Answer(Message):
    """A sum, or an error."""

    def __init__(self, value: int, error_code: int = 0) -> None:
        self.value, self.error_code = value, error_code


class Sums:
    """The state machine. Numbers that a producer adds in a transaction count once it is committed."""

    def __init__(self) -> None:
        self.deadlines = Deadlines()
        self.sums: dict[str, int] = {}
        self.pending: dict[int, list[tuple[str, int]]] = {}
        self.alarms: list[str] = []
        self.was_loaded = False
        self.parked: list[Respond] = []

    def handle(self, command: Any, now: Now, max_bytes: int) -> Output:
        request = command.request
        if isinstance(request, Read):
            return Output([(command.respond, Answer(self.sums.get(request.name, 0)))])
        if request.number == 0:  # it waits for ever
            self.parked.append(command.respond)
            return Output()
        if request.alarm_ms is not None:
            self.deadlines.set(Deadline("alarm", request.name), now.mono_ms + request.alarm_ms)
        self.sums[request.name] = self.sums.get(request.name, 0) + request.number
        record: Any = (request.name + "x" * request.size, request.number)
        event = Event("added", request.name, {"number": request.number})
        return Output([(command.respond, Answer(self.sums[request.name]))], [record], [event])

    def advance(self, now: Now, waits: LateAnswers) -> Output:
        while (due := self.deadlines.pop_due(now.mono_ms)) is not None:
            self.alarms.append(due.group_id)
        return Output()

    def next_deadline_ms(self) -> int | None:
        return self.deadlines.next_ms()

    def replay(self, records: Iterable[Any], now: Now) -> int:
        added = list(records)
        for name, number in added:
            self.sums[name] = self.sums.get(name, 0) + number
        return len(added)

    def replay_transactional(self, batch: TransactionalBatch, now: Now) -> int:
        records: Any = batch.records
        self.pending.setdefault(batch.producer_id, []).extend(records)
        return len(batch.records)

    def end_transaction(self, end: EndTransaction, now: Now) -> Generator[None, None, Sequence[Any]]:
        """End a transaction. Large transactions pause after each record."""
        records = self.pending.pop(end.producer_id, [])
        for record in records:
            if end.is_committed:
                self.replay([record], now)
            if len(records) >= LARGE:
                yield None
        return [Event("ended", "sums", {"producer_id": end.producer_id})]

    def loaded(self, now: Now) -> Output:
        self.was_loaded = True
        return Output()

    def resign(self, error_code: int) -> Output:
        return Output([(respond, Answer(0, error_code)) for respond in self.parked])


class Codec:
    """Names and numbers as keys and values of real batches; it is its own reader."""

    offset = -1
    replaced = 0

    def encode(self, records: Sequence[Any]) -> tuple[list[bytes], int]:
        rows = []
        for name, number in records:
            key, value = name.encode(), str(number).encode()
            rows.append(uv(2 * len(key)) + key + uv(2 * len(value)) + value + b"\0")
        return rows, sum(map(len, rows))

    def build(self, rows: Sequence[bytes], now: Now, producer: Producer | None) -> bytearray:
        return build_packed(rows, timestamp_ms=now.wall_ms, producer=producer)

    def reader(self) -> Codec:
        return self

    def read(self, chunk: bytes) -> Iterator[Any]:
        for header, records in batches.read(chunk):
            self.offset = header.base_offset
            if header.is_control:
                committed = batches.control_kind(records[0]) == batches.CONTROL_COMMIT
                yield EndTransaction(header.producer_id, header.producer_epoch, committed)
                continue
            found: Any = [(bytes(one.key or b"").decode().rstrip("x"), int(bytes(one.value or b""))) for one in records]
            if header.is_transactional:
                yield TransactionalBatch(header.producer_id, header.producer_epoch, header.max_timestamp, found)
            else:
                yield iter(found)

    def rest(self) -> Iterator[Any]:
        return iter(())


class Errors:
    """The answer of a shard that is not active, and for a record that could not be written."""

    def refuse(self, request: Any, error_code: int, why: Exception | None = None) -> Any:
        return Answer(0, error_code)

    def with_error(self, response: Any, error_code: int) -> Any:
        return Answer(0, error_code)


class Answers(list[tuple[int, int]]):
    """(sum, error) of each answer."""

    def __call__(self, answer: Any) -> None:
        self.append((answer.value, answer.error_code))


class ShardHarness:
    """A shard of sums over a real log. `wait_for_sync`: answers wait for `later.settle`."""

    def __init__(self, *, linger_ms: int = 0, wait_for_sync: bool = False) -> None:
        self.clock = ManualClock(0)
        self.later = PendingResult()
        self.storage = MemoryStorage()
        self.manager = manage(self.storage, sync=self.later.sync)
        self.log = self.manager.open_log(TOPIC, 0, wait_for_sync=wait_for_sync)
        self.events: list[Event] = []
        self.loads: list[tuple[int, int]] = []
        self.jobs: list[Job[None]] = []
        """Jobs of several steps, whose first step is done."""
        self.open_error: Exception | None = None
        self.shard: CoordinatorShard[Sums] = CoordinatorShard(
            0, "sums", Sums, self._open, Codec(), Errors(), self.clock, observer=self, linger_ms=linger_ms,
            on_load=lambda _, records, took_ms: self.loads.append((records, took_ms)), run_job=self.jobs.append,
        )  # fmt: skip

    def _open(self) -> Any:
        if self.open_error is not None:
            raise self.open_error
        return self.log, 5

    def report(self, happened: Sequence[Event], now: Now) -> None:
        self.events += happened

    def flush(self) -> None:
        pass

    def load(self) -> ShardHarness:
        for _ in self.shard.start():
            pass
        return self

    @property
    def core(self) -> Sums:
        assert self.shard.core is not None
        return self.shard.core

    def ask(self, request: Any, producer: Producer | None = None) -> Answers:
        answers = Answers()
        self.shard.submit(Command(request, answers, CLIENT), producer)
        return answers

    def written(self) -> list[tuple[int, bool, bool, int]]:
        """Producer id, whether transactional, whether a marker, and records of each batch."""
        return [(one.producer_id, one.is_transactional, one.is_control, one.record_count) for one in self.log.headers()]
