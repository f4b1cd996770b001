"""The kinds of resources that have configs, and the names under which brokers and loggers can be given."""

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
"""The resource whose permissions count, and the error for a client that lacks them. Other kinds count as the cluster.
"""


def check_authorized(node: Node, context: RequestContext, operation: int, kind: int, name: str) -> None:
    """Check whether the client may do `operation` to the configs of a resource. Raises `ApiError`."""
    resource_type, error_code = _AUTHORIZED_AS.get(kind, (ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    resource = CLUSTER_NAME if resource_type == ResourceType.CLUSTER else name
    if not node.authorizer.allows(context, operation, resource_type, resource):
        raise ApiError(error_code, error_message(error_code))


_INTEGER = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)


def node_number(name: str) -> int | None:
    """The number that Java's Integer.parseInt reads in a name. None means that the name is not a number."""
    if not _INTEGER.fullmatch(name):
        return None
    number = int(name)
    return number if -(2**31) <= number < 2**31 else None


def check_described_broker(name: str, node_id: int) -> None:
    """Check whether a broker may be described under this name, which is not empty. Raises `ApiError`."""
    other = f"Unexpected broker id, expected {node_id} or empty string, but received {name}"
    _check_number("Broker", name, node_id, other)


def check_described_loggers(name: str, node_id: int) -> None:
    """Check whether the loggers of a broker may be described under this name. Raises `ApiError`."""
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    _check_number("Broker", name, node_id, f"Unexpected broker id, expected {node_id} but received {name}")


def check_altered_broker(name: str, node_id: int) -> None:
    """Check whether a broker, or all brokers, may be configured under this name. Raises `ApiError`."""
    if name:
        _check_number("Node", name, node_id, f"Unexpected broker id, expected {node_id}, but received {name}")


def check_altered_loggers(name: str, node_id: int) -> None:
    """Check whether the loggers of a broker may be configured under this name. Raises `ApiError`."""
    _check_number("Node", name, node_id, f"Unexpected node id. Expected {node_id}, but received {name}")


def _check_number(what: str, name: str, node_id: int, other: str) -> None:
    """Check that the name is the id of this node. `other`: the error text for another id."""
    number = node_number(name)
    if number is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{what} id must be an integer, but it is: {name}")
    if number != node_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, other)
