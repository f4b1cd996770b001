"""ListPartitionReassignments: replicas on the move (KIP-455). With one node there is nowhere to move to."""

from __future__ import annotations

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle_list_partition_reassignments(
    node: Node,
    context: RequestContext,
    request: ListPartitionReassignmentsRequest,  # noqa: ARG001 - every handler has this shape
    respond: Respond,
) -> None:
    """No partition is ever being reassigned."""
    error_code = 0
    if not node.authorizer.allows(context, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    respond(ListPartitionReassignmentsResponse(error_code=error_code, error_message=None))
