"""InitProducerId (key 22): a producer id with an epoch, which identifies duplicates of a producer (KIP-98, KIP-360).
With a transactional id, the shard of that id decides.
"""

from __future__ import annotations

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.durable import until_durable
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from muster.coordinator.system.jobs import Job, PendingResult
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.transactions.commands import TransactionCommand
from muster.coordinator.transactions.init_producer_id import refusal
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

UNKNOWN = -1
"""No producer id, and no epoch."""


@in_steps
def handle_init_producer_id(
    node: Node, context: RequestContext, request: InitProducerIdRequest
) -> Job[InitProducerIdResponse]:
    """A new producer id in epoch 0, whatever id the producer had before. With a transactional id, the answer of its
    shard.
    """
    try:
        _check(node, context, request)
        if request.transactional_id is None:
            drawn = yield from node.topics.drawing_producer_id()
            response = InitProducerIdResponse(producer_id=drawn, producer_epoch=0)
        else:
            later = PendingResult()
            node.transactions.decide(request.transactional_id, TransactionCommand(request, later, context.client))
            return (yield later)  # type: ignore[no-any-return]  # as every answer of a shard
    except ApiError as error:
        return InitProducerIdResponse(error_code=error.error_code, producer_id=UNKNOWN, producer_epoch=UNKNOWN)
    # the block of ids that has this id must never be allocated again
    yield from until_durable(node, [response])
    return response


def _check(node: Node, context: RequestContext, request: InitProducerIdRequest) -> None:
    """Check the request. Raises `ApiError`."""
    if request.transactional_id is not None:
        if not node.authorizer.allows(
            context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id
        ):
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    elif not (
        node.authorizer.allows(context, Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME)
        or node.authorizer.allows_some(context, Operation.WRITE, ResourceType.TOPIC)
    ):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if request.transactional_id is not None:
        error_code = refusal(request, node.transactions.settings)  # this check precedes the shard, which may be loading
    elif (request.producer_id == UNKNOWN) != (request.producer_epoch == UNKNOWN):
        error_code = ErrorCode.INVALID_REQUEST
    else:
        return
    if error_code:
        raise ApiError(error_code)
