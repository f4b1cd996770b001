"""What the nodes of a process share: objects, states, settings, and the interface to the nodes of other processes."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from muster.coordinator.api.dispatch import Dispatcher
from muster.coordinator.api.node import Controller, Node
from muster.coordinator.config import Config
from muster.coordinator.net.listener import WILDCARDS
from muster.coordinator.runtime.figures import ShardFigures
from muster.coordinator.runtime.group_coordinator.shard import GroupShard
from muster.coordinator.runtime.routing import ByPartition
from muster.coordinator.security.authorizer import Authorizer
from muster.coordinator.server.machine import Machine
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import Job, JobQueue
from muster.coordinator.topics.cluster_image import Endpoint
from muster.coordinator.topics.topics import Topics

if TYPE_CHECKING:
    from muster.coordinator.api.node import Peers as EndPeers
    from muster.coordinator.runtime.share_coordinator.share_states import StatePeers
    from muster.coordinator.runtime.transaction_coordinator.markers import Peers as TransactionPeers
    from muster.coordinator.server.nodes.share_events import EventPeers

    class Peers(TransactionPeers, StatePeers, EventPeers, EndPeers, Protocol):
        """The nodes of other processes."""

    from muster.coordinator.server.histories import Histories
    from muster.coordinator.telemetry.reports import ClientReports
    from muster.coordinator.topics.metadata_log import SharedMetadataLogWriter


@dataclass(frozen=True, slots=True)
class LeadershipSettings:
    """The broker properties that this package uses."""

    broker_session_timeout_ms: int = 9_000
    """How long after its death a broker is treated as dead: then other brokers lead its partitions."""
    auto_leader_rebalance_enable: bool = True
    """Whether leadership periodically moves back to the preferred replicas."""
    leader_imbalance_check_interval_seconds: int = 300


class NodeState(Enum):
    """The state of a node."""

    UP = "up"
    STOPPING = "stopping"
    STOPPED = "stopped"
    KILLED = "killed"
    PAUSED = "paused"
    RETURNING = "returning"


NODE_ACTIONS: Final = {
    "stop": {NodeState.UP: NodeState.STOPPING},
    "kill": {NodeState.UP: NodeState.KILLED, NodeState.STOPPING: NodeState.KILLED, NodeState.PAUSED: NodeState.KILLED},
    "pause": {NodeState.UP: NodeState.PAUSED},
    "resume": {NodeState.PAUSED: NodeState.RETURNING},
    "return": {NodeState.STOPPED: NodeState.RETURNING, NodeState.KILLED: NodeState.RETURNING},
}
"""Action -> a state in which the action is allowed -> the next state."""


class WrongNode(Exception):
    """The node does not exist, or its state does not allow the action."""


class Membership(Controller, Protocol):
    """This process as one node of a cluster of several processes. (See `postgres.membership`.)"""

    @property
    def shared_log(self) -> SharedMetadataLogWriter:
        """The writer of the metadata log."""

    @property
    def peers(self) -> Peers:
        """The other nodes."""

    def joining(
        self,
        topics: Topics,
        job_queue: JobQueue,
        cluster_id: str,
        rack: str | None,
        endpoints: Mapping[str, Endpoint],
        renew: Callable[[str, int], object],
        histories: Histories | None = None,
    ) -> Job[None]:
        """Become one of the brokers. `renew`: see `LeaderChanges`. Raises `ApiError`."""

    async def ends(self) -> Mapping[str, Mapping[int, tuple[int, int]]]:
        """Start and end of all logs of the cluster, by topic and partition. Empty: they are not known now."""

    def begin(self, nodes: Iterable[Any]) -> None:
        """Begin with this node, which is about to serve."""

    def publish(self) -> None:
        """Give the node the present image of brokers and leaders."""

    async def listening(self, endpoints: Mapping[str, Endpoint]) -> None:
        """Register the endpoints at which the node listens. Raises `ApiError`."""

    def stop(self) -> None:
        """Stop following the metadata log."""


def advertised_endpoints(config: Config, ports: Sequence[int]) -> dict[str, Endpoint]:
    """The address of each listener for other hosts. `ports`: the bound ports of the node."""
    own_name = socket.gethostname()
    return {
        given.name: Endpoint(
            given.advertised_host or (own_name if given.host in WILDCARDS else given.host),
            given.advertised_port or port,
        )
        for given, port in zip(config.listeners, ports, strict=True)
    }


class SharedByNodes(NamedTuple):
    """What all nodes of the process share."""

    machine: Machine
    clock: Clock
    job_queue: JobQueue
    topics: Topics
    authorizer: Authorizer | None
    open_dispatcher: Callable[[Node], Dispatcher]
    observe: Callable[[int], Any]
    """Makes the observer for the groups of a partition. All nodes share the observer."""
    observe_transactions: Callable[[int], Any]
    transaction_history: str | None
    transactions_loaded: Callable[[], object]
    rack: str | None
    """The rack of the first node."""
    is_bounded: bool
    """Whether the number of the process's open files is limited."""
    group_leader_shards: ByPartition[GroupShard] | None
    """The shards of the nodes that lead. None means that the process has one node."""
    transaction_leader_shards: ByPartition[Any] | None
    share_leader_shards: ByPartition[Any] | None
    controller: Controller | None
    peers: Peers | None
    """The nodes of other processes. None means that no other process exists."""
    post: Callable[[Callable[[], object]], object]
    client_reports: ClientReports | None
    figures: ShardFigures | None
    """What is counted for scrapes. None means that nothing is counted."""
