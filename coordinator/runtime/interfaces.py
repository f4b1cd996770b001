"""What a shard is made of, as it knows it: core, log, codec, observer and what was gathered; and its settings. Holds no
behaviour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from muster.coordinator.core.deadlines import Deadlines
from muster.coordinator.core.interface import Command, Event, Now, Output, Record, Reply
from muster.coordinator.core.late_answers import LateAnswers
from muster.coordinator.group_coordinator.record_codec import OpenTransaction
from muster.coordinator.groups.classic.heartbeat import GenerationMember
from muster.coordinator.groups.common.image import TopicsChanged
from muster.coordinator.groups.offsets.commit_template import CommitTemplate
from muster.coordinator.log.errors import BatchError, DamagedLog
from muster.coordinator.log.settings import LogConfig
from muster.protocol.message import Message
from muster.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from muster.protocol.messages.offset_commit import OffsetCommitRequest


class Core(Protocol):
    """What a shard asks of the groups (`groups.core.GroupCore`)."""

    deadlines: Deadlines
    """To be looked at only: when the earliest falls due."""

    @property
    def state(self) -> Any:
        """What it remembers (`groups.state.State`): to be looked at only."""

    @property
    def group_count(self) -> int:
        """How many groups there are."""

    def handle(self, command: Command | TopicsChanged, now: Now, most_bytes: int) -> Output:
        """Decide one command, whose records may have so many bytes."""

    def heartbeat(self, request: HeartbeatRequest, mono_ms: int) -> HeartbeatResponse:
        """Answer a heartbeat."""

    def beating(self, request: HeartbeatRequest) -> GenerationMember | None:
        """Who sends such heartbeats; None when it is no member now."""

    def prepare_commit(self, request: OffsetCommitRequest, most_bytes: int) -> CommitTemplate | None:
        """Make a commit ready that is expected again with other offsets."""

    def commit_again(
        self, commit: CommitTemplate, offsets: Sequence[int], leader_epochs: Sequence[int], now: Now, most_bytes: int
    ) -> list[bytes] | None:
        """Decide it: its records as the codec's rows. None: nothing was done."""

    def advance(self, now: Now, waits: LateAnswers) -> Output:
        """Let the deadlines that are due pass; `waits`: how long answers waited."""

    def next_deadline_ms(self) -> int | None:
        """When `advance` is wanted next (monotonic ms)."""

    def replay(self, records: Iterable[tuple[Message, Message | None]], now: Now) -> int:
        """Take in records of the log: how many these were."""

    def loaded(self, now: Now) -> Output:
        """The whole log was replayed."""

    def set_unstable(self, offsets: Iterable[tuple[str, str, int]]) -> None:
        """These (group, topic, partition), and no others, are covered by open transactions."""

    def resign(self, error_code: int) -> Output:
        """Answer all that is parked with an error."""


class ShardLog(Protocol):
    """What a shard asks of the log of its partition (`log.interfaces.Log`)."""

    config: LogConfig

    @property
    def start_offset(self) -> int:
        """The first offset that may be read."""

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""

    @property
    def durable_offset(self) -> int:
        """All before it is durable."""

    def append(self, leader_epoch: int, batch: bytes | bytearray, *, wall_ms: int) -> object:
        """Append one batch; raises an exception with Kafka's `error_code`."""

    def when_durable(self, position: int, callback: Callable[[Exception | None], object]) -> None:
        """Call back when the log is durable up to `position`, or has failed."""

    def replay(self, offset: int | None = None, *, chunk_bytes: int = ...) -> Iterator[bytes]:
        """The whole batches from `offset` on, in chunks."""

    def damaged_at(self, offset: int, error: BatchError) -> DamagedLog:
        """The batch at `offset` was found not to be readable: the log goes offline."""


class Codec(Protocol):
    """Records <-> batches (`group_coordinator.record_codec`), given so that a shard can be tested without bytes."""

    reading: int
    """Offset of the batch that `read` came to last."""

    def encode(self, records: Sequence[Record]) -> tuple[Sequence[Any], int]:
        """The rows that the records are in a batch, and their size in bytes; raises ValueError."""

    def build(self, rows: Sequence[Any], now: Now) -> bytes | bytearray:
        """One batch that holds the rows."""

    def read(self, chunk: bytes) -> Iterator[tuple[Message, Message | None]]:
        """The records of some batches that a core can replay; raises BatchError for one that is damaged."""

    def open_transactions(self) -> Sequence[OpenTransaction]:
        """Those that what was read has begun and not ended."""

    def abort(self, transaction: OpenTransaction, now: Now) -> bytes | bytearray:
        """The marker that aborts a transaction: it is open no more."""


class Observer(Protocol):
    """Who is told what happens (`observe.Observers`). Raises nothing."""

    def tell(self, happened: Sequence[Event], now: Now) -> None:
        """Things that have just happened, in their order."""

    def flush(self) -> None:
        """Somebody is about to be answered who can see what was told: let it be written."""

    def loaded(self, now: Now, *, groups: int, records: int, took_ms: int) -> None:
        """The state was built from the log."""


class Batch:
    """What was decided since `began_ms` (monotonic) and is still to be appended, and what is told and answered then."""

    __slots__ = ("began_ms", "events", "replies", "rows", "size")

    def __init__(self, began_ms: int) -> None:
        self.began_ms = began_ms
        self.rows: list[Any] = []
        self.size = 0
        self.replies: list[Reply] = []
        self.events: list[Event] = []


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """Two of Kafka's properties, in ms."""

    group_coordinator_append_linger_ms: int = -1
    """How long records are gathered before they are appended. 0: not at all; -1 (Kafka: adaptively): until all requests
    are looked at that have come in the same turn of the loop.
    """
    transaction_max_timeout_ms: int = 900_000
    """A transaction that has been open for longer was aborted by the cluster that it is of, or will be."""
