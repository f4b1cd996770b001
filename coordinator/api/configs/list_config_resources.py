"""ListConfigResources: the resources that have a configuration (KIP-1142)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from muster.coordinator.api.answer_size import TOO_LARGE, AnswerSize
from muster.coordinator.api.configs.resources import Kind
from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.api.version_rules import lists_all_config_resources
from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from muster.coordinator.system.jobs import Job
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_ROW_BYTES: Final = 5
"""Size of a row in an answer, without its text."""
_ALL = (Kind.TOPIC, Kind.BROKER, Kind.BROKER_LOGGER, Kind.CLIENT_METRICS, Kind.GROUP)


@in_steps
def handle_list_config_resources(
    node: Node, context: RequestContext, request: ListConfigResourcesRequest
) -> Job[ListConfigResourcesResponse]:
    """List the resources of the requested kinds, or of all kinds when the request names none. Groups are listed if they
    have configs.
    """
    if not node.authorizer.allows(context, Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
        return ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    kinds: Collection[int] = frozenset(request.resource_types) or _ALL
    if not lists_all_config_resources(context.api_version):
        kinds = (Kind.CLIENT_METRICS,)
    if any(kind not in _ALL for kind in kinds):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    found = []
    room = AnswerSize(node, context)
    for kind in _ALL:
        if kind not in kinds:
            continue
        if kind == Kind.TOPIC:
            names = [*node.topics.by_name]
        elif kind in (Kind.BROKER, Kind.BROKER_LOGGER):
            names = [str(broker_id) for broker_id in node.cluster.brokers]
        else:
            names = node.topics.state.resources(kind)
        for name in names:
            if not room.take(_ROW_BYTES + len(name)):
                return ListConfigResourcesResponse(error_code=TOO_LARGE)
            found.append(ConfigResource(name, kind))
            yield room.pause()
    return ListConfigResourcesResponse(config_resources=found)
