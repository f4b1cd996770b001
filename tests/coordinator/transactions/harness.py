"""A transaction core for tests: short requests, the markers that it requests, and all its outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from muster.coordinator.state_machine.interface import Client, Decoded, Now, Record
from muster.coordinator.state_machine.output import Output
from muster.coordinator.transactions.commands import (
    ListCommand,
    MarkersWritten,
    TransactionCommand,
    TransactionSettings,
)
from muster.coordinator.transactions.core import TransactionCore
from muster.coordinator.transactions.events import Event
from muster.coordinator.transactions.transaction import Transaction
from muster.protocol.message import Message
from muster.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from muster.protocol.messages.describe_transactions import DescribeTransactionsRequest
from muster.protocol.messages.end_txn import EndTxnRequest
from muster.protocol.messages.init_producer_id import InitProducerIdRequest
from muster.protocol.messages.list_transactions import ListTransactionsRequest
from muster.protocol.messages.write_txn_markers import WritableTxnMarker, WriteTxnMarkersRequest

START = Now(10_000, 1_700_000_000_000)
T0 = {"t": [0]}
Topics = Mapping[str, Sequence[int]]


class TransactionHarness:
    """One core, its time, its markers that are not written yet, and the producer ids that it may use."""

    def __init__(self, log: Sequence[Decoded] = (), *, first_check_ms: int | None = None, **settings: int) -> None:
        self.settings = TransactionSettings(**settings)
        self.first_check_ms = first_check_ms
        self.max_bytes = 1_000_000
        self.now = START
        self.spare = 1_000
        self.asked = 0
        self.answers: dict[int, Message] = {}
        self.markers: dict[str, WritableTxnMarker] = {}
        self.records: list[Record] = []
        self.events: list[Event] = []
        self.core = self.load(log)

    def load(self, log: Sequence[Decoded]) -> TransactionCore:
        """A new core with the state of a log."""
        self.markers.clear()
        self.core = TransactionCore(
            self.settings,
            self.send_markers,
            first_check_ms=self.first_check_ms,
            next_producer_id=self.next_producer_id,
        )
        self.core.replay(log, self.now)
        self.collect(self.core.loaded(self.now))
        return self.core

    def restart(self) -> None:
        """Lose the core; a new one is loaded from its records."""
        self.load([(record.key, record.value) for record in self.records])

    def next_producer_id(self) -> int:
        self.spare += 1
        return self.spare

    def send_markers(self, transactional_id: str) -> Callable[[Message], object]:
        def take(request: Message) -> None:
            assert isinstance(request, WriteTxnMarkersRequest)
            assert transactional_id not in self.markers
            (self.markers[transactional_id],) = request.markers

        return take

    def collect(self, output: Output) -> Output:
        self.records.extend(output.records)
        self.events.extend(output.events)
        for respond, response in output.replies:
            respond(response)
        return output

    def ask(self, request: Message, version: int = 0, client: str = "c") -> Any:
        """The answer to a request of a client with this transaction version."""
        self.asked += 1
        number = self.asked
        spare = self.next_producer_id()
        peer = Client(client, "/10.0.0.1")

        def respond(response: Message) -> None:
            self.answers[number] = response

        command = TransactionCommand(request, respond, peer, version, spare)
        if isinstance(request, ListTransactionsRequest):
            command = ListCommand(request, respond, peer, among=[*self.core.state.transactions, "gone"])
        self.collect(self.core.handle(command, self.now, self.max_bytes))
        if command.spare_producer_id != -1:
            self.spare -= 1
        return self.answers.get(number)

    def advance(self, ms: int) -> None:
        """Let time pass, from deadline to deadline."""
        end = self.now.mono_ms + ms
        while (due := self.core.next_deadline_ms()) is not None and due <= end:
            self._move(max(due, self.now.mono_ms))
            self.collect(self.core.advance(self.now))
        self._move(end)

    def _move(self, mono_ms: int) -> None:
        self.now = Now(mono_ms, self.now.wall_ms + mono_ms - self.now.mono_ms)

    def one(self, transactional_id: str = "x") -> Transaction:
        return self.core.state.transactions[transactional_id]

    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]

    # ---- requests

    def init(
        self, transactional_id: str | None = "x", producer_id: int = -1, epoch: int = -1, timeout_ms: int = 60_000
    ) -> tuple[int, int, int]:
        """Error, producer id and epoch."""
        got = self.ask(InitProducerIdRequest(transactional_id, timeout_ms, producer_id, epoch))
        return got.error_code, got.producer_id, got.producer_epoch

    def add(
        self,
        producer: tuple[int, int],
        topics: Topics = T0,
        *,
        transactional_id: str = "x",
        verify: bool = False,
        version: int = 0,
    ) -> int | dict[tuple[str, int], int]:
        """Add partitions: one error if it is the same for all partitions, else the error of each."""
        rows = [AddPartitionsToTxnTopic(topic, list(ids)) for topic, ids in topics.items()]
        asked = AddPartitionsToTxnTransaction(transactional_id, producer[0], producer[1], verify, rows)
        got = self.ask(AddPartitionsToTxnRequest([asked]), version)
        assert got.error_code == 0
        (result,) = got.results_by_transaction
        assert result.transactional_id == transactional_id
        errors = {
            (topic.name, row.partition_index): row.partition_error_code
            for topic in result.topic_results
            for row in topic.results_by_partition
        }
        return next(iter(errors.values())) if len(set(errors.values())) == 1 else errors

    def end(
        self, producer: tuple[int, int], *, commit: bool = True, transactional_id: str = "x", version: int = 2
    ) -> tuple[int, int, int]:
        """Error, producer id and epoch."""
        got = self.ask(EndTxnRequest(transactional_id, producer[0], producer[1], commit), version)
        return got.error_code, got.producer_id, got.producer_epoch

    def written(self, transactional_id: str = "x") -> None:
        """Report that the markers of a transaction are written."""
        marker = self.markers.pop(transactional_id)
        done = MarkersWritten(transactional_id, marker.producer_id, marker.producer_epoch)
        self.collect(self.core.handle(done, self.now))

    def describe(self, *transactional_ids: str) -> Any:
        return self.ask(DescribeTransactionsRequest(transactional_ids)).transaction_states

    def list(
        self,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        duration_ms: int = -1,
        pattern: str | None = None,
    ) -> Any:
        return self.ask(ListTransactionsRequest(states, producer_ids, duration_ms, pattern))
