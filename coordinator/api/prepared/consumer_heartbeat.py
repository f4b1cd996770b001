"""A cached ConsumerGroupHeartbeat that reports no change. Only its correlation id varies."""

from __future__ import annotations

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.groups.consumer_groups import may_send_heartbeat
from muster.coordinator.api.node import Node
from muster.coordinator.api.prepared.heartbeat import PreparedHeartbeat
from muster.coordinator.api.routes import Route
from muster.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def prepare_consumer_heartbeat(
    node: Node, route: Route, context: RequestContext, frame: bytes, body: int
) -> PreparedHeartbeat | None:
    """None, unless the sender is a permitted member that owns its target assignment, in a group without a pending
    change.
    """
    request: ConsumerGroupHeartbeatRequest = route.decode(frame, body, len(frame))
    if not may_send_heartbeat(node, context, request, log_denied=False):
        return None
    shard = node.routing.shard(request.group_id)
    member = shard.prepare_consumer_heartbeat(request, context.client)
    if member is None:
        return None
    return PreparedHeartbeat(node.authorizer, route, frame, shard, member, member.response)
