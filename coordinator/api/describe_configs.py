"""DescribeConfigs: how topics, this broker and groups are configured, and where each value comes from (KIP-226)."""

from __future__ import annotations

from muster.coordinator.api.config_rows import described
from muster.coordinator.api.context import (
    GROUP,
    THE_CLUSTER,
    TOPIC,
    Operation,
    RequestContext,
    Resource,
    authorize,
)
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.properties import describe
from muster.coordinator.properties.describe import Entry
from muster.coordinator.topics.names import name_fault
from muster.coordinator.topics.refusal import Refused
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)


class ConfigResource:
    """ConfigResource.Type."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


def handle_describe_configs(
    node: Node, context: RequestContext, request: DescribeConfigsRequest, respond: Respond
) -> None:
    """Answer each resource on its own."""
    results = []
    for row in request.resources:
        try:
            entries = _entries(node, context, row)
        except Refused as refusal:
            results.append(
                DescribeConfigsResult(refusal.error_code, refusal.message or "", row.resource_type, row.resource_name)
            )
        else:
            keys = row.configuration_keys or None
            configs = described(entries, keys, request.include_synonyms)
            results.append(DescribeConfigsResult(0, "", row.resource_type, row.resource_name, configs))
    respond(DescribeConfigsResponse(results=results))


def _entries(node: Node, context: RequestContext, row: DescribeConfigsResource) -> list[Entry]:
    """Raises `Refused`."""
    kind, name = row.resource_type, row.resource_name
    if kind == ConfigResource.TOPIC:
        return _topic_entries(node, context, name)
    if kind == ConfigResource.GROUP:
        if not authorize(context, Operation.DESCRIBE_CONFIGS, Resource(GROUP, name)):
            raise Refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        if not name:
            raise Refused(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return describe.group({}, node.config)
    if not authorize(context, Operation.DESCRIBE_CONFIGS, THE_CLUSTER):
        raise Refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if kind == ConfigResource.BROKER:
        return _broker_entries(node, name)
    raise Refused(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {_kind_name(kind)}")


def _topic_entries(node: Node, context: RequestContext, name: str) -> list[Entry]:
    if not authorize(context, Operation.DESCRIBE_CONFIGS, Resource(TOPIC, name)):
        raise Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    fault = name_fault(name)
    if fault is not None:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {fault}")
    if name not in node.topics.by_name:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return describe.topic(node.topics.state.topic_configs(name), node.config)


def _broker_entries(node: Node, name: str) -> list[Entry]:
    if name == "":
        return []  # what was set for all brokers: nothing can be set while running
    if not name.isascii() or not name.lstrip("-").isdigit():
        raise Refused(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if int(name) != node.node_id:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {node.node_id} or empty string, but received {name}",
        )
    return describe.broker(node.config)


def _kind_name(kind: int) -> str:
    return {ConfigResource.BROKER_LOGGER: "BROKER_LOGGER", ConfigResource.CLIENT_METRICS: "CLIENT_METRICS"}.get(
        kind, "UNKNOWN"
    )
