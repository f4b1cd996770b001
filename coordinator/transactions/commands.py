"""The input of the transaction core: its settings, and commands that are not requests of the protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from muster.coordinator.state_machine.interface import Command
from muster.protocol.message import Message


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """Kafka's broker properties that the core follows; a field's name is the property's with "." as "_"."""

    transaction_max_timeout_ms: int = 900_000
    """The longest timeout that a producer may ask for its transactions."""
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    """How often the core searches for transactions that are open for longer than their timeout."""
    transactional_id_expiration_ms: int = 604_800_000
    """How long an id without an open transaction is kept after its last change."""
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    """How often the core searches for expired ids."""


@dataclass(slots=True, eq=False, repr=False)
class TransactionCommand(Command):
    """A request about a transactional id, in the newest version of its message."""

    client_transaction_version: int = 0
    """Kafka's TransactionVersion of the client: 2 from EndTxn 5 and AddPartitionsToTxn 4 on, else 0."""
    spare_producer_id: int = -1
    """A fresh, durable producer id for InitProducerId and EndTxn. -1 for other requests, and after the id was used."""

    def use_spare_id(self) -> int:
        """Return the fresh producer id, and mark this id as used. -1 when the command has none."""
        taken, self.spare_producer_id = self.spare_producer_id, -1
        return taken


@dataclass(slots=True, eq=False, repr=False)
class PartitionsAsked(Message):
    """The server's own AddPartitionsToTxn for one transactional id, before it appends records."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool
    topics: Mapping[str, Sequence[int]]
    api: ClassVar[str] = "AddPartitionsToTxn"
    """The name of the request in the history."""

    def all_with(self, error: int) -> dict[tuple[str, int], int]:
        """Each partition of the request with this error."""
        return {(topic, one): error for topic, ids in self.topics.items() for one in ids}


@dataclass(slots=True, eq=False, repr=False)
class PartitionErrors(Message):
    """The answer to `asked`: the errors, by topic and partition. Partitions without an error are left out."""

    asked: PartitionsAsked
    errors: Mapping[tuple[str, int], int]


@dataclass(slots=True, eq=False, repr=False)
class ListCommand(TransactionCommand):
    """A ListTransactions for some ids of a shard. A shard may have 100,000 ids: all at once would take too long."""

    among: Sequence[str] = field(kw_only=True)
    """The ids to be checked. An id that was removed meanwhile is left out."""


class MarkersWritten(NamedTuple):
    """The notice that each partition of an ending transaction has its marker, durably, or is deleted."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    """The producer epoch in the WriteTxnMarkersRequest."""
