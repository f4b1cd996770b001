"""Heartbeats that are answered without decoding, see `cached_requests`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from muster.coordinator.api.cached_requests import NOT_CACHED, Made, may_read_group
from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.exchange import RequestingConnection
from muster.coordinator.api.layers import Answer
from muster.coordinator.api.node import Node
from muster.coordinator.api.registry import Route
from muster.coordinator.groups.classic.sessions import SUCCESS, GenerationMember
from muster.coordinator.runtime.group_coordinator.shard import GroupShard
from muster.protocol.message import Message
from muster.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest

if TYPE_CHECKING:
    from muster.coordinator.groups.consumer.heartbeat import SteadyMember
    from muster.coordinator.groups.streams.steady import SteadyMember as SteadyTasks


class CachedHeartbeat:
    """A heartbeat of a member. Only the correlation id varies."""

    __slots__ = (
        "_after_id", "_authorizer", "_before_id", "_clock", "_head", "_member", "_permissions", "_repeats", "_response",
        "_runtime", "context", "route", "was_repeated",
    )  # fmt: skip

    error_counts: ClassVar[Mapping[int, int]] = MappingProxyType({0: 1})

    def __init__(
        self,
        node: Node,
        route: Route,
        context: RequestContext,
        shard: GroupShard,
        member: GenerationMember | SteadyMember | SteadyTasks,
        response: Message,
    ) -> None:
        """`response`: the answer to each of these requests."""
        self.was_repeated = False
        self.route, self.context, self._head = route, context, route.head
        self._authorizer, self._permissions = node.authorizer, node.authorizer.version
        self._runtime, self._member, self._clock = shard.runtime, member, node.clock
        self._response, self._repeats = response, route.repeats
        self._before_id, self._after_id = route.around(response)

    def handle(self, data: bytes, start: int, requests: RequestingConnection) -> Answer | None:
        """See `CachedRequest`. The key has no head: the version may differ."""
        runtime = self._runtime
        if (
            not data.startswith(self._head, start)
            or self._permissions != self._authorizer.version
            or runtime.core is None
            or not self._member.heartbeat(self._clock.mono_ms())
        ):
            return NOT_CACHED
        self.was_repeated = True
        if runtime.queue.batches or runtime.replies.parked:
            requests.not_repeated(self.route)
            runtime.hold(requests.open(self.route, data[start + 4 : start + 8]), self._response)
            return None
        self._repeats.count += 1
        return self._before_id + data[start + 4 : start + 8] + self._after_id


def cache_heartbeat(node: Node, route: Route, context: RequestContext, frame: bytes, body: int) -> Made | None:
    """The cached heartbeat. None unless the sender is a permitted member of the group's generation."""
    request: HeartbeatRequest = route.decode(frame, body, len(frame))
    if not may_read_group(node, context, request.group_id):
        return None
    shard = node.routing.shard(request.group_id)
    member = shard.prepare_heartbeat(request)
    return None if member is None else (CachedHeartbeat(node, route, context, shard, member, SUCCESS), frame[8:], None)


def cache_consumer_heartbeat(node: Node, route: Route, context: RequestContext, frame: bytes, body: int) -> Made | None:
    """The cached heartbeat. None unless the sender is permitted, owns its target assignment, and changes nothing."""
    # imported late: the first heartbeat of a consumer group has loaded the module
    from muster.coordinator.api.groups.consumer_groups import may_send_heartbeat

    request: ConsumerGroupHeartbeatRequest = route.decode(frame, body, len(frame))
    if not may_send_heartbeat(node, context, request, log_denied=False):
        return None
    shard = node.routing.shard(request.group_id)
    member = shard.prepare_consumer_heartbeat(request, context.client)
    if member is None:
        return None
    return CachedHeartbeat(node, route, context, shard, member, member.response), frame[8:], None


def cache_streams_heartbeat(node: Node, route: Route, context: RequestContext, frame: bytes, body: int) -> Made | None:
    """The cached heartbeat. None unless the sender is permitted, has the tasks of its target, and says nothing."""
    # imported late: the first heartbeat of a streams group has loaded the module
    from muster.coordinator.api.groups.streams_groups import is_served

    request: StreamsGroupHeartbeatRequest = route.decode(frame, body, len(frame))
    if not is_served(node) or not may_read_group(node, context, request.group_id):
        return None
    shard = node.routing.shard(request.group_id)
    member = shard.prepare_streams_heartbeat(request, context.client)
    if member is None:
        return None
    return CachedHeartbeat(node, route, context, shard, member, member.response), frame[8:], None
