"""WriteTxnMarkers (key 27): write the ends of transactions into partitions. Brokers of a cluster send it; here it comes
from an administrator who ends a transaction that hangs (`kafka-transactions.sh abort`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node, to_the_end
from muster.coordinator.log.producers.state import EndMarker
from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from muster.coordinator.slices import Job, Later
from muster.coordinator.transaction_coordinator.marker_writer import MarkerWriter
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


@to_the_end
def handle_write_txn_markers(
    node: Node, context: RequestContext, request: WriteTxnMarkersRequest
) -> Job[WriteTxnMarkersResponse]:
    """Each partition has its own result, when its marker is durable."""
    may = any(
        node.authorizer.allows(context, operation, ResourceType.CLUSTER, CLUSTER_NAME)
        for operation in (Operation.ALTER, Operation.CLUSTER_ACTION)
    )
    refusal = ErrorCode.CLUSTER_AUTHORIZATION_FAILED if not may else ErrorCode.NONE
    if may and any(_cannot_be_written(node, marker) for marker in request.markers):
        refusal = ErrorCode.UNKNOWN_SERVER_ERROR
    writer = MarkerWriter(node.topics.open, node.routing.shards, node.clock)
    left, ended = 1, Later()

    def one_less() -> None:
        nonlocal left
        left -= 1
        if not left:
            ended(None)

    response = WriteTxnMarkersResponse(markers=[])
    for marker in request.markers:
        end = EndMarker(
            marker.producer_id,
            marker.producer_epoch,
            marker.transaction_result,
            marker.coordinator_epoch,
            marker.transaction_version,
        )
        result = WritableTxnMarkerResult(marker.producer_id, [])
        _rows(response.markers).append(result)
        for topic in marker.topics:
            rows = WritableTxnMarkerTopicResult(topic.name, [])
            _rows(result.topics).append(rows)
            for index in topic.partition_indexes:
                row = WritableTxnMarkerPartitionResult(index, refusal)
                _rows(rows.partitions).append(row)
                if refusal == ErrorCode.NONE:
                    left += 1
                    yield from writer.writing(end, topic.name, index, _noting(row, one_less))
                yield None
    one_less()
    yield ended
    return response


def _cannot_be_written(node: Node, marker: WritableTxnMarker) -> bool:
    """Whether it is of a producer that there cannot be, for a partition that is there: as on Kafka, nothing is done."""
    known = node.topics.image.by_name
    return (marker.producer_id < 0 or marker.producer_epoch < 0) and any(
        topic.name in known and any(0 <= index < known[topic.name].partitions for index in topic.partition_indexes)
        for topic in marker.topics
    )


def _rows(sequence: Any) -> list[Any]:
    """The list that a message was made with."""
    rows: list[Any] = sequence
    return rows


def _noting(row: WritableTxnMarkerPartitionResult, then: Callable[[], object]) -> Callable[[int], object]:
    def note(error_code: int) -> None:
        row.error_code = error_code
        then()

    return note
