"""A `CoordinatorShard` of a `TransactionCore`: one partition of __transaction_state. This module is imported late."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, Protocol

from muster.coordinator.log.unified_log import UnifiedLog
from muster.coordinator.runtime import interfaces
from muster.coordinator.runtime.group_coordinator.shard import GroupShard
from muster.coordinator.runtime.routing import ByPartition
from muster.coordinator.runtime.shard import CoordinatorShard
from muster.coordinator.runtime.transaction_coordinator import error_responses
from muster.coordinator.runtime.transaction_coordinator.markers import MarkerSender, MarkerWriter, Peers
from muster.coordinator.runtime.transaction_coordinator.record_codec import RecordCodec
from muster.coordinator.state_machine.interface import Now, Respond
from muster.coordinator.state_machine.output import Output
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import JobQueue
from muster.coordinator.topics.names import TRANSACTION_STATE_TOPIC
from muster.coordinator.topics.topics import Topics
from muster.coordinator.transactions.commands import MarkersWritten, TransactionSettings
from muster.coordinator.transactions.core import TransactionCore

WHAT: Final = "transactions"

COMPLETE_WAITS_MS: Final = 100
"""How long the record of a transaction's completion is gathered with other records: no client waits for this record."""

SendMarkers = Callable[[str], Respond]
"""A function of a transactional id: returns the function that takes the WriteTxnMarkersRequest of this id."""


class Observer(interfaces.Observer, Protocol):
    """Gets the events of transactional ids."""

    def loaded(self, now: Now, *, transactional_ids: int, records: int, took_ms: int) -> None:
        """Report that the transactional ids were built from the log."""


class TransactionShard:
    """The shard of one partition of __transaction_state."""

    def __init__(
        self,
        partition: int,
        make_core: Callable[[SendMarkers], TransactionCore],
        open_log: Callable[[], tuple[UnifiedLog, int]],
        writer: MarkerWriter,
        job_queue: JobQueue,
        clock: Clock,
        *,
        observer: Observer | None,
        linger_ms: int,
    ) -> None:
        """`open_log`, `linger_ms`: see `CoordinatorShard`; `writer` and `job_queue`: see `MarkerSender`."""
        self.partition = partition
        self.coordinator_epoch = -1
        """The leader epoch of the partition, valid once the shard is loaded."""
        self._make_core_with = make_core
        self._open_log = open_log
        self._writer = writer
        self._job_queue = job_queue
        self._clock = clock
        self._observer = observer
        self.markers: MarkerSender | None = None
        self.runtime: CoordinatorShard[TransactionCore] = CoordinatorShard(
            partition,
            WHAT,
            self._make_core,
            self._open,
            RecordCodec(partition),
            error_responses,
            clock,
            observer=observer,
            linger_ms=linger_ms,
            on_load=self._on_load,
            on_stop=self._close_markers,
        )

    @property
    def active(self) -> bool:
        """Whether the shard can decide commands."""
        return self.runtime.core is not None

    def transactional_ids(self) -> Iterable[str]:
        """The transactional ids; none while the shard is not active."""
        core = self.runtime.core
        return () if core is None else core.state.transactions

    def _close_markers(self) -> None:
        """Send no more markers. The next load sends the missing markers."""
        if self.markers is not None:
            self.markers.close()

    def _make_core(self) -> TransactionCore:
        """A new core, for a load. After the load the core requests the missing markers again."""
        self._close_markers()
        self.markers = MarkerSender(
            self._writer, self._job_queue, self._clock, lambda: self.coordinator_epoch, self._written
        )
        return self._make_core_with(self.markers.send)

    def _open(self) -> tuple[UnifiedLog, int]:
        log, self.coordinator_epoch = self._open_log()
        return log, self.coordinator_epoch

    def _on_load(self, core: TransactionCore, records: int, took_ms: int) -> None:
        if records and self._observer is not None:
            now, ids = self._clock.now(), core.transactional_id_count
            self._observer.loaded(now, transactional_ids=ids, records=records, took_ms=took_ms)

    def _written(self, markers: MarkersWritten) -> None:
        def decide(core: TransactionCore, now: Now) -> Output:
            return core.handle(markers, now, self.runtime.log.config.max_message_bytes)

        self.runtime.run(decide, waits_ms=COMPLETE_WAITS_MS)


def transaction_shards(
    topics: Topics,
    clock: Clock,
    job_queue: JobQueue,
    groups: ByPartition[GroupShard],
    settings: TransactionSettings,
    observe: Callable[[int], Observer | None],
    next_producer_id: Callable[[], int],
    linger_ms: int,
    peers: Peers | None = None,
) -> list[TransactionShard]:
    """One shard for each partition of __transaction_state, in order. No shard is started.

    `observe(partition)` makes the observer of the partition's transactions. `groups`, `peers`: see `MarkerWriter`.
    `next_producer_id`: see `TransactionCore`.
    """
    count = len(topics.by_name[TRANSACTION_STATE_TOPIC].partitions)
    writer = MarkerWriter(topics.open, groups, clock, peers)

    def make_core(send_markers: SendMarkers) -> TransactionCore:
        return TransactionCore(settings, send_markers, next_producer_id=next_producer_id)

    return [
        TransactionShard(
            index,
            make_core,
            partial(topics.open.open_log, TRANSACTION_STATE_TOPIC, index),
            writer,
            job_queue,
            clock,
            observer=observe(index),
            linger_ms=linger_ms,
        )
        for index in range(count)
    ]
