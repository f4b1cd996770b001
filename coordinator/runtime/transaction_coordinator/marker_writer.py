"""Writes the end of a transaction into one partition: of a user's topic, or of __consumer_offsets.

In __consumer_offsets the groups then see the offsets. The writer reports the result as Kafka's WriteTxnMarkers does. It
does not wait and does not try again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final, Protocol

from muster.coordinator.log.errors import LogError
from muster.coordinator.log.records.markers import EndMarker
from muster.coordinator.runtime.leaderships import ByPartition
from muster.coordinator.runtime.transaction_coordinator.other_nodes import Peers
from muster.coordinator.state_machine.interface import Producer
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from muster.coordinator.topics.open_topics import OpenTopics
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.write_txn_markers import WritableTxnMarker

Ended = Callable[[int], object]
"""Takes the error code of one partition: NONE once its marker is as durable as the coordinator's records are."""

_NOT_READY: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
"""The errors of a group coordinator that is not ready. A sender of markers knows only partitions and their leaders."""


class GroupShard(Protocol):
    """The part of a shard of groups that ends its transactions."""

    def complete_transaction(
        self,
        producer: Producer,
        *,
        is_committed: bool,
        coordinator_epoch: int = ...,
        transaction_version: int = ...,
        ended: Ended = ...,
    ) -> None:
        """See `runtime.shard.CoordinatorShard`."""


def end_marker(row: WritableTxnMarker, coordinator_epoch: int) -> EndMarker:
    """The marker that a row of a WriteTxnMarkersRequest asks for, from the coordinator with `coordinator_epoch`."""
    return EndMarker(
        row.producer_id, row.producer_epoch, row.transaction_result, coordinator_epoch, row.transaction_version
    )


class MarkerWriter:
    """Writes markers to the topics and to the shards of groups of a node."""

    __slots__ = ("_clock", "_groups", "_peers", "_topics")

    def __init__(
        self, topics: OpenTopics, groups: ByPartition[GroupShard], clock: Clock, peers: Peers | None = None
    ) -> None:
        """`groups`: one shard per partition of __consumer_offsets, in order.

        `peers`: the leaders of the partitions that this process does not lead.
        """
        self._peers = peers
        self._topics = topics
        self._groups = groups
        self._clock = clock

    def is_ready(self, topic: str, index: int) -> bool:
        """Whether `write` takes no time."""
        partition = self._topics.partition(topic, index)
        return partition is None or partition.log.knows_producers

    def writing(self, marker: EndMarker, topic: str, index: int, ended: Ended) -> Job[None]:
        """`write`, once it takes no time: a log that was just opened knows its producers after a while."""
        partition = self._topics.partition(topic, index)
        if partition is not None:
            with contextlib.suppress(LogError):  # `write` will find this error as well
                yield from partition.loading_producers()
        self.write(marker, topic, index, ended)

    def write(self, marker: EndMarker, topic: str, index: int, ended: Ended) -> None:
        """Write one marker, or ask the node that leads the partition to write it. Raises nothing."""
        if self._peers is not None:
            peer = self._peers.leads(topic, index)
            if peer is not None:
                self._peers.mark(peer, marker, topic, index, ended)
                return
        if topic == GROUP_OFFSETS_TOPIC:
            self._end_in_groups(marker, index, ended)
            return
        found = self._topics.by_name.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            ended(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return
        partition = found.partitions[index]
        if partition is None:
            ended(ErrorCode.KAFKA_STORAGE_ERROR)
            return
        try:
            partition.append_marker(marker, self._clock.now())
        except (ApiError, LogError) as error:
            ended(error.error_code)
            return
        log = partition.log
        # A power cut may destroy a marker. The record that the transaction is complete must then not survive either.
        when = log.when_synced if self._topics.waits_for_sync(TRANSACTION_STATE_TOPIC) else log.when_flushed
        when(log.end_offset, lambda error: ended(ErrorCode.NONE if error is None else error.error_code))

    def _end_in_groups(self, marker: EndMarker, index: int, ended: Ended) -> None:
        if not 0 <= index < len(self._groups):
            ended(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return

        def translated(error_code: int) -> None:
            ended(ErrorCode.NOT_LEADER_OR_FOLLOWER if error_code in _NOT_READY else error_code)

        self._groups[index].complete_transaction(
            Producer(marker.producer_id, marker.producer_epoch),
            is_committed=marker.is_committed,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.transaction_version,
            ended=translated,
        )
