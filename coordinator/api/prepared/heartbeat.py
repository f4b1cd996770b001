"""A cached heartbeat of a member. Only its correlation id varies."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.exchange import RequestingConnection
from muster.coordinator.api.node import Node
from muster.coordinator.api.prepared.request import NOT_PREPARED, may_read_group
from muster.coordinator.api.routes import Route
from muster.coordinator.api.sink import Answer
from muster.coordinator.groups.classic.sessions import WELL
from muster.coordinator.runtime.group_coordinator.shard import AT_ONCE, NOT_DONE, GroupShard, SteadyBeat
from muster.coordinator.security.authorizer import Authorizer
from muster.protocol.message import Message
from muster.protocol.messages.heartbeat import HeartbeatRequest


class PreparedHeartbeat:
    """See `PreparedRequest`."""

    __slots__ = (
        "_after_id", "_authorizer", "_before_id", "_head", "_member", "_permissions", "_response", "_route", "_shard",
        "_tail", "size", "was_repeated",
    )  # fmt: skip

    error_counts: Mapping[int, int] = MappingProxyType({0: 1})

    def __init__(
        self,
        authorizer: Authorizer,
        route: Route,
        frame: bytes,
        shard: GroupShard,
        member: SteadyBeat,
        response: Message = WELL,
    ) -> None:
        """`response`: the answer to each of these requests."""
        self.was_repeated = False
        self.size = len(frame)
        self._head, self._tail = route.head, frame[8:]
        self._authorizer, self._permissions = authorizer, authorizer.version
        self._route, self._shard, self._member = route, shard, member
        self._response = response
        self._before_id, self._after_id = route.around(response)

    def handle(self, data: bytes, start: int, requests: RequestingConnection) -> Answer | None:
        """See `PreparedRequest`."""
        if (
            data[start + 8 : start + self.size] != self._tail
            or data[start : start + 4] != self._head
            or self._permissions != self._authorizer.version
        ):
            return NOT_PREPARED
        answering = self._shard.prepared_heartbeat(self._member)
        if answering is NOT_DONE:
            return NOT_PREPARED
        self.was_repeated = True
        correlation = data[start + 4 : start + 8]
        if answering is AT_ONCE:
            return self._before_id + correlation + self._after_id
        self._shard.hold(requests.open(self._route, correlation), self._response)
        return None


def prepare_heartbeat(
    node: Node,
    route: Route,
    context: RequestContext,
    frame: bytes,
    body: int,
) -> PreparedHeartbeat | None:
    """None, unless the sender is a permitted member of the group's generation."""
    request: HeartbeatRequest = route.decode(frame, body, len(frame))
    if not may_read_group(node, context, request.group_id):
        return None
    shard = node.routing.shard(request.group_id)
    member = shard.prepare_heartbeat(request)
    return None if member is None else PreparedHeartbeat(node.authorizer, route, frame, shard, member)
