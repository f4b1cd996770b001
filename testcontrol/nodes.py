"""The verbs on brokers of a server: stop, kill, pause, return. Call the verbs from the server's event loop only.

The verbs are those of `muster nodes` (docs/brokers.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from muster.coordinator.config.listeners import show
from muster.coordinator.server import Server
from muster.coordinator.server.nodes.common import NodeState, WrongNode
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC
from muster.protocol.errors import error_name
from muster.testcontrol.errors import CannotBeDone


@dataclass(frozen=True, slots=True)
class NodeView:
    """A broker as it is now. `state`: up, stopping, stopped, killed, returning or paused. `leads`: the number of the
    broker's partitions; `coordinates`: how many partitions of `__consumer_offsets` are among them.
    """

    node_id: int
    state: str
    rack: str | None
    addresses: tuple[str, ...]
    connections: int
    leads: int
    coordinates: int


class Nodes:
    """See the module."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def ids(self) -> list[int]:
        """The ids of all nodes."""
        return list(self._server.cluster.nodes)

    def describe(self, node_id: int) -> NodeView:
        """The node as it is now. Raises CannotBeDone when the node does not exist."""
        cluster = self._server.cluster
        node = cluster.nodes.get(node_id)
        if node is None:
            raise CannotBeDone(f"there is no node {node_id}")
        led = [topic for topic, leaders in cluster.leaders.items() for leader in leaders if leader.broker_id == node_id]
        return NodeView(
            node_id,
            cluster.states[node_id].value,
            node.config.rack,
            tuple(show(bound.host, bound.port) for bound in node.bound),
            node.connection_count(),
            len(led),
            led.count(GROUP_OFFSETS_TOPIC),
        )

    def coordinator_of(self, group_id: str) -> int:
        """The id of the node that coordinates the group; -1: no node does now."""
        index = self._server.routing.partition(group_id)
        leaders = self._server.cluster.leaders[GROUP_OFFSETS_TOPIC]
        return leaders[index].broker_id

    async def stop(self, node_id: int) -> None:
        """Controlled shutdown: other nodes take over its partitions, then its connections end. Raises CannotBeDone."""
        with _refusals():
            await self._server.cluster.stop_node(node_id)

    def kill(self, node_id: int) -> None:
        """Kill a node as SIGKILL does. Other nodes take over after `broker.session.timeout.ms`. Raises CannotBeDone."""
        with _refusals():
            self._server.cluster.kill_node(node_id)

    def pause(self, node_id: int) -> None:
        """Suspend the node as SIGSTOP does: its connections stay, and it answers nobody. Other nodes take over after
        `broker.session.timeout.ms`. Raises CannotBeDone.
        """
        with _refusals():
            self._server.cluster.pause_node(node_id)

    async def resume(self, node_id: int) -> None:
        """Continue the node after a pause, with the requests that arrived meanwhile. Raises CannotBeDone."""
        with _refusals():
            await self._server.cluster.resume_node(node_id)

    async def resume_all(self) -> None:
        """Continue all paused nodes."""
        for node_id, state in list(self._server.cluster.states.items()):
            if state is NodeState.PAUSED:
                await self.resume(node_id)

    async def return_(self, node_id: int) -> None:
        """Start a stopped or killed node again, on its old addresses. Raises CannotBeDone."""
        try:
            with _refusals():
                await self._server.cluster.return_node(node_id)
        except OSError as error:
            raise CannotBeDone(f"node {node_id} cannot listen: {error.strerror or error}") from error


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except WrongNode as refusal:
        raise CannotBeDone(str(refusal)) from refusal
    except ApiError as refusal:
        raise CannotBeDone(refusal.message or error_name(refusal.error_code)) from refusal
