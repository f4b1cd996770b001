"""EndTxn (key 26): commit or abort a transaction. Answered when the decision is in the log; the markers follow."""

from __future__ import annotations

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node, in_slices
from muster.coordinator.api.version_rules import end_txn_raises_epoch, transaction_version
from muster.coordinator.security.authorizer import Operation, ResourceType
from muster.coordinator.slices import Job, Later
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse


@in_slices
def handle_end_txn(node: Node, context: RequestContext, request: EndTxnRequest) -> Job[EndTxnResponse]:
    """The shard of the transactional id decides."""
    transactional_id = request.transactional_id
    if not node.authorizer.allows(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return EndTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not transactional_id:
        return EndTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    version = transaction_version(end_txn_raises_epoch(context.api_version))
    later = Later()
    yield from node.transactions.deciding(transactional_id, request, later, context.client, version)
    return (yield later)  # type: ignore[no-any-return]  # as every answer of a shard
