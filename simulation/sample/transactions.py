"""Producers of a sample that read records, write records, and commit their offsets in transactions.

Most transactions are committed. Some are aborted: by their producer, by their timeout, or because another producer took
the transactional id over. `truth.jsonl` says which. These producers work beside the groups of the stories, with a group
and topics of their own. They draw their own random numbers, so the groups do the same with and without them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from random import Random
from typing import Any, Final

from muster.coordinator.groups.offsets.txn_commit import TxnCommitCommand
from muster.coordinator.history.transaction_journal import TransactionJournal, TransactionObservers
from muster.coordinator.runtime.transaction_coordinator.transactions import Transactions
from muster.coordinator.state_machine.interface import Client, Producer, Respond
from muster.coordinator.system.jobs import JobQueue, at_once
from muster.coordinator.topics.creation import NewTopic
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC, TRANSACTION_EVENTS_TOPIC, TRANSACTION_STATE_TOPIC
from muster.coordinator.transactions.commands import TransactionCommand, TransactionSettings
from muster.protocol.errors import error_name
from muster.protocol.message import Message
from muster.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from muster.protocol.messages.end_txn import EndTxnRequest
from muster.protocol.messages.init_producer_id import InitProducerIdRequest
from muster.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from muster.simulation.sample.truth import Truth
from muster.simulation.sample.world import World

GROUP: Final = "exactly-once"
READ: Final = "invoices"
WRITTEN: Final = "ledger"
PARTITIONS: Final = 3
"""The number of partitions of each of the two topics."""
STATE_PARTITIONS: Final = 4
TIMEOUT_MS: Final = 60_000
TRANSACTIONS: Final = 40
"""The number of transactions of each producer, over the whole time of the sample."""
AGAIN_MS: Final = 100
"""The pause of a producer before it repeats a request."""
_CONCURRENT: Final = 51
"""The error code CONCURRENT_TRANSACTIONS."""

Steps = Generator[Any, Any, Any]
"""The script of a producer. It yields ms to wait, or a function. The function gets a callback for a request's answer.
"""


class Coordinator:
    """The transaction coordinator of the sample's node."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._journals: list[TransactionObservers] = []
        topics = world.topics
        self.job_queue = JobQueue(world.clock)
        # the ids of these topics come from other random numbers than those of the groups
        drawn, world.rng = world.rng, Random(f"{GROUP}:ids")
        try:
            for name, count in ((READ, PARTITIONS), (WRITTEN, PARTITIONS)):
                at_once(topics.creating(NewTopic(name, topics.draw_uuid(), count, 1)))
            for name in (TRANSACTION_STATE_TOPIC, TRANSACTION_EVENTS_TOPIC):
                at_once(topics.ensuring(name, STATE_PARTITIONS))
        finally:
            world.rng = drawn
        topics.publish()
        self.transactions = Transactions(
            topics, world.clock, self.job_queue, world.routing.shards, TransactionSettings, observe=self._observe
        )
        self.transactions.start(1_000)

    def _observe(self, index: int) -> TransactionObservers:
        open_log = partial(self.world.topics.open.open_log, TRANSACTION_EVENTS_TOPIC, index)
        journal = TransactionJournal(index, open_log, self.world.clock)
        self._journals.append(TransactionObservers(journal, lambda _: None))
        return self._journals[-1]

    def decide(self, name: str, request: Message, client: Client, version: int, respond: Respond) -> None:
        self.transactions.decide(name, TransactionCommand(request, respond, client, version))

    def close(self) -> None:
        for one in self._journals:
            one.close()


class Worker:
    """One transactional id, and the processes that use it."""

    def __init__(self, coordinator: Coordinator, truth: Truth, number: int, version: int, seed: int) -> None:
        self.name = f"{GROUP}-{number}"
        self.random = Random(f"{seed}:{self.name}")
        self._coordinator, self._truth = coordinator, truth
        self._world = coordinator.world
        self._version = version
        self._partition = number % PARTITIONS
        self._position = 0
        self._processes = 0

    # ---- what one process does

    def process(self) -> Client:
        self._processes += 1
        return Client(f"{self.name}-{self._processes}", f"/10.9.{self._partition}.{self._processes}")

    def begin(self, client: Client) -> Steps:
        while True:
            request = InitProducerIdRequest(self.name, TIMEOUT_MS)
            answer = yield self._deciding(request, client)
            if not answer.error_code:
                return Producer(answer.producer_id, answer.producer_epoch)
            yield AGAIN_MS

    def write(self, client: Client, producer: Producer) -> Steps:
        """Begin a transaction, and commit offsets in it. Returns the time at which it began."""
        shard = self._world.routing.shard(GROUP)
        topics = [AddPartitionsToTxnTopic(WRITTEN, [self._partition]),
                  AddPartitionsToTxnTopic(GROUP_OFFSETS_TOPIC, [shard.partition])]  # fmt: skip
        one = AddPartitionsToTxnTransaction(self.name, *producer, topics=topics)
        command = partial(TransactionCommand, AddPartitionsToTxnRequest([one]), client=client,
                          client_transaction_version=self._version)  # fmt: skip
        while True:
            answer = yield lambda take: self._coordinator.transactions.submit(self.name, command(respond=take))
            (result,) = answer.results_by_transaction
            error = result.topic_results[0].results_by_partition[0].partition_error_code
            if error != _CONCURRENT:
                break
            yield AGAIN_MS
        began_ms = self._world.wall_ms
        yield self.random.randrange(20, 200)
        # records of aborted transactions are not read again, so no commit in the log goes back
        self._position += self.random.randrange(1, 500)
        row = TxnOffsetCommitRequestPartition(self._partition, self._position)
        offsets = TxnOffsetCommitRequest(
            self.name, GROUP, *producer, topics=[TxnOffsetCommitRequestTopic(READ, partitions=[row])]
        )
        yield lambda take: shard.runtime.submit(TxnCommitCommand(offsets, take, client, 0), producer)
        self._world.records += 1
        return began_ms

    def end(self, client: Client, producer: Producer, *, commit: bool) -> Steps:
        """Send EndTxn. Returns the error, and the producer with which the process continues."""
        answer = yield self._deciding(EndTxnRequest(self.name, *producer, commit), client)
        if not answer.error_code and answer.producer_id >= 0:
            producer = Producer(answer.producer_id, answer.producer_epoch)
        return answer.error_code, producer

    def _deciding(self, request: Message, client: Client) -> Callable[[Respond], None]:
        return lambda take: self._coordinator.decide(self.name, request, client, self._version, take)

    # ---- what happens to the transactional id

    def run(self, span_ms: int) -> Steps:
        """Run a transaction now and then, for `span_ms` of the sample's time."""
        yield self.random.randrange(60_000)
        client = self.process()
        producer = yield from self.begin(client)
        for number in range(1, TRANSACTIONS):
            yield max(int(span_ms / TRANSACTIONS * self.random.uniform(0.3, 1.0)), 1_000) - 500
            began_ms = yield from self.write(client, producer)
            yield self.random.randrange(10, 2_000)
            if number % 11 == 5:
                client, producer = yield from self._taken_over(client, producer, began_ms)
            elif number % 13 == 7:
                producer = yield from self._too_slow(client, producer, began_ms)
            else:
                commit = number % 7 != 3
                error, producer = yield from self.end(client, producer, commit=commit)
                assert not error, error_name(error)
                self._report(began_ms, "committed" if commit else "aborted", "client")

    def _taken_over(self, zombie: Client, producer: Producer, began_ms: int) -> Steps:
        """Start another process with the same transactional id. After that, the first process tries to commit."""
        heir = self.process()
        new = yield from self.begin(heir)
        self._report(began_ms, "aborted", "new_producer")
        yield self.random.randrange(1_000, 5_000)
        error, _ = yield from self.end(zombie, producer, commit=True)
        self._truth.write("fenced", transactional_id=self.name, time=self._world.wall_ms, client_id=zombie.client_id,
                         error=error_name(error))  # fmt: skip
        return heir, new

    def _too_slow(self, client: Client, producer: Producer, began_ms: int) -> Steps:
        """Do nothing for longer than the timeout, then begin again."""
        yield TIMEOUT_MS + 15_000
        self._report(began_ms, "aborted", "timeout")
        error, _ = yield from self.end(client, producer, commit=True)
        assert error
        return (yield from self.begin(client))

    def _report(self, began_ms: int, outcome: str, cause: str) -> None:
        self._truth.write("transaction", transactional_id=self.name, began=began_ms, time=self._world.wall_ms,
                         outcome=outcome, cause=cause, group=GROUP, offsets=1)  # fmt: skip


def follow(world: World, steps: Steps, answer: Any = None) -> None:
    """Run the steps of a worker. Each step continues when its answer arrives."""
    try:
        what = steps.send(answer)
    except StopIteration:
        return
    if isinstance(what, int):
        world.later(what, lambda _: follow(world, steps))
    else:
        # an answer never arrives within the call that sends the request
        what(lambda got: world.later(1, lambda _: follow(world, steps, got)))


def start_producers(world: World, truth: Truth, span_ms: int, seed: int) -> Coordinator:
    """Start all producers."""
    coordinator = Coordinator(world)
    for number, version in ((1, 0), (2, 2), (3, 2)):
        worker = Worker(coordinator, truth, number, version, seed)
        follow(world, worker.run(span_ms))
    return coordinator
