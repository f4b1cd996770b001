"""Writes the end of a transaction to all of its partitions.

`MarkerWriter` writes one marker into one partition of a user's topic, or of __consumer_offsets. A marker there also
ends the transaction's offsets. The writer reports the errors of Kafka's WriteTxnMarkers, and never tries again.

`MarkerSender` sends markers until each is durable, and then informs the core. The core requests the markers once the
record of the decision is durable. After a load the core requests missing markers again, from a new sender. So the
sender stores nothing. A marker may be sent twice; the log of a partition appends it once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from muster.coordinator.log.errors import LogError
from muster.coordinator.log.records.markers import EndMarker
from muster.coordinator.runtime.routing import ByPartition
from muster.coordinator.state_machine.interface import Producer, Respond
from muster.coordinator.system.clock import Clock, Timer
from muster.coordinator.system.jobs import Job, JobQueue
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from muster.coordinator.topics.open_topics import OpenTopics
from muster.coordinator.topics.partition import Partition
from muster.coordinator.transactions.commands import MarkersWritten
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.write_txn_markers import WritableTxnMarker, WriteTxnMarkersRequest

if TYPE_CHECKING:
    from muster.coordinator.runtime.group_coordinator.shard import GroupShard
    from muster.coordinator.transactions.commands import TransactionCommand


class Peers(Protocol):
    """The other nodes, reached through `postgres.node_messages`."""

    def leads(self, topic: str, index: int) -> int | None:
        """The id of the node that leads a partition, if that is another node."""

    def mark(self, node_id: int, marker: EndMarker, topic: str, index: int, ended: Callable[[int], object]) -> None:
        """Ask another node to write a marker; `ended` gets the error code."""

    def ask(self, node_id: int, command: TransactionCommand) -> None:
        """Ask the node that coordinates the transactional id to answer a `PartitionsAsked`."""


Ended = Callable[[int], object]
"""A function that takes a partition's error code: NONE once its marker is as durable as the coordinator's records."""

_NOT_READY: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
"""The errors of a group coordinator that is not ready. Markers get NOT_LEADER_OR_FOLLOWER instead, as on Kafka."""


def end_marker(row: WritableTxnMarker, coordinator_epoch: int) -> EndMarker:
    """The marker that a row of a WriteTxnMarkersRequest asks for, from the coordinator with `coordinator_epoch`."""
    return EndMarker(
        row.producer_id, row.producer_epoch, row.transaction_result, coordinator_epoch, row.transaction_version
    )


class MarkerWriter:
    """Writes markers to the logs of topics, and through the group shards of a node."""

    __slots__ = ("_clock", "_groups", "_peers", "_topics")

    def __init__(
        self, topics: OpenTopics, groups: ByPartition[GroupShard], clock: Clock, peers: Peers | None = None
    ) -> None:
        """`groups`: one shard per partition of __consumer_offsets. `peers`: nodes in other processes."""
        self._peers = peers
        self._topics = topics
        self._groups = groups
        self._clock = clock

    def writing(self, marker: EndMarker, topic: str, index: int, ended: Ended) -> Job[None]:
        """A job that writes a marker when the producers of the partition's log are loaded."""
        partition = self._topics.partition(topic, index)
        if partition is not None:
            with contextlib.suppress(LogError):  # `write` meets the same error, and reports it
                yield from partition.loading_producers()
        self.write(marker, topic, index, ended)

    def write(self, marker: EndMarker, topic: str, index: int, ended: Ended, *, if_loaded: bool = False) -> bool:
        """Write one marker, or ask the node that leads the partition to write it. Raises nothing.

        `if_loaded`: return False and do nothing, if the producers of the partition's log have to be loaded before.
        """
        found = self._topics.by_name.get(topic)
        partition = found.partitions[index] if found is not None and 0 <= index < len(found.partitions) else None
        if if_loaded and partition is not None and not partition.log.knows_producers:
            return False
        peers = self._peers
        peer = None if peers is None else peers.leads(topic, index)
        if peer is not None and peers is not None:
            peers.mark(peer, marker, topic, index, ended)
        elif topic == GROUP_OFFSETS_TOPIC:
            self._end_in_groups(marker, index, ended)
        elif partition is not None:
            self._append(marker, partition, ended)
        elif found is None or not 0 <= index < len(found.partitions):
            ended(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            ended(ErrorCode.KAFKA_STORAGE_ERROR)
        return True

    def _append(self, marker: EndMarker, partition: Partition, ended: Ended) -> None:
        try:
            partition.append_marker(marker, self._clock.now())
        except (ApiError, LogError) as error:
            ended(error.error_code)
            return
        log = partition.log
        # If a power cut destroys the marker, it must also destroy the record of the transaction's completion.
        when = log.when_synced if self._topics.waits_for_sync(TRANSACTION_STATE_TOPIC) else log.when_flushed
        when(log.end_offset, lambda error: ended(ErrorCode.NONE if error is None else error.error_code))

    def _end_in_groups(self, marker: EndMarker, index: int, ended: Ended) -> None:
        if not 0 <= index < len(self._groups):
            ended(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return

        def translated(error_code: int) -> None:
            ended(ErrorCode.NOT_LEADER_OR_FOLLOWER if error_code in _NOT_READY else error_code)

        self._groups[index].runtime.complete_transaction(
            Producer(marker.producer_id, marker.producer_epoch),
            is_committed=marker.is_committed,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.transaction_version,
            ended=translated,
        )


log = structlog.get_logger("muster.transactions")

RETRY_MS: Final = 100
"""The time until a marker is sent again, if its partition was offline or loading."""

FEW: Final = 16
"""The markers of a transaction with at most this many partitions are written without a job (half a millisecond)."""

_Rows = Sequence[tuple[str, Sequence[int]]]

_DONE: Final = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
"""The codes of a partition that is done: it has its marker, or was deleted (this node knows all partitions)."""


@dataclass(slots=True, eq=False)
class _Ending:
    """One transaction that is about to end. `left`: how many of the transaction's partitions have no marker yet."""

    transactional_id: str
    marker: EndMarker
    left: int


class MarkerSender:
    """The sender of one shard, for one load of its core. `closed` says that the load has ended (see `jobs.Owner`)."""

    def __init__(
        self,
        writer: MarkerWriter,
        job_queue: JobQueue,
        clock: Clock,
        coordinator_epoch: Callable[[], int],
        written: Callable[[MarkersWritten], object],
    ) -> None:
        """`coordinator_epoch`: the leader epoch of the shard's partition. `written`: gives notices to the core."""
        self._writer = writer
        self._job_queue = job_queue
        self._clock = clock
        self._coordinator_epoch = coordinator_epoch
        self._written = written
        self._endings: dict[str, _Ending] = {}
        self._again: list[tuple[_Ending, str, int]] = []
        self._timer: Timer | None = None
        self.closed = False

    def __len__(self) -> int:
        """The number of transactions that wait for markers."""
        return len(self._endings)

    def send(self, transactional_id: str) -> Respond:
        """Return the function that sends the markers of this id's transaction, when the decision is durable."""
        return partial(self._send, transactional_id)

    def close(self) -> None:
        """Send no more markers, because the shard is no longer active, or loads again."""
        self.closed = True
        self._endings.clear()
        self._again.clear()
        if self._timer is not None:
            self._timer.cancel()

    def fault(self, error: Exception) -> None:
        """See `jobs.Owner`. The next load sends the missing markers."""
        log.error("a marker could not be sent, because of a bug in the server", exc_info=error)

    def _send(self, transactional_id: str, message: Message) -> None:
        if self.closed or not isinstance(message, WriteTxnMarkersRequest):
            return
        (row,) = message.markers
        marker = end_marker(row, self._coordinator_epoch())
        topics = [(topic.name, topic.partition_indexes) for topic in row.topics]
        ending = _Ending(transactional_id, marker, sum(len(indexes) for _, indexes in topics))
        self._endings[transactional_id] = ending
        if not ending.left:
            self._complete(ending)
        elif ending.left > FEW or not self._job_queue.run_small(partial(self._write_few, ending, topics)):
            self._job_queue.run(self._writing(ending, topics), lambda _: None, self)

    def _write_few(self, ending: _Ending, topics: _Rows) -> None:
        """Do the work of `_writing` without a job, which saves a twentieth of a transaction's cost."""
        writer, endings = self._writer, self._endings
        for topic, indexes in topics:
            for index in indexes:
                if endings.get(ending.transactional_id) is not ending:
                    return
                ended = partial(self._ended, ending, topic, index)
                if not writer.write(ending.marker, topic, index, ended, if_loaded=True):
                    self._job_queue.run(self._write(ending, topic, index), lambda _: None, self)

    def _writing(self, ending: _Ending, topics: _Rows) -> Job[None]:
        for topic, indexes in topics:
            for index in indexes:
                yield from self._write(ending, topic, index)

    def _write(self, ending: _Ending, topic: str, index: int) -> Job[None]:
        if self._endings.get(ending.transactional_id) is ending:
            yield from self._writer.writing(ending.marker, topic, index, partial(self._ended, ending, topic, index))
        yield None

    def _ended(self, ending: _Ending, topic: str, index: int, error_code: int) -> None:
        if self._endings.get(ending.transactional_id) is not ending:
            return
        if error_code in _DONE:
            self._marker_written(ending)
        elif error_code == ErrorCode.INVALID_PRODUCER_EPOCH:
            # The producer writes to this partition with a newer epoch. So the transaction of this marker is not open
            # there.
            self._warn(ending, topic, index, "a partition knows a newer epoch of the producer: its marker is left out")
            self._marker_written(ending)
        elif error_code == ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            self._warn(ending, topic, index, "a newer coordinator has ended transactions of the producer, and "
                       "ends this transaction too")  # fmt: skip
            del self._endings[ending.transactional_id]
        else:
            self._again.append((ending, topic, index))
            if self._timer is None:
                self._timer = self._clock.machine.call_at(self._clock.machine.mono_ms() + RETRY_MS, self._try_again)

    def _try_again(self) -> None:
        self._timer = None
        again, self._again = self._again, []
        self._job_queue.run(self._writing_again(again), lambda _: None, self)

    def _writing_again(self, again: Sequence[tuple[_Ending, str, int]]) -> Job[None]:
        for one in again:
            yield from self._write(*one)

    def _marker_written(self, ending: _Ending) -> None:
        ending.left -= 1
        if not ending.left:
            self._complete(ending)

    def _complete(self, ending: _Ending) -> None:
        del self._endings[ending.transactional_id]
        marker = ending.marker
        self._written(MarkersWritten(ending.transactional_id, marker.producer_id, marker.producer_epoch))

    @staticmethod
    def _warn(ending: _Ending, topic: str, index: int, what: str) -> None:
        marker = ending.marker
        log.warning(what, transactional_id=ending.transactional_id, topic=topic, partition=index,
                    producer_id=marker.producer_id, producer_epoch=marker.producer_epoch,
                    coordinator_epoch=marker.coordinator_epoch)  # fmt: skip
