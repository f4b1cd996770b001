"""Which other node has a group, and where its console is. A node over PostgreSQL has its own groups only."""

from __future__ import annotations

from typing import Any, NamedTuple

from muster.coordinator.http.failure import Failure
from muster.coordinator.server.server import Server
from muster.coordinator.topics.cluster_image import Broker
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC
from muster.protocol.hashing import group_partition


class Elsewhere(NamedTuple):
    """A node of another process. `console`: the URL of its console. None: it is not known."""

    node: int
    console: str | None

    def failure(self, group_id: str) -> Failure:
        """The answer to a request about a group of this node."""
        text = f"node {self.node} has the group {group_id[:249]}, if it exists"
        return Failure("not-found", text, self._asdict())


def others(server: Server) -> list[dict[str, Any]]:
    """The live nodes of other processes, as JSON."""
    here = {node.node_id for node in server.nodes}
    brokers = server.node.cluster.brokers
    return [_of(one)._asdict() for node, one in sorted(brokers.items()) if node not in here and not one.fenced]


def coordinator_elsewhere(server: Server, group_id: str) -> Elsewhere | None:
    """The node that coordinates a group. None: it is a node of this process, or nobody does."""
    leaders = server.topics.open.leaders_of(GROUP_OFFSETS_TOPIC)
    if not leaders:
        return None
    broker_id = leaders[group_partition(group_id, len(leaders))].broker_id
    broker = server.node.cluster.brokers.get(broker_id)
    is_here = any(node.node_id == broker_id for node in server.nodes)
    return None if broker is None or is_here else _of(broker)


def _of(broker: Broker) -> Elsewhere:
    return Elsewhere(broker.broker_id, broker.door)
