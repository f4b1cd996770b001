"""IncrementalAlterConfigs and AlterConfigs: change what topics are configured with (KIP-133, KIP-339).

A broker's own properties cannot be changed while it runs; it says so as Kafka does of those that are read-only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from muster.coordinator.api.context import THE_CLUSTER, TOPIC, Operation, RequestContext, Resource, authorize
from muster.coordinator.api.durable import respond_when_durable
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.properties import InvalidProperty
from muster.coordinator.properties.lookup import TOPIC as TOPIC_PROPERTIES
from muster.coordinator.properties.topic import list_append, list_subtract
from muster.coordinator.topics.names import GROUP_EVENTS_TOPIC, name_fault
from muster.coordinator.topics.refusal import Refused
from muster.coordinator.topics.state import BROKER_RESOURCE, TOPIC_RESOURCE
from muster.coordinator.topics.topic import Topic
from muster.protocol.errors import ErrorCode
from muster.protocol.messages import alter_configs as full
from muster.protocol.messages import incremental_alter_configs as incremental

SET = 0
DELETE = 1
APPEND = 2
SUBTRACT = 3
"""AlterConfigOp.OpType."""

CLEANUP_POLICY: Final = "cleanup.policy"
Changes = dict[str, str | None]
"""Config -> its new text, None: unset."""
Row = TypeVar("Row", incremental.AlterConfigsResource, full.AlterConfigsResource)


def handle_incremental_alter_configs(
    node: Node, context: RequestContext, request: incremental.IncrementalAlterConfigsRequest, respond: Respond
) -> None:
    """Set, unset, append to or take from single configs."""

    def changes(topic: Topic, row: incremental.AlterConfigsResource) -> Changes:
        present = node.topics.state.topic_configs(topic.name)
        if any(config.value is None for config in row.configs if config.config_operation != DELETE):
            names = ",".join(c.name for c in row.configs if c.value is None and c.config_operation != DELETE)
            raise Refused(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {names}")
        return {config.name: _changed(config, present) for config in row.configs}

    rows = _alter_all(node, context, request.resources, changes, request.validate_only)
    responses = [incremental.AlterConfigsResourceResponse(*row) for row in rows]
    done = [] if request.validate_only else [row for row in responses if not row.error_code]
    respond_when_durable(node, respond, incremental.IncrementalAlterConfigsResponse(responses=responses), done)


def handle_alter_configs(
    node: Node, context: RequestContext, request: full.AlterConfigsRequest, respond: Respond
) -> None:
    """Replace all configs of a topic by those given."""

    def changes(topic: Topic, row: full.AlterConfigsResource) -> Changes:
        nulls = [config.name for config in row.configs if config.value is None]
        if nulls:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(nulls)}")
        given: Changes = {config.name: config.value for config in row.configs}
        return {**node.topics.unset_configs(topic, given), **given}

    rows = _alter_all(node, context, request.resources, changes, request.validate_only)
    responses = [full.AlterConfigsResourceResponse(*row) for row in rows]
    done = [] if request.validate_only else [row for row in responses if not row.error_code]
    respond_when_durable(node, respond, full.AlterConfigsResponse(responses=responses), done)


def _changed(config: incremental.AlterableConfig, present: Mapping[str, str]) -> str | None:
    """The new text of one config. Raises `Refused`."""
    name, text, operation = config.name, config.value or "", config.config_operation
    if operation == DELETE:
        return None
    if operation == SET:
        return text
    if operation not in (APPEND, SUBTRACT):
        raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown operation {operation} on {name}")
    prop = TOPIC_PROPERTIES.get(name)
    if prop is None or prop.type != "LIST":
        word = "APPEND" if operation == APPEND else "SUBTRACT"
        raise Refused(ErrorCode.INVALID_CONFIG, f"Can't {word} to key {name} because its type is not LIST.")
    current = present.get(name, prop.default or "")
    try:
        return list_append(name, current, text) if operation == APPEND else list_subtract(name, current, text)
    except InvalidProperty as error:
        raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from error


def _alter_all(
    node: Node,
    context: RequestContext,
    rows: Sequence[Row],
    changes: Callable[[Topic, Row], Changes],
    validate_only: bool,
) -> list[tuple[int, str | None, int, str]]:
    """(error code, message, resource type, resource name) of each resource, each altered on its own and as a whole."""
    answers: list[tuple[int, str | None, int, str]] = []
    times = Counter((row.resource_type, row.resource_name) for row in rows)
    for row in rows:
        kind, name = row.resource_type, row.resource_name
        try:
            if times[kind, name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            if len({config.name for config in row.configs}) < len(row.configs):
                raise Refused(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
            topic = _topic(node, context, row)
            wanted = changes(topic, row)
            after = {**node.topics.state.topic_configs(name), **wanted}
            node.topics.configs.check({key: text for key, text in after.items() if text is not None})
            if name == GROUP_EVENTS_TOPIC and "compact" in (after.get(CLEANUP_POLICY) or ""):
                raise Refused(ErrorCode.INVALID_CONFIG, f"{name} is a history: it cannot be compacted")
            if not validate_only:
                node.topics.set_configs(TOPIC_RESOURCE, name, wanted)
        except Refused as refusal:
            answers.append((refusal.error_code, refusal.message, kind, name))
        else:
            answers.append((0, None, kind, name))
    return answers


def _topic(node: Node, context: RequestContext, row: Row) -> Topic:
    """The topic that a row is about. Raises `Refused` when it is about anything else."""
    kind, name = row.resource_type, row.resource_name
    if kind == BROKER_RESOURCE:
        if not authorize(context, Operation.ALTER_CONFIGS, THE_CLUSTER):
            raise Refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        names = ", ".join(config.name for config in row.configs)
        raise Refused(ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: [{names}]")
    if kind != TOPIC_RESOURCE:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    if not authorize(context, Operation.ALTER_CONFIGS, Resource(TOPIC, name)):
        raise Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    fault = name_fault(name)
    if fault is not None:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {fault}")
    topic = node.topics.by_name.get(name)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    return topic
