"""Writes the end of a transaction to all of its partitions.

The sender sends markers and waits until each is durable. It sends markers again that could not be written. It informs
the core when a transaction has all of its markers. The core gives the markers to the sender once the record of its
decision is durable. After a load the core gives all of them again, to a new sender. So nothing is stored here. A
transaction may thus get a marker twice; the log of a partition takes it once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

import structlog

from muster.coordinator.log.records.markers import EndMarker
from muster.coordinator.runtime.transaction_coordinator.marker_writer import MarkerWriter, end_marker
from muster.coordinator.state_machine.interface import Respond
from muster.coordinator.system.clock import Clock, Timer
from muster.coordinator.system.jobs import Job, JobQueue
from muster.coordinator.transactions.commands import MarkersWritten
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.write_txn_markers import WriteTxnMarkersRequest

log = structlog.get_logger("muster.transactions")

RETRY_MS: Final = 100
"""After this time a marker that could not be written is sent again: its partition is offline, or loads."""

FEW: Final = 16
"""A transaction with at most this many partitions gets its markers without a job: that takes half a millisecond."""

_Rows = Sequence[tuple[str, Sequence[int]]]
"""Topics and their partitions."""

_DONE: Final = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
"""The codes that end the wait: the marker is written, or its partition was deleted. This node has all partitions."""


class _Ending:
    """One transaction that is about to end, and how many of its partitions have no marker yet."""

    __slots__ = ("left", "marker", "transactional_id")

    def __init__(self, transactional_id: str, marker: EndMarker, left: int) -> None:
        self.transactional_id = transactional_id
        self.marker = marker
        self.left = left


class _Again(NamedTuple):
    """One marker that could not be written."""

    ending: _Ending
    topic: str
    partition: int


class MarkerSender:
    """The sender of one shard, for one load of its core. `closed` says that the load has ended (see `jobs.Owner`)."""

    def __init__(
        self,
        writer: MarkerWriter,
        slices: JobQueue,
        clock: Clock,
        coordinator_epoch: Callable[[], int],
        written: Callable[[MarkersWritten], object],
    ) -> None:
        """`coordinator_epoch`: the leader epoch of the shard's partition; `written`: takes the notices for the core."""
        self._writer = writer
        self._slices = slices
        self._clock = clock
        self._coordinator_epoch = coordinator_epoch
        self._written = written
        self._endings: dict[str, _Ending] = {}
        self._again: list[_Again] = []
        self._timer: Timer | None = None
        self.closed = False

    def __len__(self) -> int:
        """The number of transactions that wait for markers."""
        return len(self._endings)

    def send(self, transactional_id: str) -> Respond:
        """Returns a function that takes the markers of this id's transaction, when they may be written."""
        return partial(self._send, transactional_id)

    def close(self) -> None:
        """The shard is not active any more, or loads again: nothing is sent from now on."""
        self.closed = True
        self._endings.clear()
        self._again.clear()
        if self._timer is not None:
            self._timer.cancel()

    def fault(self, error: Exception) -> None:
        """See `jobs.Owner`. The affected transactions continue when the shard is loaded again."""
        log.error("a marker could not be sent, by a fault of the server", exc_info=error)

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
        elif ending.left > FEW or not self._slices.run_small(partial(self._write_few, ending, topics)):
            self._slices.run(self._writing(ending, topics), _nothing, self)

    def _write_few(self, ending: _Ending, topics: _Rows) -> None:
        """Do the work of `_writing` at once: this saves a twentieth of a transaction's cost."""
        writer, endings = self._writer, self._endings
        for topic, indexes in topics:
            for index in indexes:
                if endings.get(ending.transactional_id) is not ending:
                    return
                if writer.is_ready(topic, index):
                    writer.write(ending.marker, topic, index, partial(self._ended, ending, topic, index))
                else:
                    self._slices.run(self._write(ending, topic, index), _nothing, self)

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
            self._have_one(ending)
        elif error_code == ErrorCode.INVALID_PRODUCER_EPOCH:
            # A newer epoch of the producer writes there. So the transaction that ends here cannot be open any more.
            self._tell(ending, topic, index, "a partition knows a newer epoch of the producer: its marker is left out")
            self._have_one(ending)
        elif error_code == ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            self._tell(ending, topic, index, "a newer coordinator has ended transactions of the producer: this one is "
                       "left to it")  # fmt: skip
            del self._endings[ending.transactional_id]
        else:
            self._again.append(_Again(ending, topic, index))
            if self._timer is None:
                self._timer = self._clock.machine.call_at(self._clock.machine.mono_ms() + RETRY_MS, self._try_again)

    def _try_again(self) -> None:
        self._timer = None
        again, self._again = self._again, []
        self._slices.run(self._writing_again(again), _nothing, self)

    def _writing_again(self, again: Sequence[_Again]) -> Job[None]:
        for one in again:
            yield from self._write(*one)

    def _have_one(self, ending: _Ending) -> None:
        ending.left -= 1
        if not ending.left:
            self._complete(ending)

    def _complete(self, ending: _Ending) -> None:
        del self._endings[ending.transactional_id]
        marker = ending.marker
        self._written(MarkersWritten(ending.transactional_id, marker.producer_id, marker.producer_epoch))

    @staticmethod
    def _tell(ending: _Ending, topic: str, index: int, what: str) -> None:
        marker = ending.marker
        log.warning(what, transactional_id=ending.transactional_id, topic=topic, partition=index,
                    producer_id=marker.producer_id, producer_epoch=marker.producer_epoch,
                    coordinator_epoch=marker.coordinator_epoch)  # fmt: skip


def _nothing(_: object) -> None:
    pass
