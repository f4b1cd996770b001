"""Random histories on two nodes. One node handles every request in steps, and both nodes send the same bytes."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from muster.coordinator.api.node import Node
from muster.coordinator.api.records import produce
from muster.coordinator.api.transactions import producers, txn_offset_commit
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.runtime.group_coordinator.settings import ShardSettings
from muster.coordinator.runtime.group_coordinator.shards import group_shards
from muster.coordinator.runtime.routing import Routing
from muster.coordinator.runtime.transaction_coordinator.transactions import Transactions
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.system.jobs import JobQueue, at_once
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from muster.coordinator.transactions.commands import TransactionSettings
from muster.protocol.api import api_named
from muster.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from muster.protocol.messages.end_txn import EndTxnRequest
from muster.protocol.messages.init_producer_id import InitProducerIdRequest
from muster.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from muster.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.coordinator.api.data_plane import send
from tests.coordinator.api.harness import Answers, Refusing, make_context, make_node
from tests.coordinator.topics.support import add_topic, batch, make_topics, started_with
from tests.support.hub import lower_response

IDS = ["x", "y", "z"]
GROUPS = ["g", "h"]
LOGS = [("t", 3), ("u", 1), (GROUP_OFFSETS_TOPIC, 2), (TRANSACTION_STATE_TOPIC, 2)]


class Side:
    """One of the two nodes, complete, over logs in memory."""

    def __init__(self, *, in_steps: bool, verifies: bool, linger_ms: int) -> None:
        self.clock = clock = ManualClock()
        topics = make_topics(
            clock=clock,
            offsets_topic_num_partitions=2,
            transaction_state_log_num_partitions=2,
            transaction_partition_verification_enable=verifies,
        )
        for name in (GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC):
            at_once(topics.ensuring(name))
        add_topic(topics, "t", 3)
        add_topic(topics, "u", 1, cleanup_policy="compact", max_message_bytes="400")
        shards = group_shards(topics, clock, GroupSettings(), ShardSettings(), lambda _: None)
        for shard in shards:
            for _ in shard.runtime.start():
                pass
        job_queue = JobQueue(clock)
        transactions = Transactions(topics, clock, job_queue, shards, TransactionSettings, linger_ms=linger_ms)
        transactions.start(100)
        self.node: Node = make_node(
            clock=clock, topics=topics, routing=Routing(shards), transactions=transactions, config=started_with({}),
            job_queue=job_queue,
        )  # fmt: skip
        self.in_steps = in_steps

    def ask(self, request: Any, version: int) -> Any:
        """The answer as bytes, and as a message."""
        with pytest.MonkeyPatch.context() as patch:
            for module in (produce, txn_offset_commit, producers):
                patch.setattr(module, "PLAIN_ROWS", 0 if self.in_steps else 50)
            return self._ask(request, version)

    def _ask(self, request: Any, version: int) -> Any:
        served = api_named(type(request).__name__.removesuffix("Request"))
        answers = send(self.node, request, version, make_context(served.key, version))
        for _ in range(60):
            self.clock.advance(0)
            if answers.all:
                break
            self.clock.advance(20)  # a client whose answer must wait
        response = answers.one()
        if response is None:
            return None, None
        encoded = served.encode_response(version, lower_response(served.key, version, response))
        return encoded if isinstance(encoded, bytes) else b"".join(encoded), response

    def written(self) -> list[bytes]:
        found = []
        for name, count in LOGS:
            for partition in self.node.topics.by_name[name].partitions[:count]:
                assert partition is not None
                found.append(bytes(partition.log.read(0, 1 << 24)) if partition.log.end_offset else b"")
        return found


class Pair:
    """Both sides, and what the producers know."""

    def __init__(self, seed: int, *, verifies: bool = True, linger_ms: int = -1) -> None:
        self.random = Random(seed)
        self.sides = [Side(in_steps=in_steps, verifies=verifies, linger_ms=linger_ms) for in_steps in (False, True)]
        self.producers: dict[str, tuple[int, int]] = {}
        self.sequences: Counter[tuple[str, int, int, int]] = Counter()

    def both(self, make: Any, version: int) -> Any:
        """`make` gives the request again for each side: handlers may keep or change it."""
        answers = [side.ask(make(), version) for side in self.sides]
        assert answers[0][0] == answers[1][0]
        assert self.sides[0].written() == self.sides[1].written()
        return answers[0][1]

    def step(self) -> None:
        each = [self.init, self.add, *[self.produce] * 5, *[self.commit] * 3, *[self.end] * 2, self.wait]
        self.random.choice(each)()

    def wait(self) -> None:
        ms = self.random.choice([1, 50, 150])
        for side in self.sides:
            side.clock.advance(ms)

    def init(self) -> None:
        name = self.random.choice(IDS)
        answer = self.both(lambda: InitProducerIdRequest(name, 60_000), 4)
        if not answer.error_code:
            self.producers[name] = answer.producer_id, answer.producer_epoch

    def producer(self) -> tuple[str, tuple[int, int]]:
        name = self.random.choice(IDS)
        if name not in self.producers:
            self.init()
        producer_id, epoch = self.producers.get(name, (77, 0))
        if self.random.random() < 0.08:
            epoch += self.random.choice([-1, 1])
        if self.random.random() < 0.03:
            producer_id += 1
        return name if self.random.random() > 0.03 else "", (producer_id, max(epoch, 0))

    def produce(self) -> None:
        random = self.random
        name, (producer_id, epoch) = self.producer()
        version = random.choice([3, 9, 11, 12, 12, 12])
        topic = random.choice(["t", "t", "t", "u", "nowhere", "__consumer_offsets"] if random.random() < 0.3 else ["t"])
        rows = []
        for index in random.sample(range(4), random.choice([1, 1, 1, 1, 1, 1, 2, 3])):
            place = topic, index, producer_id, epoch
            sequence = self.sequences[place] + (random.choice([-1, 1]) if random.random() < 0.05 else 0)
            values = [b"v" * random.randrange(300) for _ in range(random.randint(1, 3))]
            data = batch(
                *values, key=random.choice([b"k", None]), transactional=random.random() > 0.05, producer_id=producer_id,
                producer_epoch=epoch, base_sequence=max(sequence, 0), at_ms=self.sides[0].clock.now().wall_ms,
            )  # fmt: skip
            if random.random() < 0.05:
                data = data[: random.randrange(len(data))]
            elif random.random() < 0.03:
                data = data[:-1] + bytes([data[-1] ^ 1])
            rows.append((index, data))
            self.sequences[place] += len(values)
        acks = random.choice([-1, -1, -1, -1, -1, -1, 1, 7])
        self.both(
            lambda: ProduceRequest(
                name or None,
                acks,
                1_000,
                [TopicProduceData(topic, partition_data=[PartitionProduceData(*row) for row in rows])],
            ),
            version,
        )

    def commit(self) -> None:
        random = self.random
        name, producer = self.producer()
        group = random.choice(GROUPS) if random.random() > 0.03 else ""
        topics = {"t": [0], "u": [0], "nowhere": [0]} if random.random() < 0.1 else {"t": random.sample(range(4), 2)}
        generation = -1 if random.random() > 0.1 else 3
        offset, metadata = random.randrange(100), "m" * (5_000 if random.random() < 0.05 else 0)
        repeats = 2 if random.random() < 0.05 else 1
        self.both(
            lambda: TxnOffsetCommitRequest(
                name, group, *producer, generation,
                topics=[
                    TxnOffsetCommitRequestTopic(
                        topic,
                        partitions=[TxnOffsetCommitRequestPartition(one, offset, -1, metadata) for one in indexes],
                    )
                    for topic, indexes in topics.items()
                ] * repeats,
            ),
            random.choice([3, 4, 5, 5, 5]),
        )  # fmt: skip

    def add(self) -> None:
        random = self.random
        name, producer = self.producer()
        topics = {"t": [random.choice([0, 1, 2, 2, 7, -1])]}
        if random.random() < 0.3:
            topics |= random.choice(
                [{"u": [0]}, {"u": [0, 0]}, {"u": []}, {"nowhere": [0]}, {"__consumer_offsets": [0]}]
            )
        repeats = 2 if random.random() < 0.1 else 1
        self.both(
            lambda: AddPartitionsToTxnRequest(
                [
                    AddPartitionsToTxnTransaction(
                        name, *producer, False, [AddPartitionsToTxnTopic(*row) for row in topics.items()] * repeats
                    )
                ]
            ),
            3,
        )

    def end(self) -> None:
        name, producer = self.producer()
        version, commits = self.random.choice([3, 5, 5, 5]), self.random.random() > 0.3
        answer = self.both(lambda: EndTxnRequest(name, *producer, commits), version)
        if not answer.error_code and version == 5:
            self.producers[name] = answer.producer_id, answer.producer_epoch


@pytest.mark.parametrize("seed", range(6))
def test_random_histories_give_the_same_bytes_in_plain_calls_and_in_steps(seed: int) -> None:
    pair = Pair(seed, linger_ms=-(seed % 2))
    for _ in range(250):
        pair.step()


def test_histories_without_verification_give_the_same_bytes_in_plain_calls_and_in_steps() -> None:
    pair = Pair(7, verifies=False)
    for _ in range(150):
        pair.step()


@pytest.mark.parametrize(
    "refused", [(4, 2, "t"), (3, 2, "t"), (4, 5, "x"), (3, 3, "g")], ids=["write", "read", "id", "group"]
)  # fmt: skip
def test_refusals_are_the_same_in_plain_calls_and_in_steps(refused: tuple[int, int, str]) -> None:
    pair = Pair(8)
    for _ in range(30):
        pair.step()
    for side in pair.sides:
        side.node.authorizer = Refusing(refused)
    for _ in range(60):
        pair.step()


def test_a_request_of_a_closed_connection_writes_nothing() -> None:
    pair = Pair(1)
    pair.init()
    name, (producer_id, epoch) = next(iter(pair.producers.items()))
    before = pair.sides[0].written()
    for side in pair.sides:
        context = make_context(0, 12)
        records = batch(transactional=True, producer_id=producer_id, producer_epoch=epoch, base_sequence=0)
        topic = TopicProduceData("t", partition_data=[PartitionProduceData(0, records)])
        answers: Answers = send(side.node, ProduceRequest(name, -1, 1_000, [topic]), 12, context)
        context.channel.close()
        side.clock.advance(0)
        assert answers.all == []
        assert side.written()[:4] == before[:4]
    assert pair.sides[0].written() == pair.sides[1].written()
