"""The interfaces between the runtime and a coordinator's own part. The interfaces have no behaviour."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any, Protocol

from muster.coordinator.state_machine.deadlines import Deadlines, LateAnswers
from muster.coordinator.state_machine.interface import (
    Decoded,
    EndTransaction,
    Now,
    Producer,
    Record,
    TransactionalBatch,
)
from muster.coordinator.state_machine.output import Output
from muster.protocol.message import Message


class StateMachine(Protocol):
    """The state of a shard. `muster.coordinator.state_machine` has the contract: order of calls, input, output."""

    deadlines: Deadlines

    def handle(self, command: Any, now: Now, max_bytes: int) -> Output:
        """Decide one command, whose records may have `max_bytes` bytes."""

    def advance(self, now: Now, waits: LateAnswers) -> Output:
        """Handle the deadlines that are due; `waits`: how long answers waited."""

    def next_deadline_ms(self) -> int | None:
        """When `advance` is to be called next (monotonic ms)."""

    def replay(self, records: Iterable[Decoded], now: Now) -> int:
        """Replay records that are in no transaction. Returns the number of records."""

    def replay_transactional(self, batch: TransactionalBatch, now: Now) -> int:
        """Replay records of an open transaction, which count once it is committed. Returns the number of records."""

    def end_transaction(self, end: EndTransaction, now: Now) -> Generator[None, None, Sequence[Any]]:
        """End the transaction of a producer, live and in replay.

        A large transaction ends in several steps; other calls may be made between two steps. Returns the events.
        """

    def loaded(self, now: Now) -> Output:
        """End the load, when the whole log was replayed."""

    def resign(self, error_code: int) -> Output:
        """Answer all parked requests with an error."""


class RecordReader(Protocol):
    """Reads one log from its start to its end."""

    offset: int
    """The offset of the batch that was read last."""
    replaced: int
    """How many records were left out because later records replace them."""

    def read(self, chunk: bytes) -> Iterator[Iterator[Decoded] | TransactionalBatch | EndTransaction]:
        """The content of a chunk of whole batches, in the order of the log.

        Iterators give records that are in no transaction; each must be replayed before the next item. Other items are
        batches and ends of transactions. Raises BatchError for a damaged batch.

        A record may be left out if a later record replaces it. All records between these two are of the same kind.
        """

    def rest(self) -> Iterator[Decoded]:
        """The records that `read` has kept back until the end of the log."""


class RecordCodec(Protocol):
    """Converts records to batches and back. The object has no state."""

    def encode(self, records: Sequence[Record]) -> tuple[list[Any], int]:
        """The records as rows for `build`, and the sum of the rows' bytes. Raises ValueError."""

    def build(self, rows: Sequence[Any], now: Now, producer: Producer | None) -> bytes | bytearray:
        """One batch that holds the rows, in the transaction of `producer` if it is not None."""

    def reader(self) -> RecordReader:
        """A reader for one load."""


class ErrorResponses(Protocol):
    """The answers of a shard that has no state machine at present, or could not write a decision."""

    def refuse(self, request: Message, error_code: int, why: Exception | None = None) -> Message:
        """The answer to `request` with only `error_code`, and `why` where the answer has a field for a text."""

    def with_error(self, response: Message, error_code: int) -> Message:
        """The answer instead of `response` when its records were not written."""


class Observer(Protocol):
    """Gets the events of a shard. The methods raise nothing."""

    def report(self, happened: Sequence[Any], now: Now) -> None:
        """Report events that have just happened, in their order."""

    def flush(self) -> None:
        """Write the events now, because an answer that may show their effects is about to leave."""
