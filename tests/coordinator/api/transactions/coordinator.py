"""A transaction coordinator that answers what a test says, when it says so, in place of a node's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from muster.coordinator.transactions.commands import TransactionCommand
from muster.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)


class FakeTransactions:
    """As much of a node's `transactions` as verification asks. `errors`: of partitions, by topic and index; the others
    are fine. `asked`: what came, as (id, producer, verify only, client's version, topics).
    """

    def __init__(self, *, ready: bool = True, holds: bool = False) -> None:
        self.routing = SimpleNamespace(ready=ready)
        self.errors: dict[tuple[str, int], int] = {}
        self.asked: list[tuple[str, tuple[int, int], bool, int, dict[str, list[int]]]] = []
        self.holds = holds
        self.held: list[Any] = []

    def submit(self, transactional_id: str, command: TransactionCommand) -> None:
        request: Any = command.request
        (row,) = request.transactions
        assert row.transactional_id == transactional_id
        topics = {topic.name: list(topic.partitions) for topic in row.topics}
        producer = row.producer_id, row.producer_epoch
        self.asked.append((transactional_id, producer, row.verify_only, command.client_transaction_version, topics))
        results = [
            AddPartitionsToTxnTopicResult(
                name,
                [AddPartitionsToTxnPartitionResult(one, self.errors.get((name, one), 0)) for one in indexes],
            )
            for name, indexes in topics.items()
        ]
        response = AddPartitionsToTxnResponse(
            results_by_transaction=[AddPartitionsToTxnResult(transactional_id, results)]
        )
        if self.holds:
            self.held.append(lambda: command.respond(response))
        else:
            command.respond(response)
