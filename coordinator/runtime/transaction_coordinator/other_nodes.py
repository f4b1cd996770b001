"""The requests of a node's transaction coordinator to nodes of other processes. A protocol only."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from muster.coordinator.log.records.markers import EndMarker
    from muster.coordinator.transactions.commands import TransactionCommand


class Peers(Protocol):
    """The other nodes, which `postgres.node_messages` reaches."""

    def leads(self, topic: str, index: int) -> int | None:
        """The id of the node that leads a partition, if that is another node."""

    def mark(self, node_id: int, marker: EndMarker, topic: str, index: int, ended: Callable[[int], object]) -> None:
        """Ask another node to write a marker; `ended` gets the error code."""

    def ask(self, node_id: int, command: TransactionCommand) -> None:
        """Ask the node that coordinates the transactional id to answer a `PartitionsAsked`."""
