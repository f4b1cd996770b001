"""What can be configured: kinds of resources, and the names that brokers and loggers may be meant by."""

from __future__ import annotations

import re
from typing import Final

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node
from muster.coordinator.security.authorizer import CLUSTER_NAME, ResourceType
from muster.coordinator.topics.errors import ApiError
from muster.protocol.errors import ErrorCode, error_message


class Kind:
    """ConfigResource.Type."""

    TOPIC: Final = 2
    BROKER: Final = 4
    BROKER_LOGGER: Final = 8
    CLIENT_METRICS: Final = 16
    GROUP: Final = 32


_AUTHORIZED_AS: Final = {
    Kind.TOPIC: (ResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    Kind.GROUP: (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
}
"""What a client must be allowed to describe or alter, and the error if it is not; everything else is of the cluster."""


def check_authorized(node: Node, context: RequestContext, operation: int, kind: int, name: str) -> None:
    """May the client do this to the configs of a resource? Raises `ApiError`."""
    resource_type, error_code = _AUTHORIZED_AS.get(kind, (ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    resource = CLUSTER_NAME if resource_type == ResourceType.CLUSTER else name
    if not node.authorizer.allows(context, operation, resource_type, resource):
        raise ApiError(error_code, error_message(error_code))


_INTEGER = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)


def node_number(name: str) -> int | None:
    """The number that Java's Integer.parseInt reads in a name, if it reads one."""
    if not _INTEGER.fullmatch(name):
        return None
    number = int(name)
    return number if -(2**31) <= number < 2**31 else None


def check_described_broker(name: str, node_id: int) -> None:
    """May a broker be described under this name, which is not empty? Raises `ApiError`."""
    other = f"Unexpected broker id, expected {node_id} or empty string, but received {name}"
    _check_number("Broker", name, node_id, other)


def check_described_loggers(name: str, node_id: int) -> None:
    """May the loggers of a broker be described under this name? Raises `ApiError`."""
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    _check_number("Broker", name, node_id, f"Unexpected broker id, expected {node_id} but received {name}")


def check_altered_broker(name: str, node_id: int) -> None:
    """May a broker, or all of them, be configured under this name? Raises `ApiError`."""
    if name:
        _check_number("Node", name, node_id, f"Unexpected broker id, expected {node_id}, but received {name}")


def check_altered_loggers(name: str, node_id: int) -> None:
    """May the loggers of a broker be configured under this name? Raises `ApiError`."""
    _check_number("Node", name, node_id, f"Unexpected node id. Expected {node_id}, but received {name}")


def _check_number(what: str, name: str, node_id: int, other: str) -> None:
    """Is this the number of this node? `other`: what is told of another number."""
    number = node_number(name)
    if number is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{what} id must be an integer, but it is: {name}")
    if number != node_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, other)
