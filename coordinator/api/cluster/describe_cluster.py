"""DescribeCluster (KIP-700, KIP-919): the brokers of the cluster."""

from __future__ import annotations

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType, cluster_operations
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS = 1
CONTROLLERS = 2


def may_alter_cluster(node: Node, context: RequestContext) -> bool:
    """Whether the client may move leaders and brokers."""
    return node.authorizer.allows(context, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)


def may_describe_cluster(node: Node, context: RequestContext) -> bool:
    """Whether the client may describe leaders and brokers."""
    return node.authorizer.allows(context, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)


def handle_describe_cluster(
    node: Node, context: RequestContext, request: DescribeClusterRequest, respond: Respond
) -> None:
    """List the brokers; fenced brokers only if requested (KIP-1073). A broker's listener does not list controllers."""
    if request.endpoint_type != BROKERS:
        code, message = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {request.endpoint_type}"
        if request.endpoint_type == CONTROLLERS:
            code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
            message = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
        respond(DescribeClusterResponse(error_code=code, error_message=message))
        return
    operations = cluster_operations(node.authorizer, context, request.include_cluster_authorized_operations)
    respond(
        DescribeClusterResponse(
            cluster_id=node.cluster.cluster_id,
            controller_id=node.cluster.controller_id,
            brokers=[
                DescribeClusterBroker(broker.broker_id, host, port, broker.rack, is_fenced=broker.fenced)
                for broker, (host, port) in node.cluster.reachable(context, also_fenced=request.include_fenced_brokers)
            ],
            cluster_authorized_operations=operations,
        )
    )
