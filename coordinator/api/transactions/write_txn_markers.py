"""WriteTxnMarkers (key 27): write the ends of transactions into partitions. On Kafka, brokers send it. Here an
administrator sends it, who ends a hanging transaction (`kafka-transactions.sh abort`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.runtime.transaction_coordinator.markers import MarkerWriter, end_marker
from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from muster.coordinator.system.jobs import Job, PendingResult
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

AT_ONCE: Final = 500
"""So many markers are written before the first of them is awaited. The markers of a partition become durable together,
and are reported without a pause.
"""


@in_steps(changes=True)
def handle_write_txn_markers(
    node: Node, context: RequestContext, request: WriteTxnMarkersRequest
) -> Job[WriteTxnMarkersResponse]:
    """Each partition has its own result, when its marker is durable."""
    may = any(
        node.authorizer.allows(context, operation, ResourceType.CLUSTER, CLUSTER_NAME)
        for operation in (Operation.ALTER, Operation.CLUSTER_ACTION)
    )
    refusal = ErrorCode.CLUSTER_AUTHORIZATION_FAILED if not may else ErrorCode.NONE
    if may and (yield from _some_cannot_be_written(node, request)):
        refusal = ErrorCode.UNKNOWN_SERVER_ERROR
    writer = MarkerWriter(node.topics.open, node.routing.shards, node.clock)
    under_way = _UnderWay()
    results: list[WritableTxnMarkerResult] = []
    for marker in request.markers:
        end = end_marker(marker, marker.coordinator_epoch)
        topics: list[WritableTxnMarkerTopicResult] = []
        results.append(WritableTxnMarkerResult(marker.producer_id, topics))
        yield None
        for topic in marker.topics:
            rows: list[WritableTxnMarkerPartitionResult] = []
            topics.append(WritableTxnMarkerTopicResult(topic.name, rows))
            yield None
            for index in topic.partition_indexes:
                row = WritableTxnMarkerPartitionResult(index, refusal)
                rows.append(row)
                if refusal == ErrorCode.NONE and node.cluster.is_led_elsewhere(topic.name, index):
                    row.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                elif refusal == ErrorCode.NONE:
                    yield from writer.writing(end, topic.name, index, under_way.noting(row))
                    if under_way.count >= AT_ONCE:
                        yield from under_way.finished()
                yield None
    yield from under_way.finished()
    return WriteTxnMarkersResponse(markers=results)


class _UnderWay:
    """Markers that are written but not durable yet."""

    def __init__(self) -> None:
        self.count = 0
        self._ended: PendingResult | None = None

    def noting(self, row: WritableTxnMarkerPartitionResult) -> Callable[[int], object]:
        """Count one more marker. The returned function gets the error for its row."""
        self.count += 1

        def note(error_code: int) -> None:
            row.error_code = error_code
            self.count -= 1
            if not self.count and self._ended is not None:
                self._ended(None)

        return note

    def finished(self) -> Job[None]:
        """Wait until all markers are durable."""
        if self.count:
            self._ended = PendingResult()
            yield self._ended
            self._ended = None


def _some_cannot_be_written(node: Node, request: WriteTxnMarkersRequest) -> Job[bool]:
    """Whether a marker for an existing partition has a negative producer id or epoch. As on Kafka, no marker is written
    then.
    """
    known = node.topics.image.by_name
    for marker in request.markers:
        if marker.producer_id < 0 or marker.producer_epoch < 0:
            for topic in marker.topics:
                count = known[topic.name].partitions if topic.name in known else 0
                for index in topic.partition_indexes:
                    if 0 <= index < count:
                        return True
                    yield None
                yield None
        yield None
    return False
