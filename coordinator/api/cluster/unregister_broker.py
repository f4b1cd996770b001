"""UnregisterBroker (key 64): remove a broker from the cluster (KIP-631)."""

from __future__ import annotations

from muster.coordinator.api.cluster.refusals import may_alter_cluster
from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.durable import until_durable
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.errors import ApiError
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


@in_steps(forwarded=True)
def handle_unregister_broker(
    node: Node, context: RequestContext, request: UnregisterBrokerRequest
) -> Job[UnregisterBrokerResponse]:
    """Other brokers lead what the removed broker led. The answer leaves when this change is durable."""
    if not may_alter_cluster(node, context):
        return UnregisterBrokerResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    answer = UnregisterBrokerResponse(error_message=None)
    try:
        if node.controller is not None:
            yield from node.controller.unregistering(request.broker_id)
    except ApiError as refusal:
        answer.error_code, answer.error_message = refusal.error_code, refusal.message
        return answer
    yield from until_durable(node, [answer])
    return answer
