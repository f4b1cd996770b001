"""What the shell tells the transaction core besides plain requests, and what it is asked for. No behaviour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from muster.coordinator.state_machine.interface import Client, Command, Respond
from muster.protocol.message import Message


class TransactionCommand(Command):
    """A request about a transactional id (InitProducerId, AddPartitionsToTxn, EndTxn, DescribeTransactions,
    ListTransactions), in the newest shape of its message.

    `client_transaction_version`: what the version of the request tells of its client (Kafka's TransactionVersion:
    2 from EndTxn 5 and AddPartitionsToTxn 4 on, else 0). `spare_producer_id`: a fresh id, durably taken from its
    block, for InitProducerId and EndTxn; -1 for others. When the core takes it, it becomes -1: an answer that does not
    name it may have used it too, for what comes after the transaction that is being ended.
    """

    __slots__ = ("client_transaction_version", "spare_producer_id")

    def __init__(
        self,
        request: Message,
        respond: Respond,
        client: Client,
        client_transaction_version: int = 0,
        spare_producer_id: int = -1,
    ) -> None:
        super().__init__(request, respond, client)
        self.client_transaction_version = client_transaction_version
        self.spare_producer_id = spare_producer_id

    def take_spare(self) -> int:
        """The fresh producer id, which is used from now on; -1: there is none."""
        taken, self.spare_producer_id = self.spare_producer_id, -1
        return taken


class PartitionsAsked(Message):
    """AddPartitionsToTxn for one transactional id, as the server itself asks it before it takes records: answered with
    `PartitionErrors`. `topics`: partitions by topic.
    """

    __slots__ = ("producer_epoch", "producer_id", "topics", "transactional_id", "verify_only")
    api = "AddPartitionsToTxn"
    """What it is to the history."""

    def __init__(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        verify_only: bool,
        topics: Mapping[str, Sequence[int]],
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.verify_only = verify_only
        self.topics = topics

    def all_with(self, error: int) -> dict[tuple[str, int], int]:
        """Each partition with this error."""
        return {(topic, one): error for topic, ids in self.topics.items() for one in ids}


class PartitionErrors(Message):
    """The answer to `asked`: what is wrong, by topic and partition. Those that are fine are not among them."""

    __slots__ = ("asked", "errors")

    def __init__(self, asked: PartitionsAsked, errors: Mapping[tuple[str, int], int]) -> None:
        self.asked = asked
        self.errors = errors


class ListCommand(TransactionCommand):
    """A ListTransactions of some of a shard's ids: all of 100,000 would take too long in one go."""

    __slots__ = ("among",)

    def __init__(self, request: Message, respond: Respond, client: Client, among: Sequence[str]) -> None:
        """`among`: only these ids are looked at; one that is gone meanwhile is left out."""
        super().__init__(request, respond, client)
        self.among = among


class MarkersWritten(NamedTuple):
    """Each partition of a transaction that is about to end has its marker, durably, or is no longer there."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    """As in the WriteTxnMarkersRequest that asked for them."""
