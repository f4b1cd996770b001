"""ListPartitionReassignments: replicas on the move (KIP-455). With one node there is nowhere to move to."""

from __future__ import annotations

from muster.coordinator.api.context import THE_CLUSTER, Operation, RequestContext, authorize
from muster.coordinator.api.node import Node, Respond
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle_list_partition_reassignments(
    node: Node,  # noqa: ARG001 - every handler has this shape
    context: RequestContext,
    request: ListPartitionReassignmentsRequest,  # noqa: ARG001 - as above
    respond: Respond,
) -> None:
    """No partition is ever being reassigned."""
    error_code = 0
    if not authorize(context, Operation.DESCRIBE, THE_CLUSTER):
        error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    respond(ListPartitionReassignmentsResponse(error_code=error_code, error_message=None))
