"""ListConfigResources: what there is that has a configuration (KIP-1142)."""

from __future__ import annotations

from muster.coordinator.api.capabilities import lists_all_config_resources
from muster.coordinator.api.config_resources import Kind
from muster.coordinator.api.context import THE_CLUSTER, Operation, RequestContext, authorize
from muster.coordinator.api.node import Node, Respond
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_ALL = (Kind.TOPIC, Kind.BROKER, Kind.BROKER_LOGGER, Kind.CLIENT_METRICS, Kind.GROUP)


def handle_list_config_resources(
    node: Node, context: RequestContext, request: ListConfigResourcesRequest, respond: Respond
) -> None:
    """The resources of the kinds asked for, all when none is; of groups those that were configured."""
    kinds = request.resource_types or _ALL
    if not lists_all_config_resources(context.api_version):
        kinds = (Kind.CLIENT_METRICS,)
    if not authorize(context, Operation.DESCRIBE_CONFIGS, THE_CLUSTER):
        respond(ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        return
    if any(kind not in _ALL for kind in kinds):
        respond(ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
        return
    found = []
    if Kind.TOPIC in kinds:
        found += [ConfigResource(name, Kind.TOPIC) for name in node.topics.by_name]
    for kind in (Kind.CLIENT_METRICS, Kind.GROUP):
        if kind in kinds:
            found += [ConfigResource(name, kind) for name in node.topics.state.resources(kind)]
    found += [ConfigResource(str(node.node_id), kind) for kind in (Kind.BROKER, Kind.BROKER_LOGGER) if kind in kinds]
    respond(ListConfigResourcesResponse(config_resources=found))
