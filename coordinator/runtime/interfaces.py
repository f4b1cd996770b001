"""What the runtime asks of the coordinator that runs on it; of the log it asks `log.interfaces.Log`. No behaviour."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from muster.coordinator.state_machine.deadlines import Deadlines
from muster.coordinator.state_machine.interface import (
    Decoded,
    EndTransaction,
    Now,
    Output,
    Producer,
    Record,
    TransactionalBatch,
)
from muster.coordinator.state_machine.late_answers import LateAnswers
from muster.protocol.message import Message


class StateMachine(Protocol):
    """The state of a shard: it decides, and reads neither a clock nor a log.

    Life: all records of the log are replayed, then `loaded`, then `handle` and `advance`, at last perhaps `resign`.
    What it decides has changed it already: it is thrown away when the records cannot be written.
    """

    deadlines: Deadlines
    """To be looked at only: when the earliest falls due."""

    def handle(self, command: Any, now: Now, most_bytes: int) -> Output:
        """Decide one command, whose records may have so many bytes."""

    def advance(self, now: Now, waits: LateAnswers) -> Output:
        """Let the deadlines that are due pass; `waits`: how long answers waited."""

    def next_deadline_ms(self) -> int | None:
        """When `advance` is wanted next (monotonic ms)."""

    def replay(self, records: Iterable[Decoded], now: Now) -> int:
        """Take in records that count as they are: how many these were."""

    def replay_transactional(self, batch: TransactionalBatch, now: Now) -> int:
        """Take in records of a transaction, which count once it is committed: how many these were."""

    def replay_end_transaction(self, end: EndTransaction, now: Now) -> None:
        """The transaction of a producer has ended: when the log is replayed, and live."""

    def loaded(self, now: Now) -> Output:
        """The whole log was replayed."""

    def resign(self, error_code: int) -> Output:
        """Answer all that is parked with an error."""


class RecordReader(Protocol):
    """Reads one log from its start to its end."""

    offset: int
    """Of the batch that was read last."""

    def read(self, chunk: bytes) -> Iterator[Iterator[Decoded] | TransactionalBatch | EndTransaction]:
        """What a chunk of whole batches holds, in its order: records that count as they are (to be taken before the
        next is asked for), those of a batch of a transaction, ends of transactions. Raises BatchError for a damaged
        batch.
        """


class RecordCodec(Protocol):
    """Records <-> batches. Remembers nothing."""

    def encode(self, records: Sequence[Record]) -> tuple[Sequence[Any], int]:
        """The rows that the records are in a batch, and their size in bytes; raises ValueError."""

    def build(self, rows: Sequence[Any], now: Now, producer: Producer | None) -> bytes | bytearray:
        """One batch that holds the rows, in the transaction of `producer` if there is one."""

    def reader(self) -> RecordReader:
        """For one load."""


class ErrorResponses(Protocol):
    """The answers of a shard whose state machine is not asked, or whose decision was not written."""

    def refuse(self, request: Message, error_code: int, why: Exception | None = None) -> Message:
        """The answer to `request` that says only `error_code`, and `why` where there is room for words."""

    def with_error(self, response: Message, error_code: int) -> Message:
        """`response`, had its records not been written."""


class Observer(Protocol):
    """Is told what happens. Raises nothing."""

    def tell(self, happened: Sequence[Any], now: Now) -> None:
        """Things that have just happened, in their order."""

    def flush(self) -> None:
        """An answer is about to leave that may show what was told: let it be written."""
