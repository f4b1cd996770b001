"""EndTxn (key 26): commit or abort a transaction. It is answered when the decision is durable; the markers follow."""

from __future__ import annotations

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.api.version_rules import end_txn_raises_epoch, transaction_version
from muster.coordinator.security.authorizer import Operation, ResourceType
from muster.coordinator.transactions.commands import TransactionCommand
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse


def handle_end_txn(node: Node, context: RequestContext, request: EndTxnRequest, respond: Respond) -> None:
    """The shard of the transactional id decides."""
    transactional_id = request.transactional_id
    if not node.authorizer.allows(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        respond(EndTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    elif not transactional_id:
        respond(EndTxnResponse(error_code=ErrorCode.INVALID_REQUEST))
    else:
        version = transaction_version(end_txn_raises_epoch(context.api_version))
        node.transactions.decide(transactional_id, TransactionCommand(request, respond, context.client, version))
