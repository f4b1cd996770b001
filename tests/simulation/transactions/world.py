"""The world around one transaction core: clients, and a network that loses messages. The log is durable a little later
and sometimes fails. Partitions keep what they acknowledge, and the sender of markers may be slow or die.

It plays the shard and the layers above it: Produce and TxnOffsetCommit ask the core about their transaction first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Final

from muster.coordinator.log import batches
from muster.coordinator.state_machine.deadlines import NEVER
from muster.coordinator.state_machine.interface import Record
from muster.coordinator.state_machine.output import Output
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC
from muster.coordinator.transactions.commands import ListCommand, MarkersWritten, TransactionCommand
from muster.coordinator.transactions.core import TransactionCore
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from muster.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from muster.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from muster.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from muster.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from muster.protocol.messages.list_transactions import ListTransactionsRequest
from muster.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from muster.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from muster.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from muster.simulation.actor import Actor
from muster.virtual import world
from tests.simulation.run import brief
from tests.simulation.transactions.ledger import TransactionLedger
from tests.simulation.transactions.partitions import Partition
from tests.simulation.transactions.scenario import PARTITIONS, TOPIC, Scenario
from tests.simulation.transactions.watch import Watch

REQUEST_TIMEOUT_MS: Final = 2_000
TRACE: Final = 3_000
LAST_EPOCHS: Final = 32_750
TAKES_SPARE: Final = (InitProducerIdRequest, EndTxnRequest)

Answer = Callable[[Any], object]


class Broken(AssertionError):
    """A rule was broken."""


class World(world.World):
    """See the module."""

    def __init__(self, scenario: Scenario, rng: Random) -> None:
        super().__init__(rng)
        self.scenario = scenario
        self.ledger = TransactionLedger(self.fault)
        self.watch = Watch(self)
        self.partitions = {(TOPIC, number): Partition() for number in range(PARTITIONS)}
        self.partitions[GROUP_OFFSETS_TOPIC, 0] = Partition()
        self.trace: deque[tuple[int, str, Message | None]] = deque(maxlen=TRACE)
        self.happened: set[str] = set()
        self.records: list[Record] = []
        self.term = 0
        """The number of this core: the coordinator epoch."""
        self.core: TransactionCore | None = None
        self._producer_ids = 1_000
        self._alarm_ms = NEVER
        self._ended_ms: dict[int, int] = {}
        """By term: until when its answers were sent."""
        self._syncs: list[tuple[int, int]] = []
        self._durable_ms = 0
        self._load(None)

    def note(self, text: str, message: Message | None = None) -> None:
        """Add a line to the trace."""
        self.trace.append((self.ms, text, message))

    def described(self, last: int) -> list[str]:
        """The end of the trace, in words."""
        return [f"{ms:>8} ms {text} {brief(message)[:300]}" for ms, text, message in list(self.trace)[-last:]]

    def fault(self, what: str, _: BaseException | None = None) -> None:
        """End the history with a fault."""
        raise Broken(what)

    # ---- clients

    def send(self, actor: Actor, request: Message) -> None:
        """A client sends a request; the request or its answer may get lost."""
        turn = actor.turn
        self.later(REQUEST_TIMEOUT_MS, lambda _: actor.take(turn, None))
        if not self.calm and self.random() < self.scenario.lose_request:
            self.note(f"lost {actor.name}", request)
            return
        lose = not self.calm and self.random() < self.scenario.lose_reply

        def answered(response: Message) -> None:
            self.note(f"<-{' lost' if lose else ''} {actor.name}", response)
            if not lose:
                self.later(int(self.random() * 3), lambda _: actor.take(turn, response))

        def arrive(_: None) -> None:
            self.note(f"-> {actor.name}", request)
            self._handle(actor, request, answered)

        self.later(int(self.random() * 5), arrive)

    def _handle(self, actor: Any, request: Any, answer: Answer) -> None:
        version = 2 if actor.version == 2 else 0
        match request:
            case FindCoordinatorRequest():
                answer(FindCoordinatorResponse())
            case InitProducerIdRequest() | EndTxnRequest():
                self._command(actor, request, answer, version)
            case AddPartitionsToTxnRequest():
                (topic,) = request.v3_and_below_topics
                name, pair = request.v3_and_below_transactional_id, (topic.name, topic.partitions[0])
                self._add(
                    actor, name, request.v3_and_below_producer_id, request.v3_and_below_producer_epoch, pair, version,
                    verify_only=False, then=lambda error: answer(_added(pair, error)),
                )  # fmt: skip
            case AddOffsetsToTxnRequest():
                self._add(
                    actor, request.transactional_id, request.producer_id, request.producer_epoch,
                    (GROUP_OFFSETS_TOPIC, 0), version,
                    verify_only=False, then=lambda error: answer(AddOffsetsToTxnResponse(0, error)),
                )  # fmt: skip
            case ProduceRequest():
                self._produce(actor, request, answer, version)
            case TxnOffsetCommitRequest():
                row = request.topics[0].partitions[0]
                self._write(
                    actor, request.transactional_id, request.producer_id, request.producer_epoch,
                    (GROUP_OFFSETS_TOPIC, 0), version, -1,
                    [b"%s %d" % (request.group_id.encode(), row.committed_offset)],
                    lambda error: answer(TxnOffsetCommitResponse(0, [
                        TxnOffsetCommitResponseTopic(TOPIC, partitions=[TxnOffsetCommitResponsePartition(0, error)])
                    ])),
                )  # fmt: skip
            case _:
                raise TypeError(request)

    def _produce(self, actor: Any, request: ProduceRequest, answer: Answer, version: int) -> None:
        row = request.topic_data[0].partition_data[0]
        ((header, found),) = batches.read(bytes(row.records or b""))
        self._write(
            actor, request.transactional_id or "", header.producer_id, header.producer_epoch, (TOPIC, row.index),
            version, header.base_sequence, [record.value or b"" for record in found],
            lambda error: answer(ProduceResponse([
                TopicProduceResponse(TOPIC, partition_responses=[PartitionProduceResponse(row.index, error)])
            ])),
        )  # fmt: skip

    def _write(
        self, actor: Any, name: str, producer_id: int, epoch: int, pair: tuple[str, int], version: int, sequence: int,
        values: list[bytes], then: Callable[[int], object],
    ) -> None:  # fmt: skip
        """Append to a partition. If the transaction is not open there, the core is asked first."""
        partition = self.partitions[pair]
        guard = partition.guard(producer_id, epoch)

        def append(error: int) -> None:
            then(error or partition.append(producer_id, epoch, sequence, values, guard))

        if guard is None:
            append(0)
        else:
            self._add(actor, name, producer_id, epoch, pair, version, verify_only=version < 2, then=append)

    def _add(
        self, actor: Any, name: str, producer_id: int, epoch: int, pair: tuple[str, int], version: int, *,
        verify_only: bool, then: Callable[[int], object],
    ) -> None:  # fmt: skip
        topics = [AddPartitionsToTxnTopic(pair[0], [pair[1]])]
        rows = [AddPartitionsToTxnTransaction(name, producer_id, epoch, verify_only, topics)]

        def answered(response: AddPartitionsToTxnResponse) -> None:
            if response.error_code:
                then(response.error_code)
            else:
                result = response.results_by_transaction[0].topic_results[0]
                then(result.results_by_partition[0].partition_error_code)

        self._command(actor, AddPartitionsToTxnRequest(rows), answered, version)

    # ---- the shard

    def _command(self, actor: Any, request: Message, answer: Answer, version: int) -> None:
        if self.core is None:
            answer(_refusal(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
            return
        spare = -1
        if isinstance(request, TAKES_SPARE):
            self._producer_ids += 1
            spare = self._producer_ids
        # after a failed append the answer is an error for the same request
        command = TransactionCommand(request, _Refusable(request, answer), actor.client, version, spare)
        self.run_command(command)

    def ask(self, request: Message) -> Any:
        """The core's immediate answer to an administrator."""
        assert self.core is not None
        found: list[Message] = []
        client = Actor(self, "checker").client
        command = TransactionCommand(request, found.append, client)
        if isinstance(request, ListTransactionsRequest):
            command = ListCommand(request, found.append, client, among=list(self.core.state.transactions))
        for respond, response in self.core.handle(command, self.now()).replies:
            respond(response)
        return found[0]

    def run_command(self, command: TransactionCommand | MarkersWritten) -> None:
        """Handle one command."""
        assert self.core is not None
        self.events += 1
        output = self.core.handle(command, self.now(), 1 << 20)
        self._settle(output, command)
        self._arm()

    def _settle(self, output: Output, cause: TransactionCommand | MarkersWritten | None) -> None:
        """Append the records; the replies leave when these are durable."""
        scenario = self.scenario
        release_ms = max(self._durable_ms, self.ms)
        if output.records:
            self.watch.decided(output.records, cause)
            if not self.calm and self.random() < scenario.fail_append:
                self._failed(output, "append")
                return
            if scenario.sync_ms:
                release_ms = self._durable_ms = max(release_ms, self.ms + int(self.random() * scenario.sync_ms))
                self._syncs = [one for one in self._syncs if one[0] > self.ms]
                self._syncs.append((release_ms, len(self.records)))
            self.records += output.records
            for record in output.records:
                self.watch.record(record)
            if not self.calm and self.random() < scenario.fail_sync:
                self._failed(output, "sync")
                return
        for respond, response in output.replies:
            self.later(release_ms - self.ms, self._release, (self.term, respond, response))

    def _release(self, what: tuple[int, Any, Message]) -> None:
        term, respond, response = what
        if self._ended_ms.get(term, NEVER) >= self.ms:
            if isinstance(response, EndTxnResponse) and not response.error_code and term == self.term:
                self.watch.ended(respond.request)
            respond(response)

    def _failed(self, output: Output, what: str) -> None:
        """The core is dropped: its decisions are refused, and another core is made of the log."""
        self.happened.add(f"failed {what}")
        self.note(f"{what} failed")
        for respond, _ in output.replies:
            if isinstance(respond, _Refusable):
                respond.refuse()
        self._end_term(1 + int(self.random() * 100))

    def _arm(self) -> None:
        due_ms = None if self.core is None else self.core.next_deadline_ms()
        if due_ms is not None and due_ms < self._alarm_ms:
            self._alarm_ms = due_ms
            self.later(max(due_ms - self.ms, 0), self._ring, due_ms)

    def _ring(self, alarm_ms: int) -> None:
        if alarm_ms != self._alarm_ms:
            return
        self._alarm_ms = NEVER
        if self.core is not None:
            output = self.core.advance(self.now())
            if output.records:
                self.events += 1
                self.note("time")
            self._settle(output, None)
        self._arm()

    # ---- markers

    def _send_markers(self, transactional_id: str) -> Answer:
        term = self.term
        return lambda request: self._markers(term, transactional_id, request)

    def _markers(self, term: int, transactional_id: str, request: Message) -> None:
        if not isinstance(request, WriteTxnMarkersRequest):
            return
        (marker,) = request.markers
        self.watch.asked_for_markers(transactional_id, marker)
        scenario = self.scenario
        if not self.calm and self.random() < scenario.lose_markers:
            self.happened.add("markers lost")
            return
        left = [(topic.name, number) for topic in marker.topics for number in topic.partition_indexes]
        done = MarkersWritten(transactional_id, marker.producer_id, marker.producer_epoch)

        def write(pair: tuple[str, int]) -> None:
            error = self.partitions[pair].mark(
                marker.producer_id, marker.producer_epoch, term, marker.transaction_version,
                is_commit=marker.transaction_result,
            )  # fmt: skip
            if error and term == self.term:
                self.fault(f"a marker of {transactional_id} is refused by {pair}: error {error}")
            self.note(f"marker of {transactional_id} in {pair}: {error}")
            left.remove(pair)
            if not left:
                self._written(term, done, marker.transaction_version)

        for pair in list(left):
            self.later(int(self.random() * scenario.marker_ms), write, pair)

    def _written(self, term: int, done: MarkersWritten, version: int) -> None:
        """All markers are written: the core is informed, if it is still the one that asked. Perhaps it is informed
        twice. With version 2 the core can know that only from the end of the next transaction, which has another epoch.
        """
        for _ in range(2 if version == 2 and self.random() < self.scenario.repeat_done else 1):
            self.later(int(self.random() * 50), self._tell_written, (term, done))

    def _tell_written(self, what: tuple[int, MarkersWritten]) -> None:
        term, done = what
        if self.core is not None and term == self.term:
            self.note(f"written {done}")
            self.run_command(done)

    # ---- the end of a core, and the next one

    def crash(self) -> None:
        """The server dies: what is not durable is lost."""
        if self.core is None:
            return
        self.happened.add("crash")
        kept = next((before for durable_ms, before in self._syncs if durable_ms > self.ms), len(self.records))
        self.note(f"crash: {len(self.records) - kept} records lost")
        self.watch.lost(len(self.records) - kept)
        del self.records[kept:]
        self._end_term(int(self.random() * 3_000))

    def _end_term(self, down_ms: int) -> None:
        self.core = None
        self._alarm_ms = NEVER
        self._syncs.clear()
        # an answer that waits for the present ms has not been sent
        self._ended_ms[self.term] = self.ms - 1
        self._durable_ms = self.ms
        self.later(down_ms, self._load)

    def _load(self, _: None) -> None:
        self.term += 1
        self.note(f"loading, term {self.term}")
        if self.random() < 0.5:
            self._compact()
        self.watch.reloaded(self.records)
        self.core = core = self.replayed()
        self._settle(core.loaded(self.now()), None)
        self._arm()

    def _compact(self) -> None:
        """Keep only the newest record of each key, as the cleaner does."""
        newest = {record.key.transactional_id: record for record in self.records}
        self.records = [record for record in newest.values() if record.value is not None]

    def replayed(self) -> TransactionCore:
        """Another core, made of the records so far."""
        core = TransactionCore(
            self.scenario.settings, self._send_markers, first_check_ms=500, next_producer_id=self._next_producer_id
        )
        core.replay(((record.key, record.value) for record in self.records), self.now())
        return core

    def _next_producer_id(self) -> int:
        self._producer_ids += 1
        return self._producer_ids


class _Refusable:
    """Sends the answer to a command, or an error in its place."""

    def __init__(self, request: Message, answer: Answer) -> None:
        self.request = request
        self._answer = answer

    def __call__(self, response: Message) -> None:
        self._answer(response)

    def refuse(self) -> None:
        """Answer that its records were not written."""
        self._answer(_refusal(self.request, ErrorCode.NOT_COORDINATOR))


def _refusal(request: Message, error: int) -> Message:
    match request:
        case InitProducerIdRequest():
            return InitProducerIdResponse(0, error)
        case EndTxnRequest():
            return EndTxnResponse(0, error)
        case _:
            return AddPartitionsToTxnResponse(0, error)


def _added(pair: tuple[str, int], error: int) -> AddPartitionsToTxnResponse:
    rows = [AddPartitionsToTxnPartitionResult(pair[1], error)]
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[AddPartitionsToTxnTopicResult(pair[0], rows)])
