"""The verbs on the brokers of a server: stop, kill, pause, and let them return. Call from the server's event loop only.

Stop, kill and return are those of `muster nodes`. A paused node keeps all that it has and answers nobody, as a process
after SIGSTOP: what it is asked waits until it goes on, and the others know nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.intercept import Intercept
from muster.coordinator.cluster.image import Endpoint
from muster.coordinator.config.listeners import show
from muster.coordinator.nodes.cluster import WrongNode
from muster.coordinator.rehearsal.errors import CannotBeDone
from muster.coordinator.server import Server
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC
from muster.protocol.errors import error_name
from muster.protocol.message import Message

PAUSED = "paused"


@dataclass(frozen=True, slots=True)
class NodeView:
    """A broker as it is now. `state`: up, stopping, stopped, killed, returning or paused; `leads`: how many partitions,
    `coordinates`: how many of `__consumer_offsets` among them.
    """

    node_id: int
    state: str
    rack: str | None
    addresses: tuple[str, ...]
    connections: int
    leads: int
    coordinates: int


class PausedNodes:
    """What nodes that are paused were asked. `intercept`: what the server is given."""

    def __init__(self) -> None:
        self.intercept = Intercept(request=self._request, response=self._response, wants=self._wants)
        self._waiting: dict[int, list[Callable[[], None]]] = {}
        self._ports: dict[tuple[str, int], int] = {}
        """By listener and port: a node that is paused."""

    def pause(self, node_id: int, endpoints: Mapping[str, Endpoint]) -> None:
        """Requests that come there wait, and so do answers to those that came before; `endpoints` by listener."""
        self._waiting.setdefault(node_id, [])
        self._ports.update({(listener, one.port): node_id for listener, one in endpoints.items()})

    def resume(self, node_id: int) -> None:
        """All that waits goes on, in its order."""
        waiting = self._waiting.pop(node_id, [])
        self._ports = {one: of for one, of in self._ports.items() if of != node_id}
        for proceed in waiting:
            proceed()

    def resume_all(self) -> None:
        """No node is paused any more."""
        for node_id in list(self._waiting):
            self.resume(node_id)

    def is_paused(self, node_id: int) -> bool:
        """Whether it is."""
        return node_id in self._waiting

    def _wants(self, context: RequestContext) -> bool:
        return bool(self._ports) and _port(context) in self._ports

    def _request(self, context: RequestContext, _: Message, proceed: Callable[[], None]) -> None:
        self._hold(context, proceed)

    def _response(
        self, context: RequestContext, response: Message | None, proceed: Callable[[Message | None], None]
    ) -> None:
        self._hold(context, lambda: proceed(response))

    def _hold(self, context: RequestContext, proceed: Callable[[], None]) -> None:
        waiting = self._waiting.get(self._ports.get(_port(context), -1))
        if waiting is None:
            proceed()
        else:
            waiting.append(proceed)


class Nodes:
    """See the module."""

    def __init__(self, server: Server, paused: PausedNodes) -> None:
        """`paused`: whose interceptor the server was given."""
        self._server = server
        self._paused = paused

    def ids(self) -> list[int]:
        """Of all nodes."""
        return list(self._server.cluster.nodes)

    def describe(self, node_id: int) -> NodeView:
        """The node as it is now. Raises CannotBeDone when there is none."""
        cluster = self._server.cluster
        node = cluster.nodes.get(node_id)
        if node is None:
            raise CannotBeDone(f"there is no node {node_id}")
        led = [topic for topic, leaders in cluster.leaders.items() for leader in leaders if leader.broker_id == node_id]
        return NodeView(
            node_id,
            PAUSED if self._paused.is_paused(node_id) else cluster.states[node_id].value,
            node.config.rack,
            tuple(show(bound.host, bound.port) for bound in node.bound),
            node.connection_count(),
            len(led),
            led.count(GROUP_OFFSETS_TOPIC),
        )

    def coordinator_of(self, group_id: str) -> int:
        """The node that coordinates the group; -1: none does now."""
        index = self._server.routing.partition(group_id)
        leaders = self._server.cluster.leaders[GROUP_OFFSETS_TOPIC]
        return leaders[index].broker_id

    async def stop(self, node_id: int) -> None:
        """Controlled shutdown: others take over what it led, then its connections end. Raises CannotBeDone."""
        self._paused.resume(node_id)
        try:
            await self._server.cluster.stop_node(node_id)
        except (WrongNode, ApiError) as refusal:
            raise _cannot(refusal) from refusal

    def kill(self, node_id: int) -> None:
        """It dies as by SIGKILL; others take over after `broker.session.timeout.ms`. Raises CannotBeDone."""
        try:
            self._server.cluster.kill_node(node_id)
        except WrongNode as refusal:
            raise _cannot(refusal) from refusal
        self._paused.resume(node_id)

    def pause(self, node_id: int) -> None:
        """It answers nobody any more, and loses nothing. Raises CannotBeDone."""
        if self.describe(node_id).state != "up":
            raise CannotBeDone(f"node {node_id} is {self.describe(node_id).state}: it cannot be told to pause")
        self._paused.pause(node_id, self._server.cluster.nodes[node_id].endpoints())

    def resume(self, node_id: int) -> None:
        """It goes on after a pause, with what it was asked meanwhile. Raises CannotBeDone."""
        if not self._paused.is_paused(node_id):
            raise CannotBeDone(f"node {node_id} is {self.describe(node_id).state}, not paused")
        self._paused.resume(node_id)

    async def return_(self, node_id: int) -> None:
        """A node that was stopped or killed starts again, where it listened before. Raises CannotBeDone."""
        try:
            await self._server.cluster.return_node(node_id)
        except (WrongNode, ApiError) as refusal:
            raise _cannot(refusal) from refusal
        except OSError as error:
            raise CannotBeDone(f"node {node_id} cannot listen: {error.strerror or error}") from error


def _port(context: RequestContext) -> tuple[str, int]:
    return context.listener, context.endpoint.port


def _cannot(refusal: WrongNode | ApiError) -> CannotBeDone:
    if isinstance(refusal, WrongNode):
        return CannotBeDone(str(refusal))
    return CannotBeDone(refusal.message or error_name(refusal.error_code))
