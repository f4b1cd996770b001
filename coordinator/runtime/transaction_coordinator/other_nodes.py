"""What the transaction coordinator of a node asks of nodes of other processes. A protocol only."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from muster.coordinator.log.records.markers import EndMarker
    from muster.coordinator.transactions.commands import TransactionCommand


class Peers(Protocol):
    """The other nodes (`database.node_messages` reaches them)."""

    def leads(self, topic: str, index: int) -> int | None:
        """The node that leads a partition, if that is another one."""

    def mark(self, node_id: int, marker: EndMarker, topic: str, index: int, ended: Callable[[int], object]) -> None:
        """Have another node write a marker; `ended` gets the error code."""

    def ask(self, node_id: int, command: TransactionCommand) -> None:
        """Let another node, which coordinates the transactional id, answer a `PartitionsAsked`."""
