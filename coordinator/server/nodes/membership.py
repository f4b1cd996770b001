"""What a server needs to know of the other processes that share the metadata log. It is a protocol. Also the addresses
at which clients and other nodes reach this one.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from muster.coordinator.config import Config
from muster.coordinator.net.listener import WILDCARDS
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.cluster_image import Endpoint

if TYPE_CHECKING:
    from muster.coordinator.runtime.transaction_coordinator.other_nodes import Peers
    from muster.coordinator.system.jobs import JobQueue
    from muster.coordinator.topics.leadership import Place
    from muster.coordinator.topics.metadata_log import SharedMetadataLogWriter
    from muster.coordinator.topics.topics import Topics
    from muster.protocol.messages.metadata_records.partition_change_record import PartitionChangeRecord


class Histories(Protocol):
    """The writers of the histories of groups and transactions, which move with their partitions."""

    def hand_over(self, topic: str, index: int) -> Sequence[tuple[bytes | None, bytes]]:
        """Another process now leads the partition. Returns keys and values of the events that are not written yet."""

    def take_over(self, topic: str, index: int, rows: Sequence[tuple[bytes | None, bytes]]) -> None:
        """Write the rows that the previous leader has handed over."""


class Membership(Protocol):
    """This process as one node among others, in place of `nodes.cluster.Cluster`. (See `postgres.membership`.)"""

    @property
    def keeper(self) -> SharedMetadataLogWriter:
        """What writes the metadata log."""

    @property
    def peers(self) -> Peers:
        """The other nodes."""

    def joining(
        self,
        topics: Topics,
        slices: JobQueue,
        cluster_id: str,
        rack: str | None,
        endpoints: Mapping[str, Endpoint],
        renew: Callable[[str, int], object],
        histories: Histories | None = None,
    ) -> Job[None]:
        """Become one of the brokers. `renew(topic, index)`: the log of this history partition has changed. `histories`:
        returns the waiting events when a partition moves. Raises `ApiError`.
        """

    def begin(self, nodes: Iterable[Any]) -> None:
        """Begin with this node, which is about to serve."""

    def publish(self) -> None:
        """Give the node the present image."""

    async def listening(self, endpoints: Mapping[str, Endpoint]) -> None:
        """The node listens at these endpoints. Raises `ApiError`."""

    def catching_up(self) -> Job[None]:
        """See `api.node.Controller`."""

    def changing(self, decide: Callable[[], PartitionChangeRecord | None], place: Place) -> Job[None]:
        """See `api.node.Controller`."""

    def unregistering(self, broker_id: int) -> Job[None]:
        """See `api.node.Controller`."""

    def stop(self) -> None:
        """Stop following the metadata log."""


def told_endpoints(config: Config, ports: Sequence[int]) -> dict[str, Endpoint]:
    """The address of each listener for other hosts, by its name. `ports`: the bound ports of the node."""
    own_name = socket.gethostname()
    return {
        given.name: Endpoint(
            given.advertised_host or (own_name if given.host in WILDCARDS else given.host),
            given.advertised_port or port,
        )
        for given, port in zip(config.listeners, ports, strict=True)
    }
