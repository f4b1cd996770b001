"""The verbs on the brokers of a server: stop, kill, pause, and let them return. Call from the server's event loop only.

They are those of `muster nodes` (docs/brokers.md).
"""

from __future__ import annotations

from dataclasses import dataclass

from muster.coordinator.config.listeners import show
from muster.coordinator.server import Server
from muster.coordinator.server.nodes.states import State, WrongNode
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC
from muster.protocol.errors import error_name
from muster.testcontrol.errors import CannotBeDone


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


class Nodes:
    """See the module."""

    def __init__(self, server: Server) -> None:
        self._server = server

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
            cluster.states[node_id].value,
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

    def pause(self, node_id: int) -> None:
        """It stands still as by SIGSTOP: its connections stay, and it answers nobody. Others take over after
        `broker.session.timeout.ms`. Raises CannotBeDone.
        """
        try:
            self._server.cluster.pause_node(node_id)
        except WrongNode as refusal:
            raise _cannot(refusal) from refusal

    async def resume(self, node_id: int) -> None:
        """It goes on after a pause, with what it was asked meanwhile. Raises CannotBeDone."""
        try:
            await self._server.cluster.resume_node(node_id)
        except (WrongNode, ApiError) as refusal:
            raise _cannot(refusal) from refusal

    async def resume_all(self) -> None:
        """No node is paused any more."""
        for node_id, state in list(self._server.cluster.states.items()):
            if state is State.PAUSED:
                await self.resume(node_id)

    async def return_(self, node_id: int) -> None:
        """A node that was stopped or killed starts again, where it listened before. Raises CannotBeDone."""
        try:
            await self._server.cluster.return_node(node_id)
        except (WrongNode, ApiError) as refusal:
            raise _cannot(refusal) from refusal
        except OSError as error:
            raise CannotBeDone(f"node {node_id} cannot listen: {error.strerror or error}") from error


def _cannot(refusal: WrongNode | ApiError) -> CannotBeDone:
    if isinstance(refusal, WrongNode):
        return CannotBeDone(str(refusal))
    return CannotBeDone(refusal.message or error_name(refusal.error_code))
