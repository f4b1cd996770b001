"""The permissions that a client needs to change or describe the cluster itself."""

from __future__ import annotations

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node
from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType


def may_alter_cluster(node: Node, context: RequestContext) -> bool:
    """Whether the client may move leaders and brokers."""
    return node.authorizer.allows(context, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)


def may_describe_cluster(node: Node, context: RequestContext) -> bool:
    """Whether the client may describe leaders and brokers."""
    return node.authorizer.allows(context, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
