"""The resources that have configs: their kinds and names, and the operations on their configs (KIP-339).

The levels of broker loggers are configs, too (KIP-412).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node
from muster.coordinator.properties.lookup import BROKER, DYNAMIC_ONLY
from muster.coordinator.properties.lookup import TOPIC as TOPIC_PROPERTIES
from muster.coordinator.properties.resource_configs import list_append, list_subtract
from muster.coordinator.security.authorizer import CLUSTER_NAME, ResourceType
from muster.coordinator.system.logging.output import LEVELS, LOGGERS, NUMBERS, ROOT
from muster.coordinator.topics.errors import ApiError
from muster.protocol.errors import ErrorCode, error_message
from muster.protocol.messages.incremental_alter_configs import AlterableConfig

_INTEGER = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
SET: Final = 0
DELETE: Final = 1
APPEND: Final = 2
SUBTRACT: Final = 3
"""The operations of AlterConfigOp.OpType."""
Changes = dict[str, str | None]
"""The new texts of configs, by name. None removes the config."""


class Kind:
    """The kinds of resources: ConfigResource.Type."""

    TOPIC: Final = 2
    BROKER: Final = 4
    BROKER_LOGGER: Final = 8
    CLIENT_METRICS: Final = 16
    GROUP: Final = 32


_AUTHORIZED_AS: Final = {
    Kind.TOPIC: (ResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    Kind.GROUP: (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
}
"""The type of resource whose permissions count, and the error without permission. Other kinds use the cluster's."""


def check_authorized(node: Node, context: RequestContext, operation: int, kind: int, name: str) -> None:
    """Raise `ApiError` unless the client may do `operation` to the configs of a resource."""
    resource_type, error_code = _AUTHORIZED_AS.get(kind, (ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    resource = CLUSTER_NAME if resource_type == ResourceType.CLUSTER else name
    if not node.authorizer.allows(context, operation, resource_type, resource):
        raise ApiError(error_code, error_message(error_code))


def node_number(name: str) -> int | None:
    """The number that Java's Integer.parseInt reads in a name. None means that the name has no number."""
    if not _INTEGER.fullmatch(name):
        return None
    number = int(name)
    return number if -(2**31) <= number < 2**31 else None


def check_described_broker(name: str, node_id: int) -> None:
    """Raise `ApiError` unless this name (not "") is the id of this broker, whose configs may be described."""
    other = f"Unexpected broker id, expected {node_id} or empty string, but received {name}"
    _check_number("Broker", name, node_id, other)


def check_described_loggers(name: str, node_id: int) -> None:
    """Raise `ApiError` unless this name is the id of this broker, whose loggers may be described."""
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    _check_number("Broker", name, node_id, f"Unexpected broker id, expected {node_id} but received {name}")


def check_altered_broker(name: str, node_id: int) -> None:
    """Raise `ApiError` unless this name is the id of this broker, or "" for all brokers."""
    if name:
        _check_number("Node", name, node_id, f"Unexpected broker id, expected {node_id}, but received {name}")


def check_altered_loggers(name: str, node_id: int) -> None:
    """Raise `ApiError` unless this name is the id of this broker, whose loggers may be configured."""
    _check_number("Node", name, node_id, f"Unexpected node id. Expected {node_id}, but received {name}")


def _check_number(what: str, name: str, node_id: int, other: str) -> None:
    number = node_number(name)
    if number is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{what} id must be an integer, but it is: {name}")
    if number != node_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, other)


def applied(kind: int, configs: Sequence[AlterableConfig], present: Mapping[str, str]) -> Changes:
    """The changes that these operations make to the present configs of a resource. Raises `ApiError`."""
    return {config.name: _changed(kind, config, present) for config in configs}


def _changed(kind: int, config: AlterableConfig, present: Mapping[str, str]) -> str | None:
    name, text, operation = config.name, config.value or "", config.config_operation
    if operation == DELETE:
        return None
    if operation == SET:
        return text
    if operation not in (APPEND, SUBTRACT):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operation {operation} on {name}")
    known = {Kind.TOPIC: TOPIC_PROPERTIES, Kind.BROKER: BROKER}.get(kind, {})
    prop = known.get(name)
    if prop is None or prop.type != "LIST":
        word = "APPEND" if operation == APPEND else "SUBTRACT"
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Can't {word} to key {name} because its type is not LIST.")
    current = present.get(name, prop.default)
    return list_append(current, text) if operation == APPEND else list_subtract(current, text)


def broker_after(configs: Sequence[AlterableConfig], present: Mapping[str, str]) -> dict[str, str]:
    """All configs of a broker after these operations, as the receiving broker computes them. Raises `ApiError`."""
    after = dict(present)
    for config in configs:
        name, text, operation = config.name, config.value or "", config.config_operation
        if operation == DELETE:
            after.pop(name, None)
        elif operation == SET:
            after[name] = text
        elif operation in (APPEND, SUBTRACT):
            prop = DYNAMIC_ONLY.get(name) or BROKER.get(name)
            if prop is None:
                raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown config name: {name}")
            if prop.type != "LIST":
                word = "append" if operation == APPEND else "subtract"
                what = f"Config value {word} is not allowed for config key: {name}"
                raise ApiError(ErrorCode.INVALID_CONFIG, what)
            current = after.get(name, prop.default)
            after[name] = list_append(current, text) if operation == APPEND else list_subtract(current, text)
        else:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {operation}")
    return after


def logger_levels() -> dict[str, str]:
    """The level of each logger, by Kafka's logger names."""
    return {logger: LEVELS.name(logger) for logger in LOGGERS}


def alter_levels(configs: Sequence[AlterableConfig], *, validate_only: bool) -> None:
    """Set and unset levels: either all changes take effect, or the function raises `ApiError`."""
    for config in configs:
        _check_level(config)
    if validate_only:
        return
    for config in configs:
        if config.config_operation == DELETE:
            LEVELS.unset(config.name)
        else:
            LEVELS.set(config.name, config.value or "")


def _check_level(config: AlterableConfig) -> None:
    name, operation = config.name, config.config_operation
    if operation in (APPEND, SUBTRACT):
        word = "APPEND" if operation == APPEND else "SUBTRACT"
        what = f"{word} operation is not allowed for the BROKER_LOGGER resource"
        raise ApiError(ErrorCode.INVALID_REQUEST, what)
    if operation not in (SET, DELETE):
        what = f"Unknown operation type {operation} is not allowed for the BROKER_LOGGER resource"
        raise ApiError(ErrorCode.INVALID_REQUEST, what)
    if name not in LOGGERS:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation == DELETE:
        if name == ROOT:
            what = "Removing the log level of the root logger is not allowed"
            raise ApiError(ErrorCode.INVALID_REQUEST, what)
    elif config.value not in NUMBERS:
        what = f"Cannot set the log level of {name} to {config.value} as it is not a supported log level. "
        raise ApiError(ErrorCode.INVALID_CONFIG, f"{what}Valid log levels are {', '.join(sorted(NUMBERS))}")
