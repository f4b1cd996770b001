"""FindCoordinator (key 10): which node coordinates a group or a transactional id, and how it is reached from here."""

from __future__ import annotations

from typing import Final

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.security.authorizer import Operation, ResourceType
from muster.coordinator.slices import Job
from muster.protocol.errors import ErrorCode, error_message
from muster.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

_GROUP_KEY: Final = 0
_TRANSACTION_KEY: Final = 1
_SHARE_KEY: Final = 2
"""Kafka's CoordinatorType ids."""


def handle_find_coordinator(
    node: Node, context: RequestContext, request: FindCoordinatorRequest, respond: Respond
) -> None:
    """One row per key, in order; one node coordinates everything, and is reached as the one who asks has reached it.

    Loading is not looked at: the group requests that follow tell. Share groups are not served, so that their keys are
    invalid, as on a Kafka without a share coordinator.
    """
    node.run(context, respond, _rows(node, context, request))


def _rows(node: Node, context: RequestContext, request: FindCoordinatorRequest) -> Job[FindCoordinatorResponse]:
    rows = []
    for key in request.coordinator_keys:
        rows.append(_row(node, context, request.key_type, key))
        yield None
    return FindCoordinatorResponse(coordinators=rows)


def _row(node: Node, context: RequestContext, key_type: int, key: str) -> Coordinator:
    error_code = _check(node, context, key_type, key)
    if error_code != ErrorCode.NONE:
        # only a key type that nobody knows fails the request as a whole, and then there is a text
        message = error_message(error_code) if key_type not in (_GROUP_KEY, _TRANSACTION_KEY, _SHARE_KEY) else ""
        return Coordinator(key, -1, "", -1, error_code, message)
    host, port = node.endpoint(context)
    return Coordinator(key, node.node_id, host, port)


def _check(node: Node, context: RequestContext, key_type: int, key: str) -> int:
    if key_type == _GROUP_KEY:
        if not node.authorizer.allows(context, Operation.DESCRIBE, ResourceType.GROUP, key):
            return ErrorCode.GROUP_AUTHORIZATION_FAILED
        return ErrorCode.NONE if node.routing.ready else ErrorCode.COORDINATOR_NOT_AVAILABLE
    if key_type == _TRANSACTION_KEY:
        if not node.authorizer.allows(context, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return ErrorCode.NONE
    return ErrorCode.INVALID_REQUEST
