"""FindCoordinator (key 10): the node that coordinates a group, a transactional id or a share partition; its address."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.cluster_image import NO_BROKER
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from muster.protocol.errors import ErrorCode, error_message
from muster.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from muster.coordinator.share_state.persister import StateKey

_GROUP_KEY: Final = 0
_TRANSACTION_KEY: Final = 1
_SHARE_KEY: Final = 2
"""The key types: Kafka's CoordinatorType ids."""
_SHARE_VERSION: Final = 6
"""The first version that may ask for share partitions."""
_NO_BROKER_RIGHTS: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def handle_find_coordinator(
    node: Node, context: RequestContext, request: FindCoordinatorRequest, respond: Respond
) -> None:
    """Answer one row per key, in order: the leader of the key's partition of a coordinator's topic. The first request
    for a transactional id creates __transaction_state, that for a share partition __share_group_state. The answer also
    names a coordinator that is loading or offline: later requests get its error.
    """
    job = _finding(node, context, request)
    if request.key_type in (_TRANSACTION_KEY, _SHARE_KEY):
        node.run_to_end(context, respond, job)  # the topic is created entirely or not at all
    else:
        node.run(context, respond, job)


def _finding(node: Node, context: RequestContext, request: FindCoordinatorRequest) -> Job[FindCoordinatorResponse]:
    if request.key_type == _TRANSACTION_KEY and not node.transactions.routing.ready:
        for key in request.coordinator_keys:
            if node.authorizer.allows(context, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key):
                with contextlib.suppress(ApiError):  # without the topic, no key has a coordinator
                    yield from node.transactions.ensuring()
                break
            yield None
    if request.key_type == _SHARE_KEY and not node.persister.routing.ready:
        for key in request.coordinator_keys:
            if _share_fault(node, context, key) is None:
                with contextlib.suppress(ApiError):
                    yield from node.persister.ensuring()
                break
            yield None
    rows = []
    for key in request.coordinator_keys:
        rows.append(_row(node, context, request.key_type, key))
        yield None
    return FindCoordinatorResponse(coordinators=rows)


def _row(node: Node, context: RequestContext, key_type: int, key: str) -> Coordinator:
    found = _coordinator(node, context, key_type, key)
    if isinstance(found, Coordinator):
        return found
    # an unknown key type, or a client without a broker's rights, fails the whole request with a text
    is_whole = key_type not in (_GROUP_KEY, _TRANSACTION_KEY, _SHARE_KEY) or found == _NO_BROKER_RIGHTS
    message = error_message(found) if is_whole else ""
    return Coordinator(key, NO_BROKER, "", -1, found, message)


def _coordinator(node: Node, context: RequestContext, key_type: int, key: str) -> Coordinator | int:
    cluster, allows = node.cluster, node.authorizer.allows
    if key_type == _GROUP_KEY:
        if not allows(context, Operation.DESCRIBE, ResourceType.GROUP, key):
            return ErrorCode.GROUP_AUTHORIZATION_FAILED
        if not node.routing.ready:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        broker_id = cluster.leaders[GROUP_OFFSETS_TOPIC][node.routing.shard(key).partition].broker_id
    elif key_type == _TRANSACTION_KEY:
        if not allows(context, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if not node.transactions.routing.ready:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        broker_id = cluster.leaders[TRANSACTION_STATE_TOPIC][node.transactions.routing.partition(key)].broker_id
    elif key_type == _SHARE_KEY:
        fault = _share_fault(node, context, key)
        if fault is not None:
            return fault
        if not node.persister.routing.ready:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        partition = node.persister.routing.partition(str(_share_key(key)))
        broker_id = cluster.leaders[SHARE_STATE_TOPIC][partition].broker_id
    else:
        return ErrorCode.INVALID_REQUEST
    endpoint = cluster.endpoint(broker_id, context)
    if endpoint is None:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return Coordinator(key, broker_id, *endpoint)


def _share_fault(node: Node, context: RequestContext, key: str) -> int | None:
    """Why the client gets no coordinator for a share partition; None if there is no reason."""
    if context.api_version < _SHARE_VERSION:
        return ErrorCode.INVALID_REQUEST
    if not node.authorizer.allows(context, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return ErrorCode.INVALID_REQUEST if _share_key(key) is None else None


def _share_key(key: str) -> StateKey | None:
    # imported here: only tools and tests ask for share partitions
    from muster.coordinator.share_state.persister import read_key

    return read_key(key)
