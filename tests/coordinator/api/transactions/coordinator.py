"""A transaction coordinator whose answers, and their times, are set by a test; it replaces a node's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from muster.coordinator.transactions.commands import PartitionErrors, PartitionsAsked, TransactionCommand


class FakeTransactions:
    """The part of a node's `transactions` that verification uses. `errors`: errors of partitions, by topic and index;
    others have none. `asked`: the requests, as (id, producer, verify only, client's version, topics).
    """

    def __init__(self, *, ready: bool = True, holds: bool = False) -> None:
        self.routing = SimpleNamespace(ready=ready)
        self.errors: dict[tuple[str, int], int] = {}
        self.asked: list[tuple[str, tuple[int, int], bool, int, dict[str, list[int]]]] = []
        self.holds = holds
        self.held: list[Any] = []

    def ask(self, transactional_id: str, command: TransactionCommand) -> None:
        self.submit(transactional_id, command)

    def submit(self, transactional_id: str, command: TransactionCommand) -> None:
        request = command.request
        assert isinstance(request, PartitionsAsked)
        assert request.transactional_id == transactional_id
        topics = {topic: list(ids) for topic, ids in request.topics.items()}
        producer = request.producer_id, request.producer_epoch
        self.asked.append((transactional_id, producer, request.verify_only, command.client_transaction_version, topics))
        errors = {place: self.errors.get(place, 0) for place in request.all_with(0)}
        response = PartitionErrors(request, {place: error for place, error in errors.items() if error})
        if self.holds:
            self.held.append(lambda: command.respond(response))
        else:
            command.respond(response)
